"""Attention among the tokens of a block: CANINE, whose loop runs as often as the sample has blocks."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.chunks import up_to_whole_chunks

torch: Any = lazy("torch")


def sequences_of_several_blocks() -> Reproducer:
    """Blocks of 4: part of one, a whole one, several; the last block of a row is all padding."""
    from transformers import CanineConfig
    from transformers.models.canine import modeling_canine

    config = CanineConfig(hidden_size=8, num_attention_heads=2, intermediate_size=8, num_hidden_layers=1)
    widths = [f"attend_{side}_chunk_{what}" for side in ("from", "to") for what in ("width", "stride")]
    attention = modeling_canine.CanineAttention(config, local=True, **dict.fromkeys(widths, 4))

    class Local(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = attention

        def forward(self, x, mask):
            return self.attention(x, mask[:, None, :].expand(-1, x.shape[1], -1))[0]

    dynamic = torch.export.Dim.DYNAMIC
    shapes = {0: dynamic, 1: dynamic}

    def inputs(batch, length, padding=0):
        mask = (torch.arange(length) < length - padding).float().expand(batch, -1)
        return dict(x=torch.randn(batch, length, 8), mask=mask)

    return Reproducer(
        Local(),
        inputs=inputs(2, 6),
        dynamic_shapes=dict(x=shapes, mask=shapes),
        accepts=[inputs(3, 4), inputs(1, 1), inputs(2, 11, 4)],
    )


def _whole_blocks(attention: Any) -> bool:
    """Whether every token attends to those of its block, and to no other."""
    sizes = {
        getattr(attention, f"attend_{side}_chunk_{what}") for side in ("from", "to") for what in ("width", "stride")
    }
    return len(sizes) == 1 and not (
        attention.first_position_attends_to_all or attention.always_attend_to_first_position
    )


@patch(
    "transformers.models.canine.modeling_canine:CanineAttention.forward",
    family="transformers",
    name="local_attention",
    around=True,
    versions="transformers>=4.50",
    why="the loop over blocks runs as often as the sample has them",
    obsolete="when the model computes the blocks at once",
    reproducer=sequences_of_several_blocks,
)
def local_attention(original, self, hidden_states, attention_mask=None, *others, **options):
    batch, length, size = hidden_states.shape
    # The others are a mask of heads, before 5.0, and whether the probabilities are wanted.
    asked = any(value is not None and value is not False for value in (*others, *options.values()))
    if not self.local or asked or isinstance(length, int) or not _whole_blocks(self):
        return original(self, hidden_states, attention_mask, *others, **options)
    width = self.attend_from_chunk_width
    padding = up_to_whole_chunks(length, width)
    # What is padded gets no attention at all, while a token that is masked gets its share where all of a block are.
    mask = torch.nn.functional.pad(attention_mask.float(), (0, padding, 0, padding), value=-torch.inf)
    mask = mask.unflatten(1, (-1, width)).unflatten(3, (-1, width)).diagonal(dim1=1, dim2=3).movedim(-1, 1)
    blocks = torch.nn.functional.pad(hidden_states, (0, 0, 0, padding)).reshape(-1, width, size)
    attended = self.self(blocks, blocks, mask.reshape(-1, width, width))[0]
    attended = attended.reshape(batch, length + padding, -1)[:, :length]
    return (self.output(attended, hidden_states),)


def masks_of_short_and_long_texts() -> Reproducer:
    """The mask of blocks of 4 characters, for texts of one block and of several; its rank is not asked by the size."""
    from transformers import CanineConfig
    from transformers.models.canine import modeling_canine

    class Masks(torch.nn.Module):
        def __init__(self):
            super().__init__()
            sizes = dict(hidden_size=8, num_attention_heads=2, intermediate_size=8, num_hidden_layers=1)
            self.model = modeling_canine.CanineModel(CanineConfig(**sizes, num_hash_functions=2))

        def forward(self, mask):
            mask = self.model._downsample_attention_mask(mask, 4)
            return self.model.get_extended_attention_mask(mask, (mask.shape[0], mask.shape[-1]))

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, length):
        return dict(mask=(torch.arange(length) < length - 4).float().expand(batch, -1))

    return Reproducer(
        Masks(),
        inputs=inputs(2, 9),
        dynamic_shapes=dict(mask={0: dynamic, 1: dynamic}),
        accepts=[inputs(3, 4), inputs(1, 7), inputs(2, 12)],
    )


@patch(
    "transformers.models.canine.modeling_canine:CanineModel._downsample_attention_mask",
    family="transformers",
    name="mask_of_blocks",
    around=True,
    versions="transformers>=4.50,<5.13",
    why="the mask is squeezed where it has one block, and its rank decides in Python how it is extended",
    obsolete="when the model drops the dimension that it added, as it does since transformers 5.13",
    reproducer=masks_of_short_and_long_texts,
)
def mask_of_blocks(original, self, char_attention_mask, downsampling_rate):
    return original(self, char_attention_mask, downsampling_rate).flatten(1)
