"""Calls of torch functions that an export redirects to others, which torch up to 2.12 lets through to C++."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.assignments import assigned
from yobx.torch.in_torch.diagonals import shifted
from yobx.torch.in_torch.triangles import kept

torch: Any = lazy("torch")


def masks_of_past_and_new_and_a_part_written() -> Reproducer:
    class Mask(torch.nn.Module):
        def forward(self, new, past, bias):
            n, m = new.shape[0], past.shape[0] + new.shape[0]
            ones = torch.ones(n, m)
            lower = torch.tril(ones, diagonal=m - n), ones.tril(m - n)
            upper = torch.triu(ones, diagonal=m - n + 1), ones.bool().triu(m - n + 1)
            written = new.clone()
            written[:] = bias
            return lower, upper, written, ones.diagonal(m - n)

    def inputs(n: int, m: int, b: int) -> dict[str, Any]:
        return dict(new=torch.randn(n), past=torch.randn(m), bias=torch.randn(b))

    return Reproducer(
        Mask(),
        inputs=inputs(3, 5, 1),
        dynamic_shapes={name: {0: torch.export.Dim.DYNAMIC} for name in ("new", "past", "bias")},
        accepts=[inputs(*sizes) for sizes in ((4, 7, 4), (4, 7, 1), (1, 3, 1), (2, 1, 2), (5, 0, 1), (0, 4, 1))],
        rejects=[inputs(3, 5, 4), inputs(1, 5, 4)],
    )


@patch(
    "torch._export.non_strict_utils:_NonStrictTorchFunctionHandler._override",
    family="torch",
    name="redirected_calls",
    versions="torch>=2.9,<2.13",
    around=True,
    why="an assignment to a part of a tensor compares sizes in C++ and guards, where copy_ into that part does not; tril and triu take "
    "the diagonal as a plain int, as diagonal and diag do, so sizes are fixed to the sample's, where other calls keep them",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="with torch 2.13, which expands what is assigned without asking, and takes the diagonal as SymInt",
    reproducer=masks_of_past_and_new_and_a_part_written,
)
def redirected_calls(original: Any, self: Any, func: Any, args: Any, kwargs: Any) -> Any:
    function = assigned(func, args, kwargs) or kept(func, args, kwargs) or shifted(func, args, kwargs)
    return (function, args, kwargs) if function is not None else original(self, func, args, kwargs)
