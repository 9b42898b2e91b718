"""The flag that makes every size oblivious: not while a program is traced."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.torch.in_torch.symbolic_shapes import linear_of_one_row

torch: Any = lazy("torch")
fx_config: Any = lazy("torch.fx.experimental._config")


def _without_the_flag(original: Any, *args: Any, **kwargs: Any) -> Any:
    with fx_config.patch(backed_size_oblivious=False):
        return original(*args, **kwargs)


def _declare(target: str, name: str) -> None:
    patch(
        target,
        family="torch",
        name=name,
        versions="torch>=2.9",
        around=True,
        why="sizes 0 and 1 are kept per symbol; the flag that keeps them everywhere narrows other models",
        see="https://github.com/pytorch/pytorch/issues/176349",
        obsolete="when the flag narrows no model",
        reproducer=linear_of_one_row,
        group="zero_one",
    )(_without_the_flag)


_declare("torch.export._trace:_strict_export", "strict_export")
_declare("torch.export._trace:_non_strict_export", "non_strict_export")
_declare("torch.export.exported_program:_decompose_exported_program", "decompose_exported_program")
