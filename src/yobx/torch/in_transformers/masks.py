"""Attention masks whose construction asks Python about sizes."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")


def a_mask_beside_a_past() -> Reproducer:
    """The mask of a decode step: the past and the new tokens are sizes of other inputs than the mask's."""
    from transformers import LlamaConfig, masking_utils

    config = LlamaConfig(hidden_size=8, num_attention_heads=2)
    config._attn_implementation = "sdpa"

    class Mask(torch.nn.Module):
        def forward(self, x, past, attention_mask):
            kv_length = past.shape[2] + x.shape[1]
            padding = masking_utils.prepare_padding_mask(attention_mask, kv_length, 0)
            skip = masking_utils._ignore_causal_mask_sdpa(padding, x.shape[1], kv_length, past.shape[2], 0)
            positions = torch.arange(kv_length)
            return padding[:, positions].to(x.dtype) + (2 if skip is None else 1)

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, new, past, mask):
        return dict(
            x=torch.randn(batch, new, 8),
            past=torch.randn(batch, 2, past, 4),
            attention_mask=torch.arange(mask).expand(batch, -1) % 3 > 0,
        )

    return Reproducer(
        Mask(),
        inputs=inputs(2, 3, 5, 8),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, past={0: dynamic, 2: dynamic}, attention_mask={0: dynamic, 1: dynamic}),
        accepts=[inputs(2, 1, 1, 2), inputs(3, 1, 7, 8), inputs(2, 3, 5, 6), inputs(2, 3, 5, 10)],
    )


@patch(
    "transformers.masking_utils:prepare_padding_mask",
    family="transformers",
    versions="transformers>=5.0",
    why="whether the mask is shorter than the keys is asked in Python, so the program demands the sample's answer, and "
    "keys of at least two tokens",
    obsolete="when prepare_padding_mask of transformers asks nothing about sizes",
    reproducer=a_mask_beside_a_past,
    group="padding_mask",
)
def prepare_padding_mask(attention_mask, kv_length, kv_offset):
    """
    From the 2D attention mask, prepare the correct padding mask to use by potentially padding it.
    """
    local_padding_mask = attention_mask
    if attention_mask is not None:
        # Read it at every position instead of padding it by a length that may be zero
        positions = torch.arange(kv_length + kv_offset, device=attention_mask.device)
        last = attention_mask.shape[-1] - 1
        local_padding_mask = attention_mask[:, positions.clamp(max=last)] * (positions <= last)
    return local_padding_mask


@patch(
    "transformers.masking_utils:_ignore_causal_mask_sdpa",
    family="transformers",
    around=True,
    versions="transformers>=5.0",
    why="the mask is compared with the keys before it is known that a trace never skips the mask",
    obsolete="when _ignore_causal_mask_sdpa asks is_torchdynamo_exporting first",
    reproducer=a_mask_beside_a_past,
    group="padding_mask",
)
def ignore_causal_mask_sdpa(original, padding_mask, *args, **kwargs):
    if torch.compiler.is_exporting():
        return False
    return original(padding_mask, *args, **kwargs)
