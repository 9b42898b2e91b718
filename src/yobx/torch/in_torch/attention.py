"""Composite kernels of attention: masks, batches, lengths and widths whose sizes are undecided."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.composite import CompositeKernel
from yobx.torch.in_torch.sizes import expression, hint, is_symbolic, of_one_batch

torch: Any = lazy("torch")
sym_or: Any = lazy("torch.fx.experimental.symbolic_shapes:sym_or")


def attention_with_a_mask_of_its_own() -> Reproducer:
    class Attention(torch.nn.Module):
        def forward(self, q, mask):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    dynamic = torch.export.Dim.DYNAMIC
    masks = [(3, 1, 4, 4), (1, 1, 4, 4), (3, 1, 1, 4), (3, 1, 4, 1)]
    return Reproducer(
        Attention(),
        inputs=dict(q=torch.randn(1, 2, 5, 8), mask=torch.randn(1, 1, 5, 5)),
        dynamic_shapes=dict(q={0: dynamic, 2: dynamic}, mask={0: dynamic, 2: dynamic, 3: dynamic}),
        accepts=[dict(q=torch.randn(3, 2, 4, 8), mask=torch.randn(*mask)) for mask in masks],
        rejects=[
            dict(q=torch.randn(3, 2, 4, 8), mask=torch.randn(3, 1, 4, 5)),
            dict(q=torch.randn(1, 2, 4, 8), mask=torch.randn(3, 1, 4, 4)),
            dict(q=torch.randn(1, 2, 1, 8), mask=torch.randn(1, 1, 1, 4)),
        ],
    )


def _fits(size: Any, target: Any) -> bool:
    """Whether the kernel finds without guarding that a dimension of the mask is the target's, or 1."""
    if not is_symbolic(size):
        return not is_symbolic(target) or (size == 1 and target.node.has_hint())
    return bool(expression(size) == expression(target))


def _sizes_of_scores(query: Any, key: Any, mask: Any) -> list[tuple[Any, Any]]:
    """Every size of a mask with that of the scores, to which it is added: in place by eager, not by what is traced."""
    torch._check(mask.ndim <= max(query.ndim, key.ndim), lambda: "The mask has more dimensions than the scores")
    return list(zip(mask.shape, (*query.shape[:-1], key.shape[-2])[-mask.ndim :])) if query.ndim == key.ndim else []


def _any_from_data(*sizes: Any) -> bool:
    """Whether there is a size that a program learns only when it runs."""
    return any(is_symbolic(size) and not size.node.has_hint() for size in sizes)


def _choice_is_undecided(query: Any, key: Any, value: Any) -> bool:
    """Whether the kernel's choice among algorithms depends on what a program is run with.

    It asks whether sequences are empty, which is unknown of one whose length comes from data, and whether values are
    as wide as queries.
    """
    if _any_from_data(*query.shape[-2:], key.shape[-2]):
        return True
    widths = query.shape[-1], value.shape[-1]
    return any(map(is_symbolic, widths)) and bool(expression(widths[0]) != expression(widths[1]))


def _without_choice(
    query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kwargs: Any
) -> Any:
    """The algorithm that takes every size, which eager uses too where no other one fits."""
    if attn_mask is not None and attn_mask.dtype is torch.bool:
        bias = torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = bias.masked_fill(attn_mask.logical_not(), -torch.inf)
    attention = torch.ops.aten._scaled_dot_product_attention_math.default
    return attention(query, key, value, attn_mask, dropout_p, *args, **kwargs)[0]


@patch(
    "torch:ops.aten.scaled_dot_product_attention.default",
    family="torch",
    name="attention_mask",
    versions="torch>=2.13",
    slots=lambda: [CompositeKernel(torch.ops.aten.scaled_dot_product_attention.default)],
    around=True,
    why="a mask may have the sizes of the scores or 1, and batches broadcast; the C++ kernel guards on which to choose its algorithm",
    see="https://github.com/pytorch/pytorch/issues/180202",
    obsolete="when the choice of the algorithm compares sizes without guarding",
    reproducer=attention_with_a_mask_of_its_own,
    group="zero_one",
)
def attention_mask(
    original: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kwargs: Any
) -> Any:
    query, key, value = of_one_batch(query, key, value)
    if attn_mask is not None:
        pairs = _sizes_of_scores(query, key, attn_mask)
        if not all(_fits(size, target) for size, target in pairs):
            attn_mask = attn_mask.expand([size if _fits(size, target) else target for size, target in pairs])
            if not _fits(*pairs[-1]):
                # The kernel guards on whether the last stride is 1, not 0.
                attn_mask = attn_mask.clone(memory_format=torch.contiguous_format)
    attention = _without_choice if _choice_is_undecided(query, key, value) else original
    return attention(query, key, value, attn_mask, dropout_p, *args, **kwargs)


def masked_attention_of_one_sequence() -> Reproducer:
    class Attention(torch.nn.Module):
        def forward(self, q, mask):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask[: q.shape[0]])

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Attention(),
        inputs=dict(q=torch.randn(1, 2, 5, 8), mask=torch.randn(1, 1, 5, 5)),
        dynamic_shapes=dict(q={0: dynamic}, mask={0: dynamic}),
        accepts=[dict(q=torch.randn(n, 2, 5, 8), mask=torch.randn(n, 1, 5, 5)) for n in (3, 1)],
        rejects=[dict(q=torch.randn(3, 2, 5, 8), mask=torch.randn(2, 1, 5, 5))],
    )


@patch(
    "torch:ops.aten.scaled_dot_product_attention.default",
    family="torch",
    name="attention_of_one_sequence",
    versions="torch>=2.9,<2.13",
    slots=lambda: [CompositeKernel(torch.ops.aten.scaled_dot_product_attention.default)],
    around=True,
    why="the C++ kernel asks of every size of the mask whether it is 1, and guards; the algorithm that needs no choice does not",
    see="https://github.com/pytorch/pytorch/issues/180202",
    obsolete="with torch 2.13, which asks last whether a size is 1",
    reproducer=masked_attention_of_one_sequence,
    group="zero_one",
)
def attention_of_one_sequence(
    original: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kwargs: Any
) -> Any:
    if attn_mask is None or not _any_from_data(*attn_mask.shape):
        if attn_mask is not None and is_symbolic(query.shape[0]) and hint(query.shape[0]) == 1:
            # A mask for all sequences is not compared with a batch of one.
            while query.ndim >= attn_mask.ndim > 2 and not is_symbolic(attn_mask.shape[0]) and attn_mask.shape[0] == 1:
                attn_mask = attn_mask.squeeze(0)
        return attention_mask(original, query, key, value, attn_mask, dropout_p, *args, **kwargs)
    query, key, value = of_one_batch(query, key, value)
    for size, target in _sizes_of_scores(query, key, attn_mask):
        torch._check(sym_or(size == 1, size == target), lambda: "The mask is larger than the scores")
    return _without_choice(query, key, value, attn_mask, dropout_p, *args, **kwargs)
