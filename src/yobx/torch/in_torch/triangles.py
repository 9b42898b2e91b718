"""The diagonal from which on a matrix is kept, given by sizes: a mask of new tokens over past ones and new."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

from yobx.helpers.lazy import lazy

torch: Any = lazy("torch")

COMPARISONS = {"tril": operator.le, "triu": operator.ge}


def kept(func: Any, args: Any, kwargs: Any) -> Any:
    """What keeps a part of a matrix by comparing indices, where the diagonal is made of sizes; ``None`` for other calls."""
    name = getattr(func, "__name__", "")
    if name not in COMPARISONS or func not in (getattr(torch, name), getattr(torch.Tensor, name)):
        return None
    return partial(_kept, COMPARISONS[name]) if _by_sizes(*args, **kwargs) else None


def _by_sizes(input: Any, diagonal: Any = 0, *, out: Any = None) -> bool:
    return isinstance(diagonal, torch.SymInt) and out is None


def _kept(compare: Any, input: Any, diagonal: Any, out: None = None) -> Any:
    rows, columns = (torch.arange(size, device=input.device) for size in input.shape[-2:])
    zero = torch.zeros((), dtype=input.dtype, device=input.device)
    return torch.where(compare(columns, rows[:, None] + diagonal), input, zero)
