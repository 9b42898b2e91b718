"""The meta function of ``prims.broadcast_in_dim``, under every expand of a tensor whose size is undecided."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.torch.in_torch.refs import expand_to_the_rows_of_another
from yobx.torch.in_torch.sizes import hint, leave_open

torch: Any = lazy("torch")
prims: Any = lazy("torch._prims")


@patch(
    "torch._prims:_broadcast_in_dim_meta",
    family="torch",
    name="broadcast_in_dim",
    versions="torch>=2.9",
    why="an undecided size may be expanded or kept; the original asserts that it is kept",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="when torch leaves the check of an undecided expand to the operator",
    reproducer=expand_to_the_rows_of_another,
    group="broadcast",
    also=("torch:ops.prims.broadcast_in_dim.default.prim_meta_impl",),
)
def broadcast_in_dim(a: Any, shape: Any, broadcast_dimensions: Any) -> Any:
    from torch.fx.experimental.symbolic_shapes import guard_or_false, guard_or_true

    # every dimension must be accounted for
    if a.ndim != len(broadcast_dimensions):
        raise AssertionError(f"a.ndim ({a.ndim}) != len(broadcast_dimensions) ({len(broadcast_dimensions)})")

    # broadcast shape must have weakly more dimensions
    if len(shape) < a.ndim:
        raise AssertionError(f"len(shape) ({len(shape)}) must be >= a.ndim ({a.ndim})")

    # shape must be broadcastable to
    for idx, new_idx in enumerate(broadcast_dimensions):
        had, wanted = hint(a.shape[idx]), hint(shape[new_idx])
        torch._check(
            had is None or wanted is None or had in (1, wanted),
            lambda: f"{a.shape[idx]} must be broadcastable to {shape[new_idx]}",
        )
        leave_open(a.shape[idx], shape[new_idx])

    new_strides = []
    original_idx = 0
    for idx in range(len(shape)):
        if idx in broadcast_dimensions:
            # Assigns a stride of zero to dimensions
            # which were actually broadcast
            if guard_or_false(a.shape[original_idx] == 1):
                if guard_or_false(a.shape[original_idx] == shape[idx]):
                    new_strides.append(a.stride()[original_idx])
                else:
                    new_strides.append(0)
            else:
                new_strides.append(a.stride()[original_idx])
            original_idx = original_idx + 1
        else:
            if guard_or_true(shape[idx] != 1):
                # consistent with previous use of guard_size_oblivious
                new_strides.append(0)
            elif original_idx == a.ndim:
                new_strides.append(1)
            else:
                new_strides.append(a.stride()[original_idx] * a.size()[original_idx])

    return a.as_strided(shape, new_strides, a.storage_offset())
