"""Python's own functions of numbers, which turn a size into a number of the sample."""

from __future__ import annotations

import builtins
import contextlib
import math
from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")

LOGARITHMS_AND_THE_LIKE = ("log2", "log10", "log1p", "exp", "sin", "cos", "tanh")


def attention_scaled_by_a_length() -> Reproducer:
    class Attention(torch.nn.Module):
        def forward(self, x):
            scores = x @ x.transpose(1, 2) / math.sqrt(x.shape[1]) * math.log(x.shape[1] + 1)
            quotient, rest = divmod(x.shape[1], 3)
            return scores.softmax(-1) @ x * quotient + rest

    return Reproducer(
        Attention(),
        inputs=dict(x=torch.randn(1, 5, 8)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m, 8)) for n, m in ((3, 9), (1, 1), (2, 4))],
    )


def _is_size(*args: Any) -> bool:
    return any(isinstance(arg, (torch.SymInt, torch.SymFloat)) for arg in args)


def _of_sizes(original: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The original, except for sizes."""

    @wraps(original)
    def called(*args: Any) -> Any:
        return function(*args) if _is_size(*args) else original(*args)

    return called


def _computed(name: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        return getattr(torch, name)(torch.scalar_tensor(x, dtype=torch.float64)).item()

    return function


def _log(x: Any, base: Any = None) -> Any:
    natural = _computed("log")
    return natural(x) if base is None else natural(x) / natural(base)


@contextlib.contextmanager
def _replaced(owner: Any, functions: dict[str, Callable[..., Any]]) -> Iterator[None]:
    originals = {name: getattr(owner, name) for name in functions}
    for name, function in functions.items():
        setattr(owner, name, _of_sizes(originals[name], function))
    try:
        yield
    finally:
        for name, original in originals.items():
            setattr(owner, name, original)


@patch(
    "torch._export.non_strict_utils:_override_builtin_ops",
    family="torch",
    name="builtin_functions",
    versions="torch>=2.9",
    around=True,
    why="for as long as a module is traced, torch puts functions that take sizes in place of max, min and math.pow; the square root and the "
    "logarithm of a size, and divmod, are left out, and fix it to the sample's",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when torch replaces these too",
    reproducer=attention_scaled_by_a_length,
)
@contextlib.contextmanager
def override_builtin_ops(original: Any) -> Iterator[None]:
    functions = {name: _computed(name) for name in LOGARITHMS_AND_THE_LIKE}
    functions.update(sqrt=torch.sym_sqrt, log=_log)
    quotient_and_rest = dict(divmod=lambda x, y: (x // y, x % y))
    with original(), _replaced(math, functions), _replaced(builtins, quotient_and_rest):
        yield
