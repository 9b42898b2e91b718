"""The cache of fake computations, which knows nothing of patches."""

from __future__ import annotations

from typing import Any

from yobx.helpers.patch_helper import patch
from yobx.torch.in_torch.refs import add_of_unrelated_sizes


@patch(
    "torch._subclasses.fake_tensor:FakeTensorMode._cached_dispatch_impl",
    family="torch",
    name="cached_dispatch",
    versions="torch>=2.9",
    why="the cache lasts as long as the process and would hand results of patched functions to plain exports, and the reverse",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="never: it is part of what patching needs",
    reproducer=add_of_unrelated_sizes,
    group="broadcast",
)
def cached_dispatch(self: Any, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    return self._dispatch_impl(func, types, args, kwargs)
