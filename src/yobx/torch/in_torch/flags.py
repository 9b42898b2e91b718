"""Functions of ``torch`` that take a flag in C++ as a plain bool: a comparison of sizes is a bool to the model, and none to them.

Where the flag changes no shape, as whether corners are aligned, both results are computed, and one is chosen.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.torch.in_torch.sizes import expression

torch: Any = lazy("torch")
functional: Any = lazy("torch.nn.functional")

# Functions in Python, which change nothing but by their result. A trace does not see a function in C++ that refuses its arguments.
HANDED_ON = (
    "dropout",
    "dropout1d",
    "dropout2d",
    "dropout3d",
    "alpha_dropout",
    "feature_alpha_dropout",
    "interpolate",
    "grid_sample",
    "affine_grid",
)
BITWISE = ("__and__", "__or__", "__xor__", "__rand__", "__ror__", "__rxor__")


def _tensor(flag: Any, device: Any) -> Any:
    return torch.full((), flag, dtype=torch.bool, device=device)


def _in_place(func: Any, args: Any, kwargs: Any) -> bool:
    given = inspect.signature(func).bind_partial(*args, **kwargs).arguments
    return given.get("inplace", False) is not False


def either(func: Any, args: Any, kwargs: Any) -> Callable[..., Any] | None:
    """What to call in place of a function that gets a flag made of sizes."""
    flags = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.SymBool)]
    if len(flags) != 1:
        return None
    if any(func is getattr(torch.Tensor, name) for name in BITWISE):
        return lambda tensor, flag: func(tensor, _tensor(flag, tensor.device))
    if not any(func is getattr(functional, name) for name in HANDED_ON) or _in_place(func, args, kwargs):
        return None

    def called(flag: Any, args: Any, kwargs: Any) -> Any:
        given = [flag if value is flags[0] else value for value in args]
        return func(*given, **{name: flag if value is flags[0] else value for name, value in kwargs.items()})

    def chosen(*args: Any, **kwargs: Any) -> Any:
        yes, no = called(True, args, kwargs), called(False, args, kwargs)
        if list(map(expression, yes.shape)) != list(map(expression, no.shape)):
            return func(*args, **kwargs)
        return torch.where(_tensor(flags[0], yes.device), yes, no)

    return chosen
