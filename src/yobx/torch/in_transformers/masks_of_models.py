"""Masks that a model makes of its own, whose values, length or need are asked in Python: CPM-Ant and FSMT.

Masking nothing gives what no mask gives; so whether there is something to mask need not be known.
"""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.rewriting import Passage, rewriting

torch: Any = lazy("torch")


def tokens_with_and_without_padding() -> Reproducer:
    """The padding mask of FSMT, which is none where nothing is padded."""
    from transformers.models.fsmt import modeling_fsmt

    class Seen(torch.nn.Module):
        def forward(self, input_ids):
            mask = modeling_fsmt.make_padding_mask(input_ids, 0)
            return input_ids if mask is None else input_ids.masked_fill(mask, 0)

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Seen(),
        inputs=dict(input_ids=torch.tensor([[4, 5, 6], [7, 0, 0]])),
        dynamic_shapes=dict(input_ids={0: dynamic, 1: dynamic}),
        accepts=[dict(input_ids=torch.tensor([[4, 5, 6, 7]])), dict(input_ids=torch.tensor([[0]]))],
    )


@patch(
    "transformers.models.fsmt.modeling_fsmt:make_padding_mask",
    family="transformers",
    versions="transformers>=4.50",
    why="whether any token is padding is asked of data",
    obsolete="when the model gives the mask without asking",
    reproducer=tokens_with_and_without_padding,
)
def make_padding_mask(input_ids, padding_idx=1):
    """True for pad tokens"""
    return input_ids.eq(padding_idx)


def prompts_of_any_length() -> Reproducer:
    """The mask of CPM-Ant, whose prompts are padded on the left."""
    from transformers import CpmAntConfig
    from transformers.models.cpmant.modeling_cpmant import CpmAntModel

    class Mask(torch.nn.Module):
        def __init__(self):
            super().__init__()
            sizes = dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, dim_head=4, dim_ff=8)
            self.model = CpmAntModel(CpmAntConfig(vocab_size=16, prompt_length=3, **sizes))

        def forward(self, input_ids, span):
            length = (input_ids > 0).sum(-1)
            return self.model._prepare_attention_mask(input_ids, span, span + 1, length)

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, length):
        ids = torch.arange(batch * length).reshape(batch, length)
        return dict(input_ids=ids, span=torch.zeros_like(ids))

    shapes = {0: dynamic, 1: dynamic}
    return Reproducer(
        Mask(),
        inputs=inputs(2, 6),
        dynamic_shapes=dict(input_ids=shapes, span=shapes),
        accepts=[inputs(3, 9), inputs(1, 4)],
    )


patch(
    "transformers.models.cpmant.modeling_cpmant:CpmAntModel._prepare_attention_mask",
    family="transformers",
    name="mask_of_cpmant",
    around=True,
    versions="transformers>=4.50",
    why="the positions are a list of Python, as long as the sample",
    obsolete="when the model counts with torch.arange",
    reproducer=prompts_of_any_length,
)(
    rewriting(
        "mask_of_cpmant",
        Passage(
            r"torch\.tensor\(list\(range\(seqlen - self\.prompt_length\)\)\[::-1\], device=device\)",
            "torch.arange(seqlen - self.prompt_length, device=device).flip(0)",
        ),
        helpers=(),
    )
)
