"""The flag that makes every size oblivious: not while a program is traced."""

from __future__ import annotations

from functools import partial
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")
fx_config: Any = lazy("torch.fx.experimental._config")


def _under_the_flag(*args: Any, **kwargs: Any) -> Any:
    with fx_config.patch(backed_size_oblivious=True):
        return torch.export.export(*args, **kwargs)


def _sum_unless_one_step(strict: bool) -> Reproducer:
    class Sum(torch.nn.Module):
        def forward(self, x):
            return x.cumsum(1) if x.shape[1] > 1 else x * 1

    return Reproducer(
        Sum(),
        inputs=dict(x=torch.randn(2, 5)),
        dynamic_shapes=dict(x={1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(2, n)) for n in (3, 1)],
        strict=strict,
        export=_under_the_flag,
    )


def _declared(target: str, reproducer: Any) -> Any:
    return patch(
        target,
        family="torch",
        versions="torch>=2.9",
        around=True,
        why="sizes 0 and 1 are kept per symbol; the flag that keeps them everywhere guards where torch assumes at least 2",
        see="https://github.com/pytorch/pytorch/issues/176349",
        obsolete="when the flag narrows no model",
        reproducer=reproducer,
    )


@_declared("torch.export._trace:_strict_export", partial(_sum_unless_one_step, True))
def strict_export(original: Any, *args: Any, **kwargs: Any) -> Any:
    with fx_config.patch(backed_size_oblivious=False):
        return original(*args, **kwargs)


@_declared("torch.export._trace:_non_strict_export", partial(_sum_unless_one_step, False))
def non_strict_export(original: Any, *args: Any, **kwargs: Any) -> Any:
    with fx_config.patch(backed_size_oblivious=False):
        return original(*args, **kwargs)
