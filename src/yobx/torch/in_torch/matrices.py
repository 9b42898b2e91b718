"""Norms and ranks of matrices, whose C++ kernels ask for the number of rows and columns in plain integers."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.composite import CompositeKernel
from yobx.torch.in_torch.sizes import is_symbolic

torch: Any = lazy("torch")

SHAPES = ((2, 3, 5), (1, 4, 4), (3, 1, 2), (2, 6, 1))


def _matrices(name: str, *args: Any) -> Any:
    def high_and_wide_matrices() -> Reproducer:
        class Matrices(torch.nn.Module):
            def forward(self, x):
                return getattr(torch.linalg, name)(x, *args) * 2

        dynamic = torch.export.Dim.DYNAMIC
        return Reproducer(
            Matrices(),
            inputs=dict(x=torch.randn(2, 5, 3)),
            dynamic_shapes=dict(x=dict.fromkeys(range(3), dynamic)),
            accepts=[dict(x=torch.randn(shape)) for shape in SHAPES],
        )

    return high_and_wide_matrices


def _kernels(name: str) -> list[CompositeKernel]:
    operator = getattr(torch.ops.aten, f"linalg_{name}")
    return [CompositeKernel(operator.atol_rtol_tensor), CompositeKernel(operator.atol_rtol_float)]


def _counted(values: Any, matrices: Any, atol: Any) -> Any:
    """Which singular values are not taken for 0: those above a least one, or by default above a part of the largest."""
    options = dict(dtype=torch.float64, device=matrices.device)
    if not isinstance(atol, torch.Tensor):
        atol = torch.full((), atol or 0.0, **options)
    rtol = torch.finfo(matrices.dtype).eps * torch.scalar_tensor(torch.sym_max(*matrices.shape[-2:]), **options)
    return values > torch.maximum(atol, torch.where(atol > 0, 0.0, rtol) * _largest(values))[..., None]


def _tolerance_is_asked(self: Any, rtol: Any) -> bool:
    return rtol is None and any(map(is_symbolic, self.shape[-2:]))


@patch(
    "torch:ops.aten.linalg_pinv.atol_rtol_tensor",
    family="torch",
    name="pinv",
    versions="torch>=2.13",
    slots=partial(_kernels, "pinv"),
    around=True,
    why="the tolerance grows with the larger side of a matrix, and the C++ kernel guards on which that is",
    obsolete="when the kernel takes the maximum of the sizes as a symbol",
    reproducer=_matrices("pinv"),
)
def pinv(original: Any, self: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    if not _tolerance_is_asked(self, rtol):
        return original(self, atol=atol, rtol=rtol, hermitian=hermitian)
    if hermitian:
        values, left = torch.linalg.eigh(self)
        right = left.mH
    else:
        left, values, right = torch.linalg.svd(self, full_matrices=False)
    inverse = torch.where(_counted(values.abs(), self, atol), values.reciprocal(), 0)
    return (right.mH * inverse.unsqueeze(-2)) @ left.mH


@patch(
    "torch:ops.aten.linalg_matrix_rank.atol_rtol_tensor",
    family="torch",
    name="matrix_rank",
    versions="torch>=2.13",
    slots=partial(_kernels, "matrix_rank"),
    around=True,
    why="the tolerance grows with the larger side of a matrix, and the C++ kernel guards on which that is",
    obsolete="when the kernel takes the maximum of the sizes as a symbol",
    reproducer=_matrices("matrix_rank"),
)
def matrix_rank(original: Any, self: Any, *, atol: Any = None, rtol: Any = None, hermitian: bool = False) -> Any:
    if not _tolerance_is_asked(self, rtol):
        return original(self, atol=atol, rtol=rtol, hermitian=hermitian)
    values = torch.linalg.eigvalsh(self).abs() if hermitian else torch.linalg.svdvals(self)
    return _counted(values, self, atol).sum(-1)


def _largest(values: Any) -> Any:
    """The largest of values that are not negative; 0 where there are none."""
    return torch.nn.functional.pad(values, (0, 1)).amax(-1)


@patch(
    "torch:ops.aten.linalg_matrix_norm.default",
    family="torch",
    name="matrix_norm",
    versions="torch>=2.13",
    slots=lambda: [CompositeKernel(torch.ops.aten.linalg_matrix_norm.default)],
    around=True,
    why="the C++ kernel asks in plain integers whether there is anything to choose the largest of, and fixes how much",
    obsolete="when the kernel asks for the symbolic size",
    reproducer=_matrices("matrix_norm", 2),
)
def matrix_norm(
    original: Any, self: Any, ord: Any, dim: Any = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Any:
    if abs(ord) not in (1, 2, math.inf) or not any(map(is_symbolic, self.shape)):
        return original(self, ord, dim, keepdim, dtype=dtype)
    matrices = self.to(dtype or self.dtype).movedim(tuple(dim), (-2, -1))
    values = torch.linalg.svdvals(matrices) if abs(ord) == 2 else matrices.abs().sum(-2 if abs(ord) == 1 else -1)
    norm = _largest(values) if ord > 0 else values.amin(-1)
    for axis in sorted(axis % self.ndim for axis in dim) if keepdim else ():
        norm = norm.unsqueeze(axis)
    return norm
