"""Attention masks whose construction asks Python about sizes."""

from __future__ import annotations

import inspect
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import without_doubt

torch: Any = lazy("torch")
statically_known_true: Any = lazy("torch.fx.experimental.symbolic_shapes:statically_known_true")


def a_mask_beside_a_past() -> Reproducer:
    """The mask of a decode step: the past and the new tokens are sizes of other inputs than the mask's."""
    from transformers import masking_utils

    takes_two = "q_offset" in inspect.signature(masking_utils._ignore_causal_mask_sdpa).parameters
    offsets = (0, 0) if takes_two else (0,)

    class Mask(torch.nn.Module):
        def forward(self, x, past, attention_mask):
            kv_length = past.shape[2] + x.shape[1]
            padding = masking_utils.prepare_padding_mask(attention_mask, kv_length, 0)
            masking_utils._ignore_causal_mask_sdpa(padding, x.shape[1], kv_length, *offsets)
            return padding[:, torch.arange(kv_length)].to(x.dtype)

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
        dynamic_shapes=dict(
            x={0: dynamic, 1: dynamic}, past={0: dynamic, 2: dynamic}, attention_mask={0: dynamic, 1: dynamic}
        ),
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
    if attention_mask is not None and not statically_known_true(kv_length + kv_offset <= attention_mask.shape[-1]):
        # Read it at every position instead of padding it by a length that may be zero
        positions = torch.arange(kv_length + kv_offset, device=attention_mask.device)
        last = attention_mask.shape[-1] - 1
        local_padding_mask = attention_mask[:, positions.clamp(max=last)] * (positions <= last)
    return local_padding_mask


@patch(
    "transformers.masking_utils:prepare_padding_mask",
    family="transformers",
    name="prepare_padding_mask_v4",
    versions="transformers>=4.53,<5.0",
    why="whether the mask is shorter than the keys is asked in Python, so the program demands the sample's answer, and "
    "keys of at least two tokens",
    obsolete="with transformers 5, which has a patch of its own",
    reproducer=a_mask_beside_a_past,
    group="padding_mask",
)
def prepare_padding_mask_v4(attention_mask, kv_length, kv_offset, _slice=True):
    """
    From the 2D attention mask, prepare the correct padding mask to use by potentially padding it, and slicing
    according to the `kv_offset` if `_slice` is `True`.
    """
    local_padding_mask = attention_mask
    if attention_mask is not None:
        if not statically_known_true(kv_length + kv_offset <= attention_mask.shape[-1]):
            # Read it at every position instead of padding it by a length that may be zero
            positions = torch.arange(kv_length + kv_offset, device=attention_mask.device)
            last = attention_mask.shape[-1] - 1
            local_padding_mask = attention_mask[:, positions.clamp(max=last)] * (positions <= last)
        # For flex, we should not slice them, only use an offset
        if _slice:
            # Equivalent to: `local_padding_mask = attention_mask[:, kv_offset : kv_offset + kv_length]`,
            # but without data-dependent slicing (i.e. torch.compile friendly)
            mask_indices = torch.arange(kv_length, device=local_padding_mask.device)
            mask_indices += kv_offset
            local_padding_mask = local_padding_mask[:, mask_indices]
    return local_padding_mask


@patch(
    "transformers.masking_utils:_ignore_causal_mask_sdpa",
    family="transformers",
    around=True,
    versions="transformers>=4.53",
    why="the mask is compared with the keys before it is known that a trace never skips the mask",
    obsolete="when _ignore_causal_mask_sdpa asks is_torchdynamo_exporting first",
    reproducer=a_mask_beside_a_past,
    group="padding_mask",
)
def ignore_causal_mask_sdpa(original, padding_mask, *args, **kwargs):
    if torch.compiler.is_exporting():
        return False
    return original(padding_mask, *args, **kwargs)


def a_mask_of_two_sizes() -> Reproducer:
    """A causal mask with padding, batch and length dynamic."""
    from transformers import LlamaConfig, masking_utils

    config = LlamaConfig(hidden_size=8, num_attention_heads=2)
    config._attn_implementation = "sdpa"

    class Mask(torch.nn.Module):
        def forward(self, x, attention_mask):
            positions = torch.arange(x.shape[1])
            mask = masking_utils.create_causal_mask(config, x, attention_mask, positions, None)
            # Eager may leave out a mask that hides nothing; it is told not to by the padding of every sample here
            return mask.to(x.dtype)

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, length):
        return dict(x=torch.randn(batch, length, 8), attention_mask=torch.arange(length).expand(batch, -1) > 0)

    return Reproducer(
        Mask(),
        inputs=inputs(2, 5),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, attention_mask={0: dynamic, 1: dynamic}),
        accepts=[inputs(3, 9), inputs(1, 2)],
    )


@patch(
    "transformers.masking_utils:_vmap_for_bhqkv",
    family="transformers",
    name="vmap_for_bhqkv",
    versions="transformers>=4.53,<5.0",
    why="vmap over indices multiplies sizes that the trace does not know (8*s72 is not tracked with proxy)",
    see="https://github.com/pytorch/pytorch/issues/163713",
    obsolete="with transformers 5, which broadcasts the indices",
    reproducer=a_mask_of_two_sizes,
    group="broadcast",
)
def vmap_for_bhqkv(mask_function, bh_indices=True):
    """
    Used to broadcast our mask_functions over the q_idx and kv_idx dimensions of the inputs. Optionally, broadcast over
    the batch and head indices as well if `bh_indices=True`.

    Args:
        mask_function (`Callable`):
            The mask_function to broadcast.
        bh_indices (`bool`, optional):
            Whether to broadcast over the batch and head indices as well, or only q and kv indices.

    Returns:
        Callable: The broadcast function.
    """

    def broadcast(batch_idx, head_idx, q_idx, kv_idx):
        sizes = [q_idx.shape[0], kv_idx.shape[0]]
        if bh_indices:
            sizes = [batch_idx.shape[0], head_idx.shape[0], *sizes]
            batch_idx, head_idx = batch_idx[:, None, None, None], head_idx[:, None, None]
        # A mask function computes on single indices, so tensors of them do as well
        return mask_function(batch_idx, head_idx, q_idx[:, None], kv_idx).expand(sizes)

    return broadcast


def a_padding_mask_for_a_recurrent_layer() -> Reproducer:
    """Hidden states times the last positions of a longer mask, as before a convolution of mamba."""
    from transformers import LlamaConfig, masking_utils

    config = LlamaConfig(hidden_size=8, num_attention_heads=2)

    class Mask(torch.nn.Module):
        def forward(self, x, attention_mask):
            mask = masking_utils.create_recurrent_attention_mask(config, x, attention_mask)
            return x if mask is None else x * mask[:, :, None].to(x.dtype)

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, length, mask):
        return dict(x=torch.randn(batch, length, 8), attention_mask=torch.ones(batch, mask, dtype=torch.long))

    return Reproducer(
        Mask(),
        inputs=inputs(2, 3, 8),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, attention_mask={0: dynamic, 1: dynamic}),
        accepts=[inputs(2, 3, 3), inputs(1, 1, 5), inputs(3, 4, 4)],
        export=without_doubt,
    )


@patch(
    "transformers.masking_utils:create_recurrent_attention_mask",
    family="transformers",
    versions="transformers>=5.0",
    why="the slice of the last positions has a size that is not known to be the number of tokens, and every size after "
    "the product with it carries the doubt",
    obsolete="when create_recurrent_attention_mask of transformers slices by a start that is not negative",
    reproducer=a_padding_mask_for_a_recurrent_layer,
)
def create_recurrent_attention_mask(config, inputs_embeds, attention_mask, cache=None, **kwargs):
    if attention_mask is None or attention_mask.ndim != 2:
        return None
    batch_size, length = inputs_embeds.shape[:2]
    # Single-token decode never contains padding, so a program for any length may mask it or not
    if isinstance(length, int) and length == 1:
        return None
    if not torch.compiler.is_exporting() and torch.all(attention_mask == 1):
        return None
    torch._check(attention_mask.shape[1] >= length)
    positions = torch.arange(length, device=attention_mask.device) + (attention_mask.shape[1] - length)
    return attention_mask[:, positions].expand(batch_size, -1)
