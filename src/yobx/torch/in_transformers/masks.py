"""Attention masks whose construction asks Python about sizes."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch

torch: Any = lazy("torch")


@patch(
    "transformers.masking_utils:prepare_padding_mask",
    family="transformers",
    versions="transformers>=5.0",
    why="whether the mask is shorter than the keys is asked in Python, so the program demands the sample's answer, and "
    "keys of at least two tokens",
    obsolete="when prepare_padding_mask of transformers asks nothing about sizes",
    reproducer=None,
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
    reproducer=None,
    group="padding_mask",
)
def ignore_causal_mask_sdpa(original, padding_mask, *args, **kwargs):
    if torch.compiler.is_exporting():
        return False
    return original(padding_mask, *args, **kwargs)
