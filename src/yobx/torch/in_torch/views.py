"""Views by a part of a size: whose memory they share when a tensor is not contiguous, and how long the parts are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.marks import decided
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.composite import CompositeKernel
from yobx.torch.in_torch.sizes import expression, hint, is_symbolic, larger_or_smaller

torch: Any = lazy("torch")
fake_impls: Any = lazy("torch._subclasses.fake_impls")
sympy: Any = lazy("sympy")
symbolic_shapes: Any = lazy("torch.fx.experimental.symbolic_shapes")
sympy_functions: Any = lazy("torch.utils._sympy.functions")


def windows_of_a_permuted_image() -> Reproducer:
    class Windows(torch.nn.Module):
        def forward(self, x):
            x = x.permute(0, 3, 1, 2)
            rows = x.unflatten(2, (x.shape[2] // 2, 2)).mean(3)
            return rows, x.view(x.shape[0], 3, x.shape[2] // 2, 2, x.shape[3] // 2, 2).mean((3, 5))

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Windows(),
        inputs=dict(x=torch.randn(1, 4, 6, 3)),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic, 2: dynamic}),
        accepts=[dict(x=torch.randn(n, h, w, 3)) for n, h, w in ((2, 6, 8), (3, 2, 2), (1, 2, 2))],
        rejects=[dict(x=torch.randn(2, 3, 4, 3))],
    )


@patch(
    "torch._subclasses.fake_impls:_compute_stride",
    family="torch",
    name="strides_of_a_view",
    versions="torch>=2.9",
    around=True,
    why="without a decision a part of a size and its rest are taken for less than the size, so that no view is found and the sizes are fixed",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="when torch computes the strides of a view without guarding",
    reproducer=windows_of_a_permuted_image,
)
def strides_of_a_view(
    original: Any, old_shape: Any, old_stride: Any, new_shape: Any, size_oblivious: bool = False
) -> Any:
    strides = original(old_shape, old_stride, new_shape, size_oblivious)
    if strides is None and size_oblivious and any(is_symbolic(size) for size in (*old_shape, *new_shape)):
        strides = _chunk_by_chunk(old_shape, old_stride, new_shape)
        if strides is None:
            strides = _one_by_one(old_shape, old_stride, new_shape)
    return strides


def _chunk_by_chunk(old_shape: Sequence[Any], old_stride: Sequence[Any], new_shape: Sequence[Any]) -> list[Any] | None:
    """The strides, when new dimensions make up each run of old ones that lies in memory without a gap.

    That a division among them leaves no remainder is required, as eager requires it.
    """
    known = symbolic_shapes.statically_known_true
    new, strides, divided = list(new_shape), [], []
    stride, run = old_stride[-1], 1
    for dim in range(len(old_shape) - 1, -1, -1):
        run = run * old_shape[dim]
        if dim and (known(old_shape[dim - 1] == 1) or known(old_stride[dim - 1] == run * stride)):
            continue
        count = 1
        while new and (known(new[-1] == 1) or not _same_undivided(count, run)):
            strides.append(count * stride)
            count = count * new.pop()
        if not _same_undivided(count, run):
            return None
        if not known(count == run):
            divided.append((count, run))
        stride, run = old_stride[dim - 1], 1
    if new:
        return None
    decided()
    for count, run in divided:
        torch._check(count == run, lambda: "view size is not compatible with input tensor's size and stride")
    return strides[::-1]


def _one_by_one(old_shape: Sequence[Any], old_stride: Sequence[Any], new_shape: Sequence[Any]) -> list[Any] | None:
    """The strides, when the view only adds or drops dimensions of size 1, and sizes differ by what a slice cut off.

    That nothing was cut off is required, as eager requires it.
    """
    known = symbolic_shapes.statically_known_true
    old = [(size, stride) for size, stride in zip(old_shape, old_stride, strict=True) if not known(size == 1)]
    new = [size for size in new_shape if not known(size == 1)]
    cut = [(size, was) for size, (was, _) in zip(new, old, strict=False) if expression(size) != expression(was)]
    if len(new) != len(old) or not all(_by_a_slice(*sizes) for sizes in cut):
        return None
    decided()
    for size, was in cut:
        torch._check(size == was, lambda: "view size is not compatible with input tensor's size and stride")
    left = iter(old)
    return [1 if known(size == 1) else next(left)[1] for size in new_shape]


def _by_a_slice(size: Any, was: Any) -> bool:
    """Whether two sizes that were equal in the sample may differ because one is that of a slice."""
    return hint(size) == hint(was) and (larger_or_smaller(expression(size)) or larger_or_smaller(expression(was)))


def _same_undivided(count: Any, run: Any) -> bool:
    """Whether two numbers of elements are equal when all divisions in them leave no remainder."""
    difference = expression(count) - expression(run)
    return bool(sympy.expand(difference.replace(sympy_functions.FloorDiv, lambda size, by: size / by)) == 0)


def parts_of_an_odd_size() -> Reproducer:
    class Parts(torch.nn.Module):
        def forward(self, x):
            first, second = torch.tensor_split(x, 2, dim=1)
            return first.sum(1) - second.sum(1), first

    return Reproducer(
        Parts(),
        inputs=dict(x=torch.randn(2, 6)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m)) for n, m in ((3, 5), (1, 1), (2, 4), (1, 0))],
    )


@patch(
    "torch:ops.aten.tensor_split.sections",
    family="torch",
    name="tensor_split",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten.tensor_split.sections)],
    around=True,
    why="the C++ kernel asks of every part whether it has an element more, so the size's remainder is fixed to the sample's",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when tensor_split in ATen computes the lengths of its parts without asking",
    reproducer=parts_of_an_odd_size,
)
def tensor_split(original: Any, self: Any, sections: Any, dim: int = 0) -> Any:
    if self.ndim == 0 or not isinstance(sections, int) or sections <= 0 or not is_symbolic(self.shape[dim]):
        return original(self, sections, dim)
    parts, start = [], 0
    for part in range(sections):
        length = (self.shape[dim] + sections - 1 - part) // sections
        parts.append(self.narrow(dim, start, length))
        start = start + length
    return parts


def transforms_of_one_row() -> Reproducer:
    class Back(torch.nn.Module):
        def forward(self, x):
            return torch.fft.irfft(torch.fft.rfft(x, dim=1), n=x.shape[1], dim=1)

    return Reproducer(
        Back(),
        inputs=dict(x=torch.randn(1, 5, 4)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m, 4)) for n, m in ((3, 5), (1, 2), (4, 6))],
    )


@patch(
    "torch._refs:_reshape_view_helper",
    family="torch",
    name="view_in_a_meta_function",
    versions="torch>=2.9,<2.13",
    around=True,
    why="inside a meta function a view is not that of a fake tensor, and guards on each size",
    obsolete="with torch 2.13, whose meta functions view without guarding",
    reproducer=transforms_of_one_row,
    group="broadcast",
)
def view_in_a_meta_function(original: Any, a: Any, *shape: Any, allow_copy: bool) -> Any:
    if allow_copy or not fake_impls._view_has_unbacked_input(a, shape):
        return original(a, *shape, allow_copy=allow_copy)
    return fake_impls._view_unbacked_meta(a, shape)
