"""Composite kernels of contractions: labels, batches and summed dimensions whose sizes are undecided."""

from __future__ import annotations

import functools
import math
import string
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.composite import CompositeKernel
from yobx.torch.in_torch.sizes import broadcast_size, has_broadcast, is_symbolic, of_one_batch

torch: Any = lazy("torch")


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
    labels = equation.replace(" ", "").partition("->")[0].split(",")
    if "..." in equation and len(labels) == len(tensors):
        labels = [_without_ellipsis(label, tensor.ndim) for label, tensor in zip(labels, tensors)]
    if len(labels) != len(tensors) or any(len(label) != tensor.ndim for label, tensor in zip(labels, tensors)):
        return original(equation, tensors, path=path)
    sizes: dict[str, Any] = {}
    for label, tensor in zip(labels, tensors):
        own: dict[str, Any] = {}
        for name, size in zip(label, tensor.shape):
            if name in own:
                # A diagonal is taken of a square: what is repeated within one tensor does not broadcast.
                torch._check(own[name] == size, lambda: f"einsum(): subscript {name} is repeated, but {size} != {own[name]}")
            own[name] = size
            sizes[name] = broadcast_size(sizes.get(name, 1), size)
    undecided = {name for name, size in sizes.items() if is_symbolic(size) and has_broadcast(size.node.expr)}
    if undecided:
        tensors = [
            tensor.expand([sizes[n] if n in undecided else size for n, size in zip(label, tensor.shape)])
            for label, tensor in zip(labels, tensors)
        ]
    return original(equation, tensors, path=path)


def _without_ellipsis(label: str, ndim: int) -> str:
    """A label with digits, counted from the right, for the dimensions that an ellipsis stands for."""
    return label.replace("...", string.digits[: ndim - len(label) + 3][::-1])


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
        tensor1, tensor2 = of_one_batch(tensor1, tensor2)
    return original(tensor1, tensor2, **kwargs)


def sum_over_two_dimensions() -> Reproducer:
    class Contract(torch.nn.Module):
        def forward(self, x):
            return torch.tensordot(x, x, dims=([0, 1], [0, 1]))

    return Reproducer(
        Contract(),
        inputs=dict(x=torch.randn(1, 5, 3)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m, 3)) for n, m in ((4, 7), (1, 1), (2, 1))],
    )


@patch(
    "torch:ops.aten.tensordot.default",
    family="torch",
    name="tensordot",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten.tensordot.default)],
    around=True,
    why="the C++ kernel sums dimensions of size 1 by themselves, and guards on which those are; a product of matrices sums any",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when tensordot in ATen asks without guarding",
    reproducer=sum_over_two_dimensions,
)
def tensordot(original: Any, self: Any, other: Any, dims_self: Any, dims_other: Any) -> Any:
    if not any(map(is_symbolic, (*self.shape, *other.shape))):
        return original(self, other, dims_self, dims_other)
    left, right = [i % self.ndim for i in dims_self], [i % other.ndim for i in dims_other]
    sizes = [broadcast_size(self.shape[i], other.shape[j]) for i, j in zip(left, right)]
    if len(left) != len(right) or None in sizes:
        return original(self, other, dims_self, dims_other)
    rows = [i for i in range(self.ndim) if i not in left]
    columns = [j for j in range(other.ndim) if j not in right]
    a = self.expand([sizes[left.index(i)] if i in left else size for i, size in enumerate(self.shape)])
    b = other.expand([sizes[right.index(j)] if j in right else size for j, size in enumerate(other.shape)])
    height, width = [self.shape[i] for i in rows], [other.shape[j] for j in columns]
    inner = math.prod(sizes)
    product = a.permute(*rows, *left).reshape(math.prod(height), inner) @ b.permute(*right, *columns).reshape(inner, math.prod(width))
    return product.reshape(*height, *width)


def product_of_three_matrices() -> Reproducer:
    class Product(torch.nn.Module):
        def forward(self, x, y, z):
            return torch.linalg.multi_dot([x, y, z])

    def inputs(n: int, m: int, k: int) -> dict[str, Any]:
        return dict(x=torch.randn(n, m), y=torch.randn(m, k), z=torch.randn(k, 3))

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    return Reproducer(
        Product(),
        inputs=inputs(2, 5, 4),
        dynamic_shapes=dict(x=dynamic, y=dynamic, z={0: torch.export.Dim.DYNAMIC}),
        accepts=[inputs(5, 2, 7), inputs(1, 1, 1), inputs(3, 1, 4)],
    )


@patch(
    "torch:ops.aten.linalg_multi_dot.default",
    family="torch",
    name="multi_dot",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten.linalg_multi_dot.default)],
    around=True,
    why="the C++ kernel reads the sizes as plain ints to find the cheapest order of the products, which fixes them to the sample's",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when multi_dot in ATen keeps its sizes symbolic",
    reproducer=product_of_three_matrices,
)
def multi_dot(original: Any, tensors: Any) -> Any:
    # Matrices between vectors or matrices: of anything else the kernel says what is wrong.
    ranks = [tensor.ndim for tensor in tensors]
    fit = len(ranks) > 1 and set(ranks[1:-1]) <= {2} and {ranks[0], ranks[-1]} <= {1, 2}
    if not fit or not any(is_symbolic(size) for tensor in tensors for size in tensor.shape):
        return original(tensors)
    return functools.reduce(torch.matmul, tensors)


def product_of_two_grids() -> Reproducer:
    class Product(torch.nn.Module):
        def forward(self, x, y):
            return torch.kron(x, y)

    def inputs(*sizes: int) -> dict[str, Any]:
        return dict(x=torch.randn(*sizes[:2]), y=torch.randn(*sizes[2:]))

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    return Reproducer(
        Product(),
        inputs=inputs(1, 3, 2, 4),
        dynamic_shapes=dict(x=dynamic, y=dynamic),
        accepts=[inputs(3, 2, 5, 1), inputs(1, 1, 1, 1), inputs(2, 3, 3, 2)],
    )


@patch(
    "torch:ops.aten.kron.default",
    family="torch",
    name="kron",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten.kron.default)],
    around=True,
    why="the C++ kernel reads the sizes as plain ints, which fixes them to the sample's",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when kron in ATen keeps its sizes symbolic",
    reproducer=product_of_two_grids,
)
def kron(original: Any, self: Any, other: Any) -> Any:
    if self.ndim != other.ndim or not any(map(is_symbolic, (*self.shape, *other.shape))):
        return original(self, other)
    pairs = self
    for i in range(self.ndim):
        pairs = pairs.unsqueeze(2 * i + 1)
    for i in range(self.ndim):
        other = other.unsqueeze(2 * i)
    product = pairs * other
    return product.reshape([product.shape[2 * i] * product.shape[2 * i + 1] for i in range(self.ndim)])
