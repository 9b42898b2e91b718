"""Position embeddings that are interpolated only where the image has another size than in training."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.rewriting import rewritten

torch: Any = lazy("torch")

SHORTCUT = r"not (?:torch\.jit\.)?is_tracing\(\) and num_patches == num_positions and height == width"
# The model that always calls it; the others do on demand.
EMBEDDINGS = {"dinov2": "Dinov2Embeddings"}


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


def interpolate_pos_encoding(original, self, embeddings, height, width):
    passage = "certainly_the_same(num_patches, num_positions, height, width)"
    return rewritten(original, SHORTCUT, passage, certainly_the_same)(self, embeddings, height, width)


for _model, _name in EMBEDDINGS.items():
    patch(
        f"transformers.models.{_model}.modeling_{_model}:{_name}.interpolate_pos_encoding",
        family="transformers",
        name=f"positions_of_{_model}",
        around=True,
        versions="transformers>=4.50",
        why="the program demands that no image has the size of training, or that all have it",
        obsolete="when the model asks torch.compiler.is_exporting as it does torch.jit.is_tracing",
        reproducer=_images(_model, _name),
    )(interpolate_pos_encoding)
