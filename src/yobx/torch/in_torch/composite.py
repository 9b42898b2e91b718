"""Composite operators written in C++, whose choice of layout guards on sizes.

Such an operator is split into others before any fake tensor sees it, and the Python dispatcher asks the operator's table
of Python kernels first. A kernel put there stands in for the C++ one while programs are traced.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.marks import passing
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import broadcast_size, expression, has_broadcast, is_symbolic
from yobx.torch.in_torch.tables import KernelSlot

torch: Any = lazy("torch")
utils: Any = lazy("torch._prims_common")
fake_impls: Any = lazy("torch._subclasses.fake_impls")


class CompositeKernel(KernelSlot):
    """The place of the Python kernel of a composite operator; without one, the C++ kernel stands there."""

    def __init__(self, operator: Any) -> None:
        super().__init__(operator, torch._C.DispatchKey.CompositeImplicitAutograd)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            return operator._op_dk(self.dispatch_key, *args, **kwargs)

        kernel.__name__ = operator.__name__
        self._native: Callable[..., Any] = kernel

    def key(self) -> Hashable:
        return (id(self.operator), "composite")

    def get(self) -> Any:
        return self.operator.py_kernels.get(self.dispatch_key, self._native)

    def own(self) -> bool:
        return self.dispatch_key in self.operator.py_kernels

    def __repr__(self) -> str:
        return f"the composite kernel of {self.operator}"


def reshape_of_one_row() -> Reproducer:
    class Reshape(torch.nn.Module):
        def forward(self, x):
            return x.transpose(0, 1).reshape(x.shape[0] * x.shape[1], -1)

    return Reproducer(
        Reshape(),
        inputs=dict(x=torch.randn(1, 5, 8)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m, 8)) for n, m in ((3, 5), (1, 1), (4, 1))],
    )


@patch(
    "torch:ops.aten.reshape.default",
    family="torch",
    name="reshape",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten.reshape.default)],
    around=True,
    why="whether a reshape is a view or a copy is a question of layout; the C++ kernel guards on sizes to answer it",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when computeStride in ATen asks without guarding",
    reproducer=reshape_of_one_row,
    group="zero_one",
)
def reshape(original: Any, self: Any, shape: Any) -> Any:
    if not any(map(is_symbolic, (*self.shape, *shape))) or self.is_sparse or self.is_mkldnn or self.ndim == 0:
        return original(self, shape)
    passing()
    if utils.is_contiguous_or_false(self):
        return self.view(shape)
    sizes = utils.infer_size(shape, self.numel())
    if fake_impls._compute_stride(self.shape, self.stride(), sizes, size_oblivious=True) is not None:
        return self.view(sizes)
    return torch.ops.aten._unsafe_view(self.clone(memory_format=torch.contiguous_format), sizes)


def linear_of_one_row() -> Reproducer:
    class Linear(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 3)

        def forward(self, x):
            return self.linear(x.transpose(0, 1))

    return Reproducer(
        Linear(),
        inputs=dict(x=torch.randn(1, 5, 8)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m, 8)) for n, m in ((3, 5), (1, 1), (4, 1))],
    )


@patch(
    "torch:ops.aten.linear.default",
    family="torch",
    name="linear",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten.linear.default)],
    around=True,
    why="whether rows can be flattened without a copy is a question of layout; the C++ kernel guards on sizes to answer it",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when computeStride in ATen asks without guarding",
    reproducer=linear_of_one_row,
    group="zero_one",
)
def linear(original: Any, input: Any, weight: Any, bias: Any = None) -> Any:
    if bias is None or input.ndim < 3 or not any(map(is_symbolic, input.shape)) or utils.is_contiguous_or_false(input):
        return original(input, weight, bias)
    passing()
    return torch.matmul(input, weight.t()) + bias


def attention_with_a_mask_of_its_own() -> Reproducer:
    class Attention(torch.nn.Module):
        def forward(self, q, mask):
            return torch.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=mask)

    dynamic = torch.export.Dim.DYNAMIC
    masks = [(3, 1, 4, 4), (1, 1, 4, 4), (3, 1, 1, 4)]
    return Reproducer(
        Attention(),
        inputs=dict(q=torch.randn(1, 2, 5, 8), mask=torch.randn(1, 1, 5, 5)),
        dynamic_shapes=dict(q={0: dynamic, 2: dynamic}, mask={0: dynamic, 2: dynamic, 3: dynamic}),
        accepts=[dict(q=torch.randn(3, 2, 4, 8), mask=torch.randn(*mask)) for mask in masks],
        rejects=[dict(q=torch.randn(3, 2, 4, 8), mask=torch.randn(3, 1, 4, 5))],
    )


def _fits(size: Any, target: Any) -> bool:
    """Whether the kernel finds without guarding that a dimension of the mask is the target's, or 1."""
    if not is_symbolic(size):
        return not is_symbolic(target) or (size == 1 and target.node.has_hint())
    return bool(expression(size) == expression(target))


@patch(
    "torch:ops.aten.scaled_dot_product_attention.default",
    family="torch",
    name="attention_mask",
    versions="torch>=2.13",
    slots=lambda: [CompositeKernel(torch.ops.aten.scaled_dot_product_attention.default)],
    around=True,
    why="a mask may have the sizes of the scores or 1; the C++ kernel guards on which to choose its algorithm",
    see="https://github.com/pytorch/pytorch/issues/180202",
    obsolete="when the choice of the algorithm compares sizes without guarding",
    reproducer=attention_with_a_mask_of_its_own,
    group="zero_one",
)
def attention_mask(
    original: Any, query: Any, key: Any, value: Any, attn_mask: Any = None, dropout_p: float = 0.0, *args: Any, **kwargs: Any
) -> Any:
    if attn_mask is not None and query.ndim == key.ndim == 4:
        pairs = list(zip(attn_mask.shape, (*query.shape[:-1], key.shape[-2])[-attn_mask.ndim :]))
        if not all(_fits(size, target) for size, target in pairs):
            attn_mask = attn_mask.expand([size if _fits(size, target) else target for size, target in pairs])
    return original(query, key, value, attn_mask, dropout_p, *args, **kwargs)


def einsum_of_unrelated_batches() -> Reproducer:
    class Einsum(torch.nn.Module):
        def forward(self, a, b):
            return torch.einsum("bij,bjk->bik", a, b)

    return Reproducer(
        Einsum(),
        inputs=dict(a=torch.randn(2, 3, 4), b=torch.randn(2, 4, 5)),
        dynamic_shapes=dict(a={0: torch.export.Dim.DYNAMIC}, b={0: torch.export.Dim.DYNAMIC}),
        accepts=[dict(a=torch.randn(n, 3, 4), b=torch.randn(m, 4, 5)) for n, m in ((3, 3), (1, 3), (3, 1))],
        rejects=[dict(a=torch.randn(3, 3, 4), b=torch.randn(2, 4, 5))],
    )


@patch(
    "torch:ops.aten.einsum.default",
    family="torch",
    name="einsum",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten.einsum.default)],
    around=True,
    why="dimensions of one label broadcast; the C++ kernel demands that undecided ones be equal",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="when torch gives an undecided broadcast a size of its own instead of a guard",
    reproducer=einsum_of_unrelated_batches,
    group="broadcast",
)
def einsum(original: Any, equation: str, tensors: Any, *, path: Any = None) -> Any:
    labels = [part.strip() for part in equation.replace(" ", "").partition("->")[0].split(",")]
    if len(labels) != len(tensors) or "." in equation or any(len(label) != tensor.ndim for label, tensor in zip(labels, tensors)):
        return original(equation, tensors, path=path)
    sizes: dict[str, Any] = {}
    for label, tensor in zip(labels, tensors):
        for name, size in zip(label, tensor.shape):
            sizes[name] = broadcast_size(sizes.get(name, 1), size)
    undecided = {name for name, size in sizes.items() if is_symbolic(size) and has_broadcast(size.node.expr)}
    if undecided:
        tensors = [
            tensor.expand([sizes[n] if n in undecided else size for n, size in zip(label, tensor.shape)])
            for label, tensor in zip(labels, tensors)
        ]
    return original(equation, tensors, path=path)


def max_pooling_of_any_length() -> Reproducer:
    return Reproducer(
        torch.nn.MaxPool1d(2),
        inputs=dict(input=torch.randn(2, 4, 10)),
        dynamic_shapes=dict(input={0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}),
        accepts=[dict(input=torch.randn(n, 4, m)) for n, m in ((3, 7), (1, 2))],
        rejects=[dict(input=torch.randn(3, 4, 1))],
    )


@patch(
    "torch:ops.aten.max_pool1d.default",
    family="torch",
    name="max_pool1d",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten.max_pool1d.default)],
    around=True,
    why="the C++ kernel reads the length as a plain int, which fixes it to the sample's",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when max_pool1d in ATen keeps its sizes symbolic",
    reproducer=max_pooling_of_any_length,
)
def max_pool1d(original: Any, self: Any, kernel_size: Any, *args: Any, **kwargs: Any) -> Any:
    if not is_symbolic(self.shape[-1]):
        return original(self, kernel_size, *args, **kwargs)
    return torch.ops.aten.max_pool1d_with_indices.default(self, kernel_size, *args, **kwargs)[0]


def matmul_of_unrelated_batches() -> Reproducer:
    class Matmul(torch.nn.Module):
        def forward(self, a, b):
            return a @ b

    return Reproducer(
        Matmul(),
        inputs=dict(a=torch.randn(1, 3, 4), b=torch.randn(2, 4, 5)),
        dynamic_shapes=dict(a={0: torch.export.Dim.DYNAMIC}, b={0: torch.export.Dim.DYNAMIC}),
        accepts=[dict(a=torch.randn(n, 3, 4), b=torch.randn(m, 4, 5)) for n, m in ((2, 2), (3, 1), (1, 1))],
        rejects=[dict(a=torch.randn(3, 3, 4), b=torch.randn(2, 4, 5))],
    )


@patch(
    "torch:ops.aten.matmul.default",
    family="torch",
    name="matmul",
    versions="torch>=2.9,<2.13",
    slots=lambda: [CompositeKernel(torch.ops.aten.matmul.default)],
    around=True,
    why="batches of undecided size broadcast; the original guards on their being different",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="with torch 2.13, which asks without guarding",
    reproducer=matmul_of_unrelated_batches,
)
def matmul(original: Any, tensor1: Any, tensor2: Any, **kwargs: Any) -> Any:
    if tensor1.ndim == tensor2.ndim == 3:
        a, b = tensor1.shape[0], tensor2.shape[0]
        size = broadcast_size(a, b)
        if is_symbolic(size) and expression(a) != expression(b):
            tensor1, tensor2 = tensor1.expand(size, -1, -1), tensor2.expand(size, -1, -1)
    return original(tensor1, tensor2, **kwargs)


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
    if attn_mask is None or not any(is_symbolic(size) and not size.node.has_hint() for size in attn_mask.shape):
        return attention_mask(original, query, key, value, attn_mask, dropout_p, *args, **kwargs)
    if attn_mask.dtype is torch.bool:
        bias = torch.zeros_like(attn_mask, dtype=query.dtype)
        attn_mask = bias.masked_fill(attn_mask.logical_not(), -torch.inf)
    attention = torch.ops.aten._scaled_dot_product_attention_math.default
    return attention(query, key, value, attn_mask, dropout_p, *args, **kwargs)[0]
