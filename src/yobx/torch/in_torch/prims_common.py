"""The order of the dimensions of an elementwise result."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import hint

torch: Any = lazy("torch")
prims_common: Any = lazy("torch._prims_common")


def sum_of_one_step_transposed() -> Reproducer:
    class Add(torch.nn.Module):
        def forward(self, x):
            return x.transpose(0, 1) + 1

    return Reproducer(
        Add(),
        inputs=dict(x=torch.randn(2, 1, 8)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m, 8)) for n, m in ((3, 5), (1, 1), (4, 1))],
    )


@patch(
    "torch._prims_common:compute_elementwise_output_logical_to_physical_perm",
    family="torch",
    name="output_permutation",
    versions="torch>=2.9,<2.13",
    why="the order of strides is a question of layout; the original guards on sizes to answer it",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="with torch 2.13, which asks without guarding",
    reproducer=sum_of_one_step_transposed,
    group="zero_one",
)
def output_permutation(*tensors: Any, _skip_checks: bool = False) -> list[int]:
    from torch._prims_common import TensorLike, check_same_shape, is_contiguous_for_memory_format_or_false
    from torch.fx.experimental.symbolic_shapes import guard_or_false

    if not _skip_checks and len(tensors) == 0:
        msg = "Can't compute elementwise output strides for zero tensors!"
        raise ValueError(msg)

    if not _skip_checks:
        check_same_shape(*tensors, allow_cpu_scalar_tensors=True)

    # Filters the tensors to actual tensors
    if not _skip_checks:
        tensors = tuple(
            a
            for a in tensors
            if isinstance(a, TensorLike) and not prims_common.is_cpu_scalar_tensor(a)
        )

    # Short-circuits for CPU scalar case
    if len(tensors) == 0:
        return []

    # Short-circuits for shapes with zero or one dimensions
    ndim = tensors[0].ndim
    if ndim == 0:
        return []
    if ndim == 1:
        return [0]

    # Short-circuits if contiguous or channels last, following the fake fast path.
    # This reduces the number of guards we end up making
    is_contiguous = True
    is_channels_last = True
    for t in tensors:
        is_contiguous = is_contiguous and is_contiguous_for_memory_format_or_false(
            t, memory_format=torch.contiguous_format
        )
        is_channels_last = (
            is_channels_last
            and is_contiguous_for_memory_format_or_false(
                t, memory_format=torch.channels_last
            )
        )

    if is_contiguous and not is_channels_last:
        return list(range(ndim))

    if is_channels_last and not is_contiguous:
        return [0, *list(range(2, ndim)), 1]

    shape = tensors[0].shape

    def should_swap(idx_a, idx_b):
        def ge(a, b):
            # Whether a is known to be at least b; as torch 2.13 asks.
            if guard_or_false(b == 0):
                return True
            elif guard_or_false(a == 0):
                return False
            # A stride may be 0 in the sample, though that is not asked of it.
            return guard_or_false(a >= b) or (hint(b) != 0 and guard_or_false(a % b == 0))

        for tensor in tensors:
            stride_a = tensor.stride()[idx_a]
            stride_b = tensor.stride()[idx_b]
            if guard_or_false(stride_a == 0) or guard_or_false(stride_b == 0):
                continue

            if guard_or_false(stride_a == stride_b):
                if ge(shape[idx_b], shape[idx_a]):
                    continue
                return 1

            if ge(stride_b, stride_a):
                return -1

            if ge(stride_a, stride_b):
                return 1

        # Note: this case is hit if all strides are zero,
        # or all strides are equal and all dimensions have the same length
        return 0

    # The "sort" order for the permutation is back-to-front, but
    # the natural order for permutations is front-to-back.  Do the
    # sorting back-to-front and then reverse it on output.
    #
    # also, note this returns the logical to physical shape permutation
    perm = list(reversed(range(ndim)))

    # insertion sort with support for ambiguous comparisons
    for i in range(1, ndim):
        dim1 = i
        for dim0 in reversed(range(i)):
            comparison = should_swap(perm[dim0], perm[dim1])
            if comparison > 0:
                perm[dim0], perm[dim1] = perm[dim1], perm[dim0]
                dim1 = dim0
            elif comparison < 0:
                break

    return list(reversed(perm))
