"""Functions of ``torch`` that take how many elements to make as a plain int, and so fix it to the sample's."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")


def _rows(function: Callable[[Any], Any], *lengths: int) -> Reproducer:
    class Rows(torch.nn.Module):
        def forward(self, x):
            return function(x)

    return Reproducer(
        Rows(),
        inputs=dict(x=torch.randn(2, 5)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m)) for n in (3, 1) for m in lengths or (4, 7, 1, 2)],
    )


def _declared(target: str, use: Callable[[Any], Any], *lengths: int) -> Callable[..., Any]:
    return patch(
        target,
        family="torch",
        name=target.partition(":")[2],
        versions="torch>=2.9",
        around=True,
        why="the operator takes a number of elements as a plain int, so a size is fixed to the sample's",
        see="https://github.com/pytorch/pytorch/issues/176349",
        obsolete="when the operator takes it as SymInt",
        reproducer=partial(_rows, use, *lengths),
    )


@_declared("torch:logspace", lambda x: x * torch.logspace(0, 1, x.shape[1]))
def logspace(original: Any, start: Any, end: Any, steps: Any, base: Any = 10.0, **kwargs: Any) -> Any:
    if not isinstance(steps, torch.SymInt) or kwargs.get("out") is not None:
        return original(start, end, steps, base, **kwargs)
    dtype = kwargs.pop("dtype", None) or torch.get_default_dtype()
    computed = dtype if dtype.is_floating_point or dtype.is_complex else torch.float64
    return torch.pow(base, torch.linspace(start, end, steps, dtype=computed, **kwargs)).to(dtype)


def unless_single(length: Any, several: Any, single: float) -> Any:
    """Values for as many elements as a length says, or one number where that is 1."""
    return torch.where(torch.full((), length > 1, dtype=torch.bool, device=several.device), several, single)


def _cosines(length: Any, periodic: bool, weights: tuple[float, ...], kwargs: dict[str, Any]) -> Any:
    """A window of these weights of the cosines of once, twice, ... the angle; the window of one element is 1."""
    angle = torch.arange(length, **kwargs) * (2 * math.pi / torch.sym_max(length if periodic else length - 1, 1))
    window = sum((-1) ** k * weight * torch.cos(angle * k) for k, weight in enumerate(weights))
    return unless_single(length, window, 1.0)


def _dtype(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {**kwargs, "dtype": kwargs.get("dtype") or torch.get_default_dtype()}


@_declared("torch:hann_window", lambda x: x * torch.hann_window(x.shape[1]))
def hann_window(original: Any, window_length: Any, periodic: bool = True, **kwargs: Any) -> Any:
    if not isinstance(window_length, torch.SymInt) or kwargs.get("out") is not None:
        return original(window_length, periodic, **kwargs)
    return _cosines(window_length, periodic, (0.5, 0.5), _dtype(kwargs))


@_declared("torch:hamming_window", lambda x: x * torch.hamming_window(x.shape[1], False))
def hamming_window(
    original: Any, window_length: Any, periodic: bool = True, alpha: float = 0.54, beta: float = 0.46, **kwargs: Any
) -> Any:
    if not isinstance(window_length, torch.SymInt) or kwargs.get("out") is not None:
        return original(window_length, periodic, alpha, beta, **kwargs)
    return _cosines(window_length, periodic, (alpha, beta), _dtype(kwargs))


@_declared("torch:blackman_window", lambda x: x * torch.blackman_window(x.shape[1]))
def blackman_window(original: Any, window_length: Any, periodic: bool = True, **kwargs: Any) -> Any:
    if not isinstance(window_length, torch.SymInt) or kwargs.get("out") is not None:
        return original(window_length, periodic, **kwargs)
    return _cosines(window_length, periodic, (0.42, 0.5, 0.08), _dtype(kwargs))


def _from_side_to_side(length: Any, periodic: bool, kwargs: dict[str, Any]) -> Any:
    """From -1 at the first element to 1 at the last, or at the one after it; a window of one element has its middle."""
    place = torch.arange(length, **kwargs) * (2 / torch.sym_max(length if periodic else length - 1, 1)) - 1
    return unless_single(length, place, 0.0)


@_declared("torch:bartlett_window", lambda x: x * torch.bartlett_window(x.shape[1]))
def bartlett_window(original: Any, window_length: Any, periodic: bool = True, **kwargs: Any) -> Any:
    if not isinstance(window_length, torch.SymInt) or kwargs.get("out") is not None:
        return original(window_length, periodic, **kwargs)
    return 1 - _from_side_to_side(window_length, periodic, _dtype(kwargs)).abs()


@_declared("torch:kaiser_window", lambda x: x * torch.kaiser_window(x.shape[1], False))
def kaiser_window(original: Any, window_length: Any, *args: Any, **kwargs: Any) -> Any:
    # No overload has a beta alone.
    refused = "beta" in kwargs and not args and "periodic" not in kwargs
    if not isinstance(window_length, torch.SymInt) or kwargs.get("out") is not None or refused:
        return original(window_length, *args, **kwargs)
    options = dict(zip(("periodic", "beta"), args), **kwargs)
    periodic, beta = options.pop("periodic", True), options.pop("beta", 12.0)
    place = _from_side_to_side(window_length, periodic, _dtype(options))
    return torch.i0(beta * (1 - place.square()).clamp(min=0).sqrt()) / torch.i0(torch.full_like(place, beta))


@_declared("torch.fft:fftfreq", lambda x: x * torch.fft.fftfreq(x.shape[1], 0.1))
def fftfreq(original: Any, n: Any, d: float = 1.0, **kwargs: Any) -> Any:
    if not isinstance(n, torch.SymInt) or kwargs.get("out") is not None:
        return original(n, d, **kwargs)
    index = torch.arange(n, **_dtype(kwargs))
    return torch.where(index < (n + 1) // 2, index, index - n) * (1.0 / (torch.sym_max(n, 1) * d))


@_declared("torch.fft:rfftfreq", lambda x: torch.fft.rfft(x).abs() * torch.fft.rfftfreq(x.shape[1]))
def rfftfreq(original: Any, n: Any, d: float = 1.0, **kwargs: Any) -> Any:
    if not isinstance(n, torch.SymInt) or kwargs.get("out") is not None:
        return original(n, d, **kwargs)
    return torch.arange(n // 2 + 1, **_dtype(kwargs)) * (1.0 / (torch.sym_max(n, 1) * d))


def _one_hot_rows(x: Any) -> Any:
    return torch.nn.functional.one_hot((x > 0).long(), x.shape[1])


@_declared("torch.nn.functional:one_hot", _one_hot_rows, 4, 7, 2)
def one_hot(original: Any, tensor: Any, num_classes: Any = -1) -> Any:
    if not isinstance(num_classes, torch.SymInt):
        return original(tensor, num_classes)
    # Written so that a class out of range is an error, as it is for the operator.
    return tensor.new_zeros(*tensor.shape, num_classes).scatter(-1, tensor.unsqueeze(-1), 1)


def _indices(side: str, rows: Any, columns: Any, offset: int, kwargs: dict[str, Any]) -> Any:
    dtype, layout = kwargs.pop("dtype", torch.long), kwargs.pop("layout", torch.strided)
    part = getattr(torch.ones(rows, columns, dtype=torch.bool, layout=layout, **kwargs), side)(offset)
    return torch.stack(part.nonzero(as_tuple=True)).to(dtype)


@_declared("torch:tril_indices", lambda x: torch.tril_indices(x.shape[1], x.shape[1]) + x.sum())
def tril_indices(original: Any, row: Any, col: Any, offset: int = 0, **kwargs: Any) -> Any:
    if not isinstance(row, torch.SymInt) and not isinstance(col, torch.SymInt):
        return original(row, col, offset, **kwargs)
    return _indices("tril", row, col, offset, kwargs)


@_declared("torch:triu_indices", lambda x: torch.triu_indices(x.shape[0], x.shape[1], 1) + x.sum())
def triu_indices(original: Any, row: Any, col: Any, offset: int = 0, **kwargs: Any) -> Any:
    if not isinstance(row, torch.SymInt) and not isinstance(col, torch.SymInt):
        return original(row, col, offset, **kwargs)
    return _indices("triu", row, col, offset, kwargs)


@_declared("torch:vander", lambda x: torch.vander(x[0], increasing=True))
def vander(original: Any, x: Any, N: Any = None, increasing: bool = False) -> Any:
    count = x.shape[0] if N is None and x.ndim == 1 else N
    if not isinstance(count, torch.SymInt) or x.ndim != 1:
        return original(x, N, increasing)
    column = x.unsqueeze(1)
    powers = torch.cat([torch.ones_like(column), column.expand(-1, count)], 1)[:, :count].cumprod(1)
    return powers if increasing else powers.flip(1)


@_declared("torch:as_tensor", lambda x: torch.as_tensor(x.shape) * x.sum())
def as_tensor(original: Any, data: Any, dtype: Any = None, device: Any = None) -> Any:
    sizes = data if isinstance(data, (list, tuple)) else (data,)
    if not any(isinstance(size, torch.SymInt) for size in sizes):
        return original(data, dtype=dtype, device=device)
    return torch.tensor(data, dtype=dtype, device=device)
