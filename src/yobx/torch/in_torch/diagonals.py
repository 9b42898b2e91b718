"""Diagonals whose offset is given by sizes, which the operators take as a plain int, and those of rectangles."""

from __future__ import annotations

import sys
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import decomposed, is_symbolic

torch: Any = lazy("torch")


def diagonals_of_rectangles() -> Reproducer:
    class Diagonals(torch.nn.Module):
        def forward(self, x):
            return x.diagonal() * 2, x.diagonal(-1) * 2, x.trace() * 2

    return Reproducer(
        Diagonals(),
        inputs=dict(x=torch.randn(3, 5)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m)) for n, m in ((6, 2), (4, 4), (5, 3), (2, 1))],
        export=decomposed,
    )


@patch(
    "torch._refs:diagonal",
    family="torch",
    name="diagonal",
    versions="torch>=2.9,<2.13",
    around=True,
    why="the decomposition asks in Python whether a matrix is higher than wide, and guards",
    obsolete="with torch 2.13, which takes the least of both sizes as a symbol",
    reproducer=diagonals_of_rectangles,
)
def diagonal(original: Any, self: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    dims = {dim1 % self.ndim, dim2 % self.ndim} if self.ndim else set()
    if len(dims) < 2 or not any(is_symbolic(self.shape[dim]) for dim in dims):
        return original(self, offset, dim1, dim2)
    size = torch.sym_max(torch.sym_min(self.shape[dim1] + min(offset, 0), self.shape[dim2] - max(offset, 0)), 0)
    strides = self.stride()
    start = self.storage_offset() + (offset * strides[dim2] if offset >= 0 else -offset * strides[dim1])
    rest = [dim for dim in range(self.ndim) if dim not in dims]
    return self.as_strided(
        [*(self.shape[dim] for dim in rest), size],
        [*(strides[dim] for dim in rest), strides[dim1] + strides[dim2]],
        start,
    )


def shifted(func: Any, args: Any, kwargs: Any) -> Any:
    """What takes or makes a diagonal by other calls, where its offset is made of sizes; ``None`` for other calls."""
    function = {
        torch.diagonal: _diagonal,
        torch.Tensor.diagonal: _diagonal,
        torch.linalg.diagonal: _last_diagonal,
        torch.diag_embed: _embedded,
        torch.Tensor.diag_embed: _embedded,
        torch.diag: _diag,
        torch.Tensor.diag: _diag,
    }.get(func)
    offsets = (*args[1:2], kwargs.get("offset"), kwargs.get("diagonal"))
    by_sizes = any(isinstance(offset, torch.SymInt) for offset in offsets) and kwargs.get("out") is None
    return function if by_sizes else None


def _diagonal(input: Any, offset: Any, dim1: int = 0, dim2: int = 1) -> Any:
    """A view, as the operator gives: the diagonal of what is right of the first columns, or below the first rows."""
    # Not by an index, which takes for granted that no size is 1 when it leaves out what takes everything.
    for dim, first in ((dim1, -offset), (dim2, offset)):
        input = torch.ops.aten.slice.Tensor(input, dim, torch.sym_max(first, 0), sys.maxsize)
    return torch.diagonal(input, 0, dim1, dim2)


def _last_diagonal(A: Any, *, offset: Any, dim1: int = -2, dim2: int = -1) -> Any:
    return _diagonal(A, offset, dim1, dim2)


def _diag(input: Any, diagonal: Any, *, out: None = None) -> Any:
    return _embedded(input, diagonal) if input.ndim == 1 else _diagonal(input, diagonal).clone()


def _embedded(input: Any, offset: Any = 0, dim1: int = -2, dim2: int = -1) -> Any:
    """The result is larger than its diagonal by the offset."""
    size = input.shape[-1] + torch.sym_max(offset, -offset)
    row = torch.arange(size, device=input.device)[:, None]
    values = torch.nn.functional.pad(input, (torch.sym_max(-offset, 0), torch.sym_max(offset, 0)))
    zero = torch.zeros((), dtype=input.dtype, device=input.device)
    return torch.where(row + offset == row.mT, values[..., None], zero).movedim((-2, -1), (dim1, dim2))
