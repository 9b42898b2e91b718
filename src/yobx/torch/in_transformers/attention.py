"""Attention functions that ask Python how many queries there are."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

from yobx.autopatch.slots import ItemSlot
from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import look_through, patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")
sdpa_attention: Any = lazy("transformers.integrations.sdpa_attention")
repeat_kv: Any = lazy("transformers.integrations.sdpa_attention:repeat_kv")
pack_gqa: Any = lazy("transformers.integrations.sdpa_attention:pack_gqa")
use_gqa_in_sdpa: Any = lazy("transformers.integrations.sdpa_attention:use_gqa_in_sdpa")
create_position_bias_mask: Any = lazy("transformers.integrations.sdpa_attention:create_position_bias_mask")
is_torchdynamo_compiling: Any = lazy("transformers.utils.import_utils:is_torchdynamo_compiling")
logger: Any = lazy("transformers.integrations.sdpa_attention:logger")


def _attention_functions() -> Iterator[tuple[Any, Any]]:
    """The table from which models take their attention function by name, while it is there."""
    owner = getattr(sys.modules.get("transformers.modeling_utils"), "AttentionInterface", None)
    mapping = getattr(owner, "_global_mapping", None)
    if mapping is not None:
        yield mapping, partial(ItemSlot, mapping)


look_through(_attention_functions)


def causal_unless_single(query: Any, key: Any) -> Any:
    """The mask that stands for ``is_causal=q_length > 1`` whatever the number of queries turns out to be."""
    q_length, kv_length = query.shape[2], key.shape[2]
    # Aligned to the upper left as in sdpa; a single query is moved down by so much that it sees every key
    single = 2 - torch.sym_min(q_length, 2)
    rows = torch.arange(q_length, device=query.device)[:, None] + kv_length * single
    return (torch.arange(kv_length, device=query.device) <= rows)[None, None]


def queries_from_one(layers_causal: bool = True) -> Reproducer:
    """An attention layer that has no mask, exported with one query."""
    from transformers.integrations.sdpa_attention import sdpa_attention_forward as forward

    class Attention(torch.nn.Module):
        is_causal = layers_causal

        def forward(self, q, k):
            return forward(self, q, k, k, None)[0]

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, q_length, kv_length):
        return dict(q=torch.randn(batch, 2, q_length, 4), k=torch.randn(batch, 2, kv_length, 4))

    return Reproducer(
        Attention(),
        inputs=inputs(2, 1, 5),
        dynamic_shapes=dict(q={0: dynamic, 2: dynamic}, k={0: dynamic, 2: dynamic}),
        accepts=[inputs(2, 5, 5), inputs(3, 1, 1), inputs(1, 3, 3), inputs(2, 1, 9)],
    )


@patch(
    "transformers.integrations.sdpa_attention:sdpa_attention_forward",
    family="transformers",
    versions="transformers>=5.0",
    why="is_causal becomes a SymBool, or the program is for one query or for several",
    see="https://github.com/pytorch/pytorch/issues/154038",
    obsolete="when the number of queries is the last condition and sdpa takes a SymBool",
    reproducer=queries_from_one,
)
def sdpa_attention_forward(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    position_bias: torch.Tensor | None = None,
    **kwargs,
) -> tuple[torch.Tensor, None]:
    if kwargs.get("softcap") is not None:
        raise ValueError(
            "`sdpa` attention does not support `softcap`. Try using `eager`, `flex_attention`, or the few FA kernels supporting it"
        )
    if kwargs.get("output_attentions", False):
        logger.warning_once(
            "`sdpa` attention does not support `output_attentions=True`."
            " Please set your attention to `eager` if you want any of these features."
        )

    sdpa_kwargs = {}
    q_length = query.shape[2]
    if hasattr(module, "num_key_value_groups") and module.num_key_value_groups > 1:
        if use_gqa_in_sdpa(attention_mask, key, value):
            sdpa_kwargs["enable_gqa"] = True
        elif not is_torchdynamo_compiling() and q_length == 1:
            query = pack_gqa(query, module.num_key_value_groups)
            attention_mask = pack_gqa(attention_mask, module.num_key_value_groups)
            position_bias = pack_gqa(position_bias, module.num_key_value_groups)
        else:
            key = repeat_kv(key, module.num_key_value_groups)
            value = repeat_kv(value, module.num_key_value_groups)

    kv_length = key.shape[2]

    # Instead of relying on the value set in the module directly, we use the is_causal passed in kwargs if it is presented
    is_causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)

    # The shape is asked last: with a mask, or in an encoder, the answer is known without it
    is_causal = attention_mask is None and is_causal
    if is_causal and isinstance(q_length, torch.SymInt):
        attention_mask = causal_unless_single(query, key)
        is_causal = False
    is_causal = is_causal and q_length > 1

    # Shapes (e.g. query.shape[2]) are tensors during jit tracing, resulting in `is_causal` being a tensor.
    # We convert it to a bool for the SDPA kernel that only accepts bools.
    if torch.jit.is_tracing() and isinstance(is_causal, torch.Tensor):
        is_causal = is_causal.item()

    # When `is_causal = False` and the `attention_mask` is not of boolean type, the Ascend NPU's SDPA
    # interface cannot utilize the FlashAttentionScore operator, and falls back to small-operator concatenation. To invoke the FlashAttentionScore, the attention_mask must be converted to boolean type.
    # This adaptation ensures the `attention_mask` meets the requirement for using FlashAttentionScore.
    if sdpa_attention._is_torch_npu_available:
        if attention_mask is not None and attention_mask.dtype != torch.bool:
            # Convert to boolean type, making sdpa to force call FlashAttentionScore to improve performance.
            attention_mask = torch.logical_not(attention_mask.bool()).to(query.device)

    # This scenario can only happen during prefill with an empty StaticCache. Technically, since sdpa's `is_causal` mask alignment
    # is upper-left, `is_causal=True` is enough to correctly compute the attention. However, sdpa will only dispatch to
    # flash kernel if and only if q_length == kv_length, therefore it is more efficient to slice here and remove the masked tokens
    # rather than to use the other available kernels for such a case.
    # Note that we never compile prefill, and even if the user is doing it on its own, prefill and decode are 2 separate graphs
    # anyway, so altering the shapes is fine here
    if is_causal and attention_mask is None and q_length > 1 and kv_length > q_length:
        key = key[:, :, :q_length, :]
        value = value[:, :, :q_length, :]
        # If we have a position_bias, we need to crop it as well (on last dim, which is the kv seq_len dim)
        if position_bias is not None:
            position_bias = position_bias[:, :, :, :q_length]

    # If we have a position_bias, create the correct floating-point mask by combining it with the existing mask, or a causal mask
    # if `is_causal=True`
    if position_bias is not None:
        attention_mask = create_position_bias_mask(position_bias, attention_mask, is_causal, query, key)
        is_causal = False

    attn_output = torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=dropout,
        scale=scaling,
        is_causal=is_causal,
        **sdpa_kwargs,
    )
    # Undoes `pack_gqa`, a no-op otherwise. The batch comes from the output, as SDPA broadcasts it (e.g. learned
    # queries with batch 1)
    attn_output = attn_output.reshape(attn_output.shape[0], -1, q_length, value.shape[-1])
    attn_output = attn_output.transpose(1, 2).contiguous()

    return attn_output, None


@patch(
    "transformers.integrations.sdpa_attention:sdpa_attention_forward",
    family="transformers",
    name="sdpa_attention_forward_v4",
    versions="transformers>=4.50,<5.0",
    why="is_causal becomes a SymBool, or the program is for one query or for several",
    see="https://github.com/pytorch/pytorch/issues/154038",
    obsolete="when the number of queries is the last condition and sdpa takes a SymBool",
    reproducer=queries_from_one,
)
def sdpa_attention_forward_v4(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **kwargs,
) -> tuple[torch.Tensor, None]:
    if kwargs.get("output_attentions", False) or kwargs.get("head_mask") is not None:
        logger.warning_once(
            "`sdpa` attention does not support `output_attentions=True` or `head_mask`."
            " Please set your attention to `eager` if you want any of these features."
        )
    sdpa_kwargs = {}
    # Keys that are as many as the queries already stay so whether there is a mask or not
    if hasattr(module, "num_key_value_groups") and key.shape[1] != query.shape[1]:
        if not use_gqa_in_sdpa(attention_mask, key):
            key = repeat_kv(key, module.num_key_value_groups)
            value = repeat_kv(value, module.num_key_value_groups)
        else:
            sdpa_kwargs = {"enable_gqa": True}

    if attention_mask is not None and attention_mask.ndim == 4:
        attention_mask = attention_mask[:, :, :, : key.shape[-2]]

    if is_causal is None:
        # The shape is asked last: with a mask, or in an encoder, the answer is known without it
        is_causal = attention_mask is None and getattr(module, "is_causal", True)
        if is_causal and isinstance(query.shape[2], torch.SymInt):
            attention_mask = causal_unless_single(query, key)
            is_causal = False
        is_causal = is_causal and query.shape[2] > 1

    # Shapes (e.g. query.shape[2]) are tensors during jit tracing, resulting in `is_causal` being a tensor.
    # We convert it to a bool for the SDPA kernel that only accepts bools.
    if torch.jit.is_tracing() and isinstance(is_causal, torch.Tensor):
        is_causal = is_causal.item()

    # When `is_causal = False` and the `attention_mask` is not of boolean type, the Ascend NPU's SDPA
    # interface cannot utilize the FlashAttentionScore operator, and falls back to small-operator concatenation. To invoke the FlashAttentionScore, the attention_mask must be converted to boolean type.
    # This adaptation ensures the `attention_mask` meets the requirement for using FlashAttentionScore.
    if sdpa_attention._is_torch_npu_available:
        if attention_mask is not None and attention_mask.dtype != torch.bool:
            # Convert to boolean type, making sdpa to force call FlashAttentionScore to improve performance.
            attention_mask = torch.logical_not(attention_mask.bool()).to(query.device)

    attn_output = torch.nn.functional.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=attention_mask,
        dropout_p=dropout,
        scale=scaling,
        is_causal=is_causal,
        **sdpa_kwargs,
    )
    attn_output = attn_output.transpose(1, 2).contiguous()

    return attn_output, None
