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
from yobx.torch.in_torch.sizes import expression, is_symbolic
from yobx.torch.in_torch.tables import KernelSlot

torch: Any = lazy("torch")
utils: Any = lazy("torch._prims_common")
fake_impls: Any = lazy("torch._subclasses.fake_impls")


class NativeKernel(KernelSlot):
    """The place of the Python kernel of an operator for one dispatch key; without one, the C++ kernel stands there."""

    def __init__(self, operator: Any, dispatch_key: Any) -> None:
        super().__init__(operator, dispatch_key)

        def kernel(*args: Any, **kwargs: Any) -> Any:
            return operator._op_dk(self.dispatch_key, *args, **kwargs)

        kernel.__name__ = operator.__name__
        self._native: Callable[..., Any] = kernel

    def key(self) -> Hashable:
        return (id(self.operator), "native", str(self.dispatch_key))

    def get(self) -> Any:
        return self.operator.py_kernels.get(self.dispatch_key, self._native)

    def own(self) -> bool:
        return self.dispatch_key in self.operator.py_kernels

    def __repr__(self) -> str:
        return f"the {self.dispatch_key} kernel of {self.operator}"


class CompositeKernel(NativeKernel):
    """The place of the Python kernel of a composite operator."""

    def __init__(self, operator: Any) -> None:
        super().__init__(operator, torch._C.DispatchKey.CompositeImplicitAutograd)

    def key(self) -> Hashable:
        return (id(self.operator), "composite")

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


def similarities_of_pairs() -> Reproducer:
    class Similarity(torch.nn.Module):
        def forward(self, x, y):
            similarity = torch.nn.functional.cosine_similarity
            return similarity(x, y, dim=-1).sum() + similarity(x[:, None], x[None], dim=-1)

    def inputs(n: int, m: int) -> dict[str, Any]:
        return dict(x=torch.randn(n, 8), y=torch.randn(m, 8))

    return Reproducer(
        Similarity(),
        inputs=inputs(2, 2),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC}, y={0: torch.export.Dim.DYNAMIC}),
        accepts=[inputs(4, 1), inputs(1, 3), inputs(1, 1)],
        rejects=[inputs(4, 3)],
    )


@patch(
    "torch:ops.aten.cosine_similarity.default",
    family="torch",
    name="cosine_similarity",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten.cosine_similarity.default)],
    around=True,
    why="vectors of undecided sizes broadcast; the C++ kernel guards on whether they are equal",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="when torch gives an undecided broadcast a size of its own instead of a guard",
    reproducer=similarities_of_pairs,
    group="broadcast",
)
def cosine_similarity(original: Any, x1: Any, x2: Any, *args: Any, **kwargs: Any) -> Any:
    if list(map(expression, x1.shape)) != list(map(expression, x2.shape)):
        x1, x2 = torch.broadcast_tensors(x1, x2)
    return original(x1, x2, *args, **kwargs)


def rows_in_another_order() -> Reproducer:
    class Sort(torch.nn.Module):
        def forward(self, x):
            return torch.take_along_dim(x, x.argsort(1), 1)

    return Reproducer(
        Sort(),
        inputs=dict(x=torch.randn(2, 5, 3)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m, 3)) for n, m in ((4, 7), (1, 1))],
    )


@patch(
    "torch:ops.aten.take_along_dim.default",
    family="torch",
    name="take_along_dim",
    versions="torch>=2.13",
    slots=lambda: [CompositeKernel(torch.ops.aten.take_along_dim.default)],
    around=True,
    why="the C++ kernel reads the sizes as plain ints, which fixes them to the sample's",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when take_along_dim in ATen keeps its sizes symbolic",
    reproducer=rows_in_another_order,
)
def take_along_dim(original: Any, self: Any, indices: Any, dim: Any = None) -> Any:
    if dim is None or self.ndim != indices.ndim or not any(map(is_symbolic, (*self.shape, *indices.shape))):
        return original(self, indices, dim)
    sizes = list(torch.broadcast_shapes(*([*x.shape[:dim], 1, *x.shape[dim:][1:]] for x in (self, indices))))
    kept, taken = list(sizes), list(sizes)
    kept[dim], taken[dim] = self.shape[dim], indices.shape[dim]
    return self.expand(kept).gather(dim, indices.expand(taken))
