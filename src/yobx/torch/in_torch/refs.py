"""Broadcasting in ``torch._refs``: sizes whose relation is undecided broadcast, they are not demanded to be equal."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import broadcast_size, expression, is_symbolic, leave_open, stride_of_expanded

torch: Any = lazy("torch")
prims: Any = lazy("torch._prims")
utils: Any = lazy("torch._prims_common")
symbolic_shapes: Any = lazy("torch.fx.experimental.symbolic_shapes")
refs: Any = lazy("torch._refs")


def add_of_unrelated_sizes() -> Reproducer:
    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    pairs = [
        ((3, 7), (3, 1)),
        ((3, 5), (3, 5)),
        ((3, 1), (3, 7)),
        ((1, 5), (4, 5)),
        ((4, 1), (1, 6)),
        ((2, 0), (2, 1)),
    ]
    return Reproducer(
        Add(),
        inputs=dict(x=torch.randn(2, 5), y=torch.randn(2, 1)),
        dynamic_shapes=dict(x=dynamic, y=dynamic),
        accepts=[dict(x=torch.randn(*x), y=torch.randn(*y)) for x, y in pairs],
        rejects=[dict(x=torch.randn(3, 5), y=torch.randn(3, 4))],
    )


def expand_to_the_rows_of_another() -> Reproducer:
    class Expand(torch.nn.Module):
        def forward(self, x, y):
            return torch.cat([x, y.expand(x.shape[0], -1)], dim=1)

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    return Reproducer(
        Expand(),
        inputs=dict(x=torch.randn(3, 4), y=torch.randn(1, 2)),
        dynamic_shapes=dict(x=dynamic, y=dynamic),
        accepts=[dict(x=torch.randn(5, 4), y=torch.randn(n, 3)) for n in (1, 5)],
        rejects=[dict(x=torch.randn(5, 4), y=torch.randn(3, 3))],
    )


@patch(
    "torch._refs:_broadcast_shapes",
    family="torch",
    name="broadcast_shapes",
    versions="torch>=2.9",
    why="sizes whose relation is undecided are a broadcast; the original demands that they be equal",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="when torch gives an undecided broadcast a size of its own instead of a guard",
    reproducer=add_of_unrelated_sizes,
    group="broadcast",
)
def broadcast_shapes(*_shapes: Any) -> Any:
    from collections.abc import Sequence

    shapes = tuple(
        (x,) if isinstance(x, refs.IntLike) else x for x in filter(lambda x: x is not None, _shapes)
    )

    # Short-circuits on no input
    if len(shapes) == 0:
        return None

    for shape in shapes:
        if not isinstance(shape, Sequence):
            raise RuntimeError(
                f"Input shapes should be of type ints, a tuple of ints, or a list of ints, got {shape}"
            )

    # Computes common shape
    common_shape: list[Any] = [1] * max(len(shape) for shape in shapes)
    for arg_idx, shape in enumerate(shapes):
        for idx in range(-1, -1 - len(shape), -1):
            # NB: handle nested ints specially to avoid invalid guarding on Ne(j0, 1).
            if symbolic_shapes.is_nested_int(shape[idx]) or symbolic_shapes.is_nested_int(common_shape[idx]):
                if isinstance(common_shape[idx], int):
                    common_shape[idx] = shape[idx]
                continue
            if isinstance(shape[idx], int) and shape[idx] < 0:
                raise ValueError("Attempting to broadcast a dimension with negative length!")
            size = broadcast_size(common_shape[idx], shape[idx])
            torch._check(
                size is not None,
                lambda: (
                    f"Attempting to broadcast a dimension of length {shape[idx]} at {idx}! "
                    f"Mismatching argument at index {arg_idx} had {shape}; but expected shape "
                    f"should be broadcastable to {common_shape}"
                ),
            )
            common_shape[idx] = size

    return common_shape


@patch(
    "torch._refs:_maybe_broadcast",
    family="torch",
    name="maybe_broadcast",
    versions="torch>=2.9",
    why="a tensor whose size is not known to be the common one is expanded; the original asserts that it is the common one",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="when torch expands tensors of undecided size",
    reproducer=add_of_unrelated_sizes,
    group="broadcast",
)
def maybe_broadcast(*args: Any, preserve_cpu_scalar_tensors: bool = True) -> Any:
    # Computes common shape
    common_shape = refs._broadcast_shapes(
        *(t.shape if isinstance(t, refs.TensorLike) else None for t in args)
    )

    def should_expand(a: Any, b: Any) -> bool:
        if len(a) != len(b):
            return True

        return not symbolic_shapes.statically_known_true(symbolic_shapes.sym_eq(list(a), list(b)))

    def __maybe_broadcast(x, shape):
        if x is None:
            return None
        elif isinstance(x, refs.Number):
            return x
        elif isinstance(x, refs.TensorLike):
            if preserve_cpu_scalar_tensors and utils.is_cpu_scalar_tensor(x):
                return x

            if should_expand(x.shape, common_shape):
                return x.expand(common_shape, implicit=True)

            return x
        else:
            raise RuntimeError("Unexpected type when broadcasting: " + str(type(x)) + "!")

    return tuple(__maybe_broadcast(x, common_shape) for x in args)


@patch(
    "torch._refs:expand",
    family="torch",
    name="expand",
    versions="torch>=2.9",
    why="a size that may be 1 or the requested one stays both; the operator itself rejects the rest at run time",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="when torch leaves the check of an undecided expand to the operator",
    reproducer=expand_to_the_rows_of_another,
    group="broadcast",
)
def expand(a: Any, *shape: Any, implicit: bool = False) -> Any:
    from collections.abc import Sequence

    from torch.fx.experimental.symbolic_shapes import guard_or_false, sym_or

    # NOTE: cannot use utils.extract_shape_from_varargs here
    # because that also validates the shape, but the shape
    # given to expand may be "invalid"
    if len(shape) == 1 and isinstance(shape[0], Sequence):
        shape = tuple(shape[0])

    torch._check(
        len(shape) >= len(a.shape),
        lambda: "expand: the requested shape has too few dimensions!",
    )

    offset = len(shape) - len(a.shape)
    shape_ = list(shape)
    for idx, x in enumerate(a.shape):
        offset_idx = idx + offset
        requested_length = shape[offset_idx]

        # expand(in -> out) has 3 different semantics:
        # 1) out == -1 -> size = in, stride unchanged
        # 2) in == 1 -> size = out, stride = 0
        # 3) in == out -> size = in, stride unchanged
        if guard_or_false(requested_length == -1):
            shape_[offset_idx] = x
        else:
            # Sizes broadcast with others have been checked when they met.
            if not implicit:
                torch._check(
                    sym_or(x == 1, requested_length == x),
                    lambda: f"expand: attempting to expand a dimension of length {x} -> {requested_length}!",
                )
            leave_open(x, requested_length)
            shape_[offset_idx] = requested_length

    # At this point shape must be valid
    utils.validate_shape(shape_)

    # A kernel on the meta device would reach the original through the operator, which C++ holds.
    broadcast_in_dim = prims._broadcast_in_dim_meta if a.device.type == "meta" else prims.broadcast_in_dim
    result = broadcast_in_dim(a, shape_, tuple(range(offset, len(a.shape) + offset)))
    # What a user does to the result must not rely on an undecided dimension having been kept.
    undecided = [i for i, x in enumerate(a.shape) if is_symbolic(x) and expression(x) != expression(shape_[i + offset])]
    if implicit or not undecided:
        return result
    strides = list(result.stride())
    for idx in undecided:
        strides[idx + offset] = stride_of_expanded(a.shape[idx], a.stride()[idx], shape_[idx + offset])
    return result.as_strided(shape_, strides)
