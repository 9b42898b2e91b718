"""Meta functions that decide on a size by a remainder."""

from __future__ import annotations

from typing import Any

from yobx.helpers.patch_helper import patch
from yobx.torch.in_torch.pooling import max_pooling_of_any_length


@patch(
    "torch._meta_registrations:div_rtn",
    family="torch",
    name="div_rtn",
    versions="torch>=2.9,<2.13",
    why="Python's division rounds down already; the original guards on the remainder to correct it, which never happens",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="with torch 2.13, which divides without guarding",
    reproducer=max_pooling_of_any_length,
)
def div_rtn(x: Any, y: Any) -> Any:
    return x // y
