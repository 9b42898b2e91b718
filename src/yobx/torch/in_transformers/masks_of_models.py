"""Masks that a model makes of its own, whose values, length or need are asked in Python: CPM-Ant, FSMT, Jamba, Zamba.

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


def length_of_keys(cache_position, attention_mask):
    """How many keys a causal mask is for: one more than the last position, and as many as the padding mask has."""
    length = cache_position[-1] + 1
    if attention_mask is None or attention_mask.dim() != 2:
        return length
    # Compared as tensors: equal to a size, the value of one would narrow the size's range
    torch._assert_async(length == attention_mask.shape[1], "the attention mask is not as long as the keys")
    return attention_mask.shape[1]


def _positions_and_padding(model: str, method: str) -> Any:
    def positions_and_padding() -> Reproducer:
        """The causal mask of a model, whose length is the value of the last position."""
        import importlib
        from types import SimpleNamespace

        name, _, function = method.partition(".")
        cls = getattr(importlib.import_module(f"transformers.models.{model}.modeling_{model}"), name)
        stand_in = SimpleNamespace(config=SimpleNamespace(_attn_implementation="sdpa"))

        class Mask(torch.nn.Module):
            def forward(self, x, attention_mask):
                positions = torch.arange(x.shape[1])
                return getattr(cls, function)(stand_in, attention_mask, x, positions)

        dynamic = torch.export.Dim.DYNAMIC
        shapes = {0: dynamic, 1: dynamic}

        def inputs(batch, length, mask=None):
            seen = torch.arange(length if mask is None else mask).expand(batch, -1) > 1
            return dict(x=torch.randn(batch, length, 4), attention_mask=seen.long())

        return Reproducer(
            Mask(),
            inputs=inputs(2, 6),
            dynamic_shapes=dict(x=shapes, attention_mask=shapes),
            accepts=[inputs(3, 9), inputs(1, 4), inputs(2, 1)],
            rejects=[inputs(2, 6, 8)],
        )

    return positions_and_padding


for _model, _method in {
    "jamba": "JambaModel._update_causal_mask",
    "zamba": "ZambaModel._update_causal_mask",
    "zamba2": "Zamba2Model._update_causal_mask",
}.items():
    patch(
        f"transformers.models.{_model}.modeling_{_model}:{_method}",
        family="transformers",
        name=f"causal_mask_of_{_model}",
        around=True,
        versions="transformers>=4.57,<5.0",
        why="the length of the mask is the value of a position, which a trace does not know to be that of the padding mask",
        obsolete="with transformers 5, where the model makes its mask by create_causal_mask",
        reproducer=_positions_and_padding(_model, _method),
    )(
        rewriting(
            f"causal_mask_of_{_model}",
            Passage(
                r"target_length = cache_position\[-1\] \+ 1",
                "target_length = length_of_keys(cache_position, attention_mask)",
            ),
            helpers=(length_of_keys,),
        )
    )
