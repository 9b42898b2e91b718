"""Floats, flags and offsets made of sizes, where torch asks for plain ones: they are met where a trace sees every call of a torch function."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.diagonals import shifted
from yobx.torch.in_torch.flags import either
from yobx.torch.in_torch.floats import written

torch: Any = lazy("torch")
functional: Any = lazy("torch.nn.functional")


def a_layer_that_asks_for_sizes() -> Reproducer:
    class Layer(torch.nn.Module):
        def forward(self, x):
            x = functional.layer_norm(functional.pad(x, (0, 2, 1, 0), value=x.shape[1]), (6,), eps=1 / x.shape[0])
            x = functional.group_norm(x[:, None].expand(-1, 4, -1, -1), 2, eps=1 / x.shape[1])
            x = functional.interpolate(x, size=(4, 6), mode="bilinear", align_corners=x.shape[0] > 2)
            x = x + torch.diag_embed(x.diagonal(x.shape[0] - 2, 0, 2), x.shape[0] - 1).sum()
            x = functional.dropout(x, 1 / x.shape[0], training=x.shape[0] > 9) * ((x > 0) & (x.shape[0] > 1))
            return functional.smooth_l1_loss(functional.rms_norm(x, (6,), eps=1 / x.shape[0]), x, beta=1 / x.shape[0])

    return Reproducer(
        Layer(),
        inputs=dict(x=torch.randn(2, 5, 4)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m, 4)) for n, m in ((3, 7), (1, 1), (4, 2))],
    )


@patch(
    "torch._export.non_strict_utils:_NonStrictTorchFunctionHandler._override",
    family="torch",
    name="plain_arguments",
    versions="torch>=2.13",
    around=True,
    why="where an operator takes a plain float, int or bool, a number that is made of sizes is fixed to the sample's, and a comparison "
    "of sizes is a TypeError; other operators say the same, and what both values of a flag give can be computed",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when operators take floats as SymFloat, offsets as SymInt and flags as SymBool",
    reproducer=a_layer_that_asks_for_sizes,
)
def plain_arguments(original: Any, self: Any, func: Any, args: Any, kwargs: Any) -> Any:
    function = written(func, args, kwargs) or either(func, args, kwargs) or shifted(func, args, kwargs)
    return (function, args, kwargs) if function is not None else original(self, func, args, kwargs)
