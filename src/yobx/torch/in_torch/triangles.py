"""The diagonal from which on a matrix is kept, given by sizes: a mask of new tokens over past ones and new."""

from __future__ import annotations

import operator
from functools import partial
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")


def mask_of_past_and_new(method: bool, name: str) -> Reproducer:
    class Mask(torch.nn.Module):
        def forward(self, new, past):
            n, m = new.shape[0], past.shape[0] + new.shape[0]
            ones = torch.ones(n, m)
            return getattr(ones, name)(m - n) if method else getattr(torch, name)(ones, diagonal=m - n)

    def inputs(n: int, m: int) -> dict[str, Any]:
        return dict(new=torch.randn(n), past=torch.randn(m))

    return Reproducer(
        Mask(),
        inputs=inputs(3, 5),
        dynamic_shapes=dict(new={0: torch.export.Dim.DYNAMIC}, past={0: torch.export.Dim.DYNAMIC}),
        accepts=[inputs(n, m) for n, m in ((4, 7), (1, 3), (2, 1), (5, 0))],
    )


def _declared(target: str, name: str) -> Any:
    method = target == "Tensor."
    return patch(
        f"torch:{target}{name}",
        family="torch",
        name=f"{'tensor_' if method else ''}{name}",
        versions="torch>=2.9,<2.13",
        around=True,
        why="the operator takes the diagonal as a plain int, so sizes are fixed to the sample's",
        obsolete="with torch 2.13, whose operator takes it as SymInt",
        reproducer=partial(mask_of_past_and_new, method, name),
    )


@_declared("", "tril")
@_declared("Tensor.", "tril")
def tril(original: Any, input: Any, diagonal: Any = 0, **out: Any) -> Any:
    return _kept(original, operator.le, input, diagonal, out)


@_declared("", "triu")
@_declared("Tensor.", "triu")
def triu(original: Any, input: Any, diagonal: Any = 0, **out: Any) -> Any:
    return _kept(original, operator.ge, input, diagonal, out)


def _kept(original: Any, compare: Any, input: Any, diagonal: Any, out: Any) -> Any:
    if not isinstance(diagonal, torch.SymInt) or out.get("out") is not None or torch.compiler.is_dynamo_compiling():
        return original(input, diagonal, **out)
    rows, columns = (torch.arange(size, device=input.device) for size in input.shape[-2:])
    return torch.where(compare(columns, rows[:, None] + diagonal), input, torch.zeros((), dtype=input.dtype, device=input.device))
