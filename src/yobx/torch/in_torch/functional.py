"""Functions of ``torch`` that turn a size into a Python number or flag, and so fix it."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")


def causal_unless_one_step() -> Reproducer:
    class Attention(torch.nn.Module):
        def forward(self, q, k):
            return torch.nn.functional.scaled_dot_product_attention(q, k, k, is_causal=q.shape[2] > 1)

    dynamic = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}
    return Reproducer(
        Attention(),
        inputs=dict(q=torch.randn(2, 2, 1, 8), k=torch.randn(2, 2, 6, 8)),
        dynamic_shapes=dict(q=dynamic, k=dynamic),
        accepts=[dict(q=torch.randn(3, 2, n, 8), k=torch.randn(3, 2, m, 8)) for n, m in ((1, 4), (4, 4), (3, 7), (1, 1))],
    )


def numbers_from_zero_to_one() -> Reproducer:
    class Linspace(torch.nn.Module):
        def forward(self, x):
            return x * torch.linspace(0, 1, x.shape[1])

    return Reproducer(
        Linspace(),
        inputs=dict(x=torch.randn(2, 6)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m)) for n, m in ((3, 9), (1, 2), (2, 1))],
    )


@patch(
    "torch.nn.functional:scaled_dot_product_attention",
    family="torch",
    name="attention_flag",
    versions="torch>=2.9",
    around=True,
    why="is_causal may be a comparison of sizes, which the function takes for no bool, and scale made of a size, which is fixed to "
    "the sample's; the mask that the flag stands for is added instead, and the query is scaled",
    see="https://github.com/pytorch/pytorch/issues/154038",
    obsolete="when scaled_dot_product_attention takes a SymBool",
    reproducer=causal_unless_one_step,
)
def scaled_dot_product_attention(
    original: Any,
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: Any = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Any:
    # To Dynamo a comparison of sizes is a bool, though neither True nor False.
    if not (is_causal is True or is_causal is False) and attn_mask is None:
        flag = torch.full((), is_causal, dtype=torch.bool, device=query.device)
        attn_mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril() | ~flag
        is_causal = False
    if isinstance(scale, torch.SymFloat):
        # The operator takes a plain number.
        query, scale = query * scale, 1.0
    return original(
        query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
    )


def heads_causal_unless_one_step() -> Reproducer:
    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

        def forward(self, q, k, mask):
            return self.attention(q, k, k, attn_mask=mask, need_weights=False, is_causal=q.shape[1] > 1)[0]

    def inputs(b: int, n: int, m: int) -> dict[str, Any]:
        return dict(q=torch.randn(b, n, 8), k=torch.randn(b, m, 8), mask=torch.randn(n, m))

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    return Reproducer(
        Attention(),
        inputs=inputs(2, 1, 6),
        dynamic_shapes=dict(q=dynamic, k=dynamic, mask=dynamic),
        accepts=[inputs(3, 4, 4), inputs(3, 1, 4), inputs(1, 3, 7), inputs(1, 1, 1)],
    )


@patch(
    "torch.nn.functional:multi_head_attention_forward",
    family="torch",
    name="heads_flag",
    versions="torch>=2.9",
    around=True,
    why="is_causal may be a comparison of sizes, which the sample would decide; the causal mask is chosen by it instead",
    see="https://github.com/pytorch/pytorch/issues/154038",
    obsolete="when scaled_dot_product_attention takes a SymBool",
    reproducer=heads_causal_unless_one_step,
)
def multi_head_attention_forward(original: Any, query: Any, key: Any, *args: Any, **kwargs: Any) -> Any:
    flag, mask = kwargs.get("is_causal", False), kwargs.get("attn_mask")
    if isinstance(flag, torch.SymBool) and mask is not None:
        if kwargs.get("key_padding_mask") is None and not kwargs.get("need_weights", True):
            # The causal mask then stands in for the one that is given; otherwise the flag is only a hint.
            causal = torch.ones(mask.shape[-2:], dtype=torch.bool, device=mask.device).triu(1)
            if mask.dtype is not torch.bool:
                causal = torch.zeros_like(causal, dtype=mask.dtype).masked_fill(causal, -torch.inf)
            kwargs["attn_mask"] = torch.where(torch.full((), flag, dtype=torch.bool, device=mask.device), causal, mask)
        kwargs["is_causal"] = False
    return original(query, key, *args, **kwargs)


@patch(
    "torch:linspace",
    family="torch",
    name="linspace",
    versions="torch>=2.9",
    around=True,
    why="the operator takes the number of steps as a plain int, so a size is fixed to the sample's",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when aten.linspace takes its steps as SymInt",
    reproducer=numbers_from_zero_to_one,
)
def linspace(original: Any, start: Any, end: Any, steps: Any, **kwargs: Any) -> Any:
    if not isinstance(steps, torch.SymInt) or kwargs.get("out") is not None:
        return original(start, end, steps, **kwargs)
    kwargs.pop("out", None)
    dtype = kwargs.pop("dtype", None) or torch.get_default_dtype()
    device = kwargs.get("device")
    computed = dtype if dtype.is_floating_point or dtype.is_complex else torch.float64
    index = torch.arange(steps, dtype=computed, device=device)
    # As the operator does: from the start in the first half, from the end in the second, so that both are met exactly.
    length = end - start
    last = torch.sym_max(steps - 1, 1)
    lower = start + index * length / last
    upper = end - (last - index) * length / last
    out = torch.where(index < torch.sym_max(steps // 2, 1), lower, upper).to(dtype)
    return out.requires_grad_() if kwargs.get("requires_grad") else out
