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
    versions="transformers>=5.0",
    why="the loop over blocks runs as often as the sample has them",
    obsolete="when the model computes the blocks at once",
    reproducer=sequences_of_several_blocks,
)
def local_attention(original, self, hidden_states, attention_mask=None, output_attentions=False):
    batch, length, size = hidden_states.shape
    if not self.local or output_attentions or isinstance(length, int) or not _whole_blocks(self):
        return original(self, hidden_states, attention_mask, output_attentions)
    width = self.attend_from_chunk_width
    padding = up_to_whole_chunks(length, width)
    # What is padded gets no attention at all, while a token that is masked gets its share where all of a block are.
    mask = torch.nn.functional.pad(attention_mask.float(), (0, padding, 0, padding), value=-torch.inf)
    mask = mask.unflatten(1, (-1, width)).unflatten(3, (-1, width)).diagonal(dim1=1, dim2=3).movedim(-1, 1)
    blocks = torch.nn.functional.pad(hidden_states, (0, 0, 0, padding)).reshape(-1, width, size)
    attended = self.self(blocks, blocks, mask.reshape(-1, width, width))[0]
    attended = attended.reshape(batch, length + padding, -1)[:, :length]
    return (self.output(attended, hidden_states),)
