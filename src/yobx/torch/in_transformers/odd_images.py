"""Images that a hierarchical transformer pads: to whole patches, to an even size where patches are merged, to whole windows."""

from __future__ import annotations

from functools import partial
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.chunks import up_to_whole_chunks
from yobx.torch.in_transformers.rewriting import Passage, of_any_length, rewriting, some_padding

torch: Any = lazy("torch")

# The type of a configuration, the module of its model, and what the names of the model's classes begin with.
MODELS = [
    ("swin", "swin.modeling_swin", "Swin"),
    ("swinv2", "swinv2.modeling_swinv2", "Swinv2"),
    ("maskformer-swin", "maskformer.modeling_maskformer_swin", "MaskFormerSwin"),
    ("donut-swin", "donut.modeling_donut_swin", "DonutSwin"),
    ("focalnet", "focalnet.modeling_focalnet", "FocalNet"),
]
# These embed patches of patches where the others merge them, and have no windows.
WITHOUT_WINDOWS = ("focalnet",)
IS_THERE_PADDING = Passage(r"pad_values\[3\] > 0 or pad_values\[5\] > 0", "some_padding(pad_values[3]) or some_padding(pad_values[5])")


def images_of_odd_sizes(model_type: str) -> Reproducer:
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(
        model_type, image_size=32, patch_size=4, embed_dim=4, depths=[2, 1], num_heads=[1, 1], window_size=3, num_channels=1,
        hidden_sizes=[4, 8], focal_levels=[1, 1], focal_windows=[3, 3],
    )
    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch: int, height: int, width: int) -> dict[str, Any]:
        return dict(pixel_values=torch.randn(batch, 1, height, width))

    return Reproducer(
        AutoModel.from_config(config),
        inputs=inputs(2, 48, 72),
        dynamic_shapes=dict(pixel_values={0: dynamic, 2: dynamic, 3: dynamic}),
        accepts=[inputs(1, 48, 48), inputs(3, 36, 50), inputs(2, 61, 40), inputs(1, 63, 77)],
    )


def padded(original, self, *args, **kwargs):
    if kwargs or all(isinstance(size, int) for size in args[1:]):
        return original(self, *args, **kwargs)
    states, height, width = args
    embeds = hasattr(self, "patch_size")
    rows, columns = self.patch_size if embeds else (2, 2)
    missing = (0, up_to_whole_chunks(width, columns), 0, up_to_whole_chunks(height, rows))
    # Patches are merged in states whose last dimension is the channels'.
    return torch.nn.functional.pad(states, missing if embeds else (0, 0, *missing))


for _model_type, _module, _prefix in MODELS:
    patch(
        f"transformers.models.{_module}:{_prefix}PatchEmbeddings.maybe_pad",
        family="transformers",
        name=f"padded_patches_of_{_prefix.lower()}",
        also=() if _model_type in WITHOUT_WINDOWS else (f"transformers.models.{_module}:{_prefix}PatchMerging.maybe_pad",),
        around=True,
        versions="transformers>=4.50",
        why="whether an image is whole patches, or of an even size, is asked in Python, and the program is for the sample's answer",
        obsolete="when the model pads without asking, as it does for windows",
        reproducer=partial(images_of_odd_sizes, _model_type),
    )(padded)
    if _model_type in WITHOUT_WINDOWS:
        continue
    patch(
        f"transformers.models.{_module}:{_prefix}Layer.forward",
        family="transformers",
        name=f"padded_windows_of_{_prefix.lower()}",
        around=True,
        versions="transformers>=4.50",
        why="whether windows were padded is asked in Python, only to cut the padding off",
        obsolete="when the model cuts off what may be no padding",
        reproducer=partial(images_of_odd_sizes, _model_type),
    )(rewriting("forward", IS_THERE_PADDING, helpers=(some_padding,), when=of_any_length))
