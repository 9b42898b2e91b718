"""Images of several sizes packed into one sequence: Pixtral, which loops over them."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.rewriting import Passage, rewriting

torch: Any = lazy("torch")


def images_of_several_sizes() -> Reproducer:
    """Two images of which one is smaller than what they are padded to; one; three."""
    from transformers import PixtralVisionConfig, PixtralVisionModel

    sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    model = PixtralVisionModel(PixtralVisionConfig(image_size=16, patch_size=4, **sizes))
    dynamic = torch.export.Dim.DYNAMIC

    def inputs(*images):
        image_sizes = torch.tensor(images)
        pixel_values = torch.randn(len(images), 3, *image_sizes.amax(dim=0).tolist())
        return dict(pixel_values=pixel_values, image_sizes=image_sizes)

    return Reproducer(
        model.eval(),
        inputs=inputs((8, 16), (12, 8)),
        dynamic_shapes=dict(pixel_values={0: dynamic, 2: dynamic, 3: dynamic}, image_sizes={0: dynamic}),
        accepts=[inputs((4, 4)), inputs((16, 16), (4, 8), (9, 6)), inputs((8, 8), (8, 8))],
    )


def patches_of_images(patch_embeds: Any, image_sizes: Any, patch_size: int) -> Any:
    """The image, the row and the column of every patch that is no padding: three tensors, in the order of the loop."""
    batch, _, rows, columns = patch_embeds.shape
    row, column = (torch.arange(size, device=patch_embeds.device) for size in (rows, columns))
    if image_sizes is None:
        image = torch.arange(batch, device=patch_embeds.device)
        grid = torch.meshgrid(image, row, column, indexing="ij")
        return tuple(index.flatten() for index in grid)
    height, width = (image_sizes[:batch] // patch_size)[:, :, None, None].unbind(1)
    return torch.nonzero((row[:, None] < height) & (column < width), as_tuple=True)


def mask_among_images(image: Any, patch_embeds: Any) -> Any:
    """0 between the patches of an image, the lowest number between those of different ones."""
    others = (image[:, None] != image).to(patch_embeds.dtype)
    return (others * torch.finfo(patch_embeds.dtype).min)[None, None]


def sizes_in_a_tensor(self: Any, pixel_values: Any, image_sizes: Any = None, *args: Any, **kwargs: Any) -> bool:
    """Whether the sizes are unknown to Python, and patches of different images are kept apart by a mask."""
    flash = "flash" in str(self.config._attn_implementation)
    return not flash and (image_sizes is None or isinstance(image_sizes, torch.Tensor))


FORWARD = (
    Passage(r"if image_sizes is None:\n.*\n.*\n", ""),
    Passage(
        r"patch_embeds_list = \[\n(?:.*\n){2} +\]\n",
        "image, row, column = patches_of_images(patch_embeds, image_sizes, self.patch_size)\n",
    ),
    Passage(
        r"patch_embeds = torch\.cat\(\[p\.flatten.*", "patch_embeds = patch_embeds[image, :, row, column].unsqueeze(0)"
    ),
    Passage(
        r"generate_block_attention_mask\(\n.*\n +\)",
        "mask_among_images(image, patch_embeds)",
    ),
)
# The position of a patch is a number before 5.18, a pair since.
NUMBERS = Passage(
    r"position_ids_in_meshgrid\(\n +patch_embeds_list, max_width=(.*)\n +\)", r"row * (\1) + column"
)
PAIRS = Passage(
    r"position_ids = \[\]\n(?:.*\n)*? +position_ids = torch\.cat.*", "position_ids = torch.stack([row, column], dim=-1)"
)

for _name, _versions, _positions in (
    ("images_of_pixtral", ">=5.18", PAIRS),
    ("images_of_pixtral_v5_17", ">=4.50,<5.18", NUMBERS),
):
    patch(
        "transformers.models.pixtral.modeling_pixtral:PixtralVisionModel.forward",
        family="transformers",
        name=_name,
        around=True,
        versions=f"transformers{_versions}",
        why="the loop over images runs as often as the sample has them, and their sizes are asked in Python",
        obsolete="when the model selects the patches of its images at once",
        reproducer=images_of_several_sizes,
    )(
        rewriting(
            _name,
            *FORWARD,
            _positions,
            helpers=(patches_of_images, mask_among_images),
            when=sizes_in_a_tensor,
        )
    )
