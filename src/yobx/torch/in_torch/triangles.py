"""The diagonal from which on a matrix is kept, given by sizes: a mask of new tokens over past ones and new."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")


def mask_of_past_and_new() -> Reproducer:
    class Mask(torch.nn.Module):
        def forward(self, new, past):
            n, m = new.shape[0], past.shape[0] + new.shape[0]
            ones = torch.ones(n, m)
            lower = torch.tril(ones, diagonal=m - n), ones.tril(m - n)
            upper = torch.triu(ones, diagonal=m - n + 1), ones.bool().triu(m - n + 1)
            return lower, upper

    def inputs(n: int, m: int) -> dict[str, Any]:
        return dict(new=torch.randn(n), past=torch.randn(m))

    return Reproducer(
        Mask(),
        inputs=inputs(3, 5),
        dynamic_shapes=dict(new={0: torch.export.Dim.DYNAMIC}, past={0: torch.export.Dim.DYNAMIC}),
        accepts=[inputs(n, m) for n, m in ((4, 7), (1, 3), (2, 1), (5, 0))],
    )


@patch(
    "torch._export.non_strict_utils:_NonStrictTorchFunctionHandler.__torch_function__",
    family="torch",
    name="tril",
    versions="torch>=2.9,<2.13",
    around=True,
    why="tril and triu take the diagonal as a plain int, so sizes are fixed to the sample's",
    obsolete="with torch 2.13, whose operators take it as SymInt",
    reproducer=mask_of_past_and_new,
)
def tril(original: Any, self: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    name = getattr(func, "__name__", "")
    if (
        name in KEPT
        and func in (getattr(torch, name), getattr(torch.Tensor, name))
        and _by_sizes(*args, **kwargs or {})
    ):
        func = KEPT[name]
    return original(self, func, types, args, kwargs)


def _by_sizes(input: Any, diagonal: Any = 0, *, out: Any = None) -> bool:
    return isinstance(diagonal, torch.SymInt) and out is None and not torch.compiler.is_dynamo_compiling()


def _lower(input: Any, diagonal: Any, out: None = None) -> Any:
    rows, columns = _indices(input)
    return torch.where(columns <= rows + diagonal, input, torch.zeros((), dtype=input.dtype, device=input.device))


def _upper(input: Any, diagonal: Any, out: None = None) -> Any:
    rows, columns = _indices(input)
    return torch.where(columns >= rows + diagonal, input, torch.zeros((), dtype=input.dtype, device=input.device))


def _indices(input: Any) -> tuple[Any, Any]:
    rows, columns = (torch.arange(size, device=input.device) for size in input.shape[-2:])
    return rows[:, None], columns


KEPT = {"tril": _lower, "triu": _upper}
