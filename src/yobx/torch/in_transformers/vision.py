"""Images of any size: sizes made whole numbers, and position embeddings interpolated where the size is another one."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.rewriting import Passage, rewriting

torch: Any = lazy("torch")

SHORTCUT = Passage(
    r"not (?:torch\.jit\.)?is_tracing\(\) and num_patches == num_positions and height == width",
    "certainly_the_same(num_patches, num_positions, height, width)",
)
WHOLE = Passage(r"\bint\((height|width)\)", r"torch_int(\1)", times=2)
# The models that always call it; the others do on demand.
EMBEDDINGS = [
    ("positions_of_dinov2", "dinov2", "Dinov2Embeddings", ">=4.50", (SHORTCUT,)),
    ("positions_of_dinov2_with_registers", "dinov2_with_registers", "Dinov2WithRegistersEmbeddings", ">=5.0", (SHORTCUT,)),
    # Compares the embeddings' size with the image's besides.
    (
        "positions_of_dinov2_with_registers_v4",
        "dinov2_with_registers",
        "Dinov2WithRegistersEmbeddings",
        ">=4.50,<5.0",
        (SHORTCUT, WHOLE),
    ),
]


def certainly_the_same(num_patches: Any, num_positions: Any, height: Any, width: Any) -> bool:
    """Whether the image has the size of training, for every size that a program may be given."""
    if any(isinstance(size, torch.SymInt) for size in (num_patches, height, width)):
        return False
    return num_patches == num_positions and height == width


def _images(model: str, name: str) -> Any:
    def images_of_any_size() -> Reproducer:
        """The embeddings of one model, on the size of training and on others."""
        import importlib

        from transformers import AutoConfig

        module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
        config = AutoConfig.for_model(model, hidden_size=8, image_size=16, patch_size=4, num_attention_heads=2)
        dynamic = torch.export.Dim.DYNAMIC
        return Reproducer(
            getattr(module, name)(config),
            inputs=dict(pixel_values=torch.randn(2, 3, 16, 32)),
            dynamic_shapes=dict(pixel_values={0: dynamic, 2: dynamic, 3: dynamic}),
            accepts=[dict(pixel_values=torch.randn(shape)) for shape in ((1, 3, 16, 16), (3, 3, 32, 24))],
        )

    return images_of_any_size


def positions_of_whole_patches() -> Reproducer:
    """Position embeddings interpolated to as many patches as an image has, which is computed in floats."""
    from transformers.utils import torch_int

    class Positions(torch.nn.Module):
        def forward(self, x):
            size = torch_int(x.shape[2] * 0.25), torch_int(x.shape[3] // 4)
            return torch.nn.functional.interpolate(torch.ones(1, 2, 3, 3), size=size, mode="bilinear")

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Positions(),
        inputs=dict(x=torch.randn(2, 3, 16, 32)),
        dynamic_shapes=dict(x={0: dynamic, 2: dynamic, 3: dynamic}),
        accepts=[dict(x=torch.randn(shape)) for shape in ((1, 3, 16, 16), (3, 3, 34, 24))],
    )


@patch(
    "transformers.utils.generic:torch_int",
    family="transformers",
    around=True,
    versions="transformers>=4.50",
    why="int() of a size that may change makes the program one for the sample's size",
    obsolete="when torch_int of transformers calls torch.sym_int",
    reproducer=positions_of_whole_patches,
)
def torch_int(original, x):
    return torch.sym_int(x) if isinstance(x, (torch.SymInt, torch.SymFloat)) else original(x)


for _name, _model, _class, _versions, _passages in EMBEDDINGS:
    patch(
        f"transformers.models.{_model}.modeling_{_model}:{_class}.interpolate_pos_encoding",
        family="transformers",
        name=_name,
        around=True,
        versions=f"transformers{_versions}",
        why="the program demands that no image has the size of training, or that all have it",
        obsolete="when the model asks torch.compiler.is_exporting as it does torch.jit.is_tracing",
        reproducer=_images(_model, _class),
    )(rewriting(_name, *_passages, helpers=(certainly_the_same,)))


def features_of_any_size(model: str) -> Any:
    def features_padded_for_a_stride() -> Reproducer:
        """Features of sizes that are multiples of the stride, and of others."""
        import importlib

        module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")

        class Padded(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.conv = torch.nn.Conv2d(2, 2, 3, stride=2)

            def forward(self, x):
                return self.conv(module.apply_tf_padding(x, self.conv))

        dynamic = torch.export.Dim.DYNAMIC
        return Reproducer(
            Padded(),
            inputs=dict(x=torch.randn(2, 2, 8, 9)),
            dynamic_shapes=dict(x={0: dynamic, 2: dynamic, 3: dynamic}),
            accepts=[dict(x=torch.randn(shape)) for shape in ((1, 2, 9, 8), (3, 2, 6, 6), (2, 2, 7, 11))],
        )

    return features_padded_for_a_stride


INTEGERS = Passage(r"int\((features\.shape\[-\d\])\)", r"\1", 2)
# Whether a size is a multiple of the stride is not asked.
PADDED = Passage(
    r"if in_(\w+) % stride_\1 == 0:\n.*\n    else:\n.*\n",
    r"pad_along_\1 = lacking(in_\1, kernel_\1, stride_\1)\n",
    2,
)


def lacking(size: Any, kernel: int, stride: int) -> Any:
    """How much padding a size needs for as many windows as it has strides, begun ones too."""
    along = (size - 1) // stride * stride + kernel - size
    return torch.sym_max(along, 0) if kernel < stride else along


for _model, _passages in {"mobilenet_v1": (PADDED,), "mobilenet_v2": (INTEGERS, PADDED)}.items():
    patch(
        f"transformers.models.{_model}.modeling_{_model}:apply_tf_padding",
        family="transformers",
        name=f"padding_of_{_model}",
        around=True,
        versions="transformers>=4.50",
        why="int() of a size, and whether it is a multiple of the stride, make the program one for some sizes",
        obsolete="when the model pads without int() and without asking for multiples",
        reproducer=features_of_any_size(_model),
    )(rewriting(f"padding_of_{_model}", *_passages, helpers=(lacking,)))


def features_of_whole_and_other_patches() -> Reproducer:
    """A layer of MobileViT on features that are whole patches, or not: those are interpolated."""
    from transformers import MobileViTConfig
    from transformers.models.mobilevit import modeling_mobilevit

    config = MobileViTConfig(num_attention_heads=2, patch_size=2)
    layer = modeling_mobilevit.MobileViTLayer(
        config, in_channels=4, out_channels=4, stride=1, hidden_size=8, num_stages=1
    )
    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        layer,
        inputs=dict(features=torch.randn(2, 4, 4, 5)),
        dynamic_shapes=dict(features={0: dynamic, 2: dynamic, 3: dynamic}),
        accepts=[dict(features=torch.randn(shape)) for shape in ((1, 4, 5, 3), (3, 4, 4, 4), (2, 4, 6, 7))],
    )


def whole_patches(size: Any, patch_size: int) -> Any:
    """The next multiple of the patch's size."""
    return (size + patch_size - 1) // patch_size * patch_size


def to_interpolate(new: Any, old: Any) -> bool:
    """Whether features are interpolated, which leaves them as they are where the size is the same."""
    return not isinstance(old, int) or new != old


patch(
    "transformers.models.mobilevit.modeling_mobilevit:MobileViTLayer.unfolding",
    family="transformers",
    name="patches_of_mobilevit",
    around=True,
    versions="transformers>=4.50",
    why="math.ceil of a size, and whether it is a multiple, make the program one for some sizes",
    obsolete="when the model rounds with integers, and interpolates whenever it is exported",
    reproducer=features_of_whole_and_other_patches,
)(
    rewriting(
        "patches_of_mobilevit",
        Passage(
            r"\(\n +torch_int\(torch\.ceil\(orig_(\w+) / (patch_\1)\) \* \2\)\n(?:.*\n)*?    \)",
            r"whole_patches(orig_\1, \2)",
            2,
        ),
        Passage(r"new_(\w+) != orig_\1", r"to_interpolate(new_\1, orig_\1)", 2),
        helpers=(whole_patches, to_interpolate),
    )
)
