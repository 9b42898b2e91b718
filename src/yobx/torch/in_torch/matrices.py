"""Norms and ranks of matrices, whose C++ kernels ask for the number of rows and columns in plain integers."""

from __future__ import annotations

import math
from collections.abc import Callable
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


def _counted(values: Any, matrices: Any, atol: Any) -> Any:
    """Which singular values are not taken for 0: those above a least one, or by default above a part of the largest."""
    options = dict(dtype=torch.float64, device=matrices.device)
    if not isinstance(atol, torch.Tensor):
        atol = torch.full((), atol or 0.0, **options)
    rtol = torch.finfo(matrices.dtype).eps * torch.scalar_tensor(torch.sym_max(*matrices.shape[-2:]), **options)
    return values > torch.maximum(atol, torch.where(atol > 0, 0.0, rtol) * _largest(values))[..., None]


def _tolerance_is_asked(matrices: Any, others: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether the tolerance is the default one, of a matrix of any size."""
    given = [name for name, value in options.items() if value is not None and name not in ("atol", "hermitian")]
    return not others and not given and any(map(is_symbolic, matrices.shape[-2:]))


def _tolerated(name: str) -> Callable[..., Any]:
    return patch(
        f"torch.linalg:{name}",
        family="torch",
        name=name,
        versions="torch>=2.13",
        around=True,
        why="the tolerance grows with the larger side of a matrix, and the C++ kernel guards on which that is",
        obsolete="when the kernel takes the maximum of the sizes as a symbol",
        reproducer=_matrices(name),
    )


@_tolerated("pinv")
def pinv(original: Any, A: Any, *args: Any, **kwargs: Any) -> Any:
    if not _tolerance_is_asked(A, args, kwargs):
        return original(A, *args, **kwargs)
    if kwargs.get("hermitian"):
        values, left = torch.linalg.eigh(A)
        right = left.mH
    else:
        left, values, right = torch.linalg.svd(A, full_matrices=False)
    inverse = torch.where(_counted(values.abs(), A, kwargs.get("atol")), values.reciprocal(), 0)
    return (right.mH * inverse.unsqueeze(-2)) @ left.mH


@_tolerated("matrix_rank")
def matrix_rank(original: Any, A: Any, *args: Any, **kwargs: Any) -> Any:
    if not _tolerance_is_asked(A, args, kwargs):
        return original(A, *args, **kwargs)
    values = torch.linalg.eigvalsh(A).abs() if kwargs.get("hermitian") else torch.linalg.svdvals(A)
    return _counted(values, A, kwargs.get("atol")).sum(-1)


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
