"""Questions of layout that ATen asks of sizes: channels last in a sample of one image, elements that share memory."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.marks import decided
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import (
    asking,
    follows_the_sample,
    is_symbolic,
    larger_or_smaller,
    oblivious,
    samples,
    undecided,
)

torch: Any = lazy("torch")
sympy: Any = lazy("sympy")
known: Any = lazy("torch.fx.experimental.symbolic_shapes:statically_known_true")


def one_image_with_channels_last() -> Reproducer:
    class Convolution(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.conv2d(x, torch.ones(3, 4, 3, 3)).flatten(2)

    def image(*shape: int) -> Any:
        return torch.randn(*shape).to(memory_format=torch.channels_last)

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Convolution(),
        inputs=dict(x=image(1, 4, 5, 6)),
        dynamic_shapes=dict(x={0: dynamic, 2: dynamic, 3: dynamic}),
        accepts=[dict(x=image(n, 4, h, w)) for n, h, w in ((3, 6, 5), (1, 3, 3))],
    )


@patch(
    "torch.fx.experimental.sym_node:SymNode.guard_bool",
    family="torch",
    name="more_than_one",
    versions="torch>=2.9",
    around=True,
    why="ATen asks of every size whether it is above 1 to tell the layout; a sample of one image is laid out as several are",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when ATen asks questions of layout without guarding",
    reproducer=one_image_with_channels_last,
)
def more_than_one(original: Any, self: Any, file: str, line: int) -> bool:
    # Python asks without a file: what a model decides by its sizes is not touched.
    if file.endswith("SymInt.h") and _is_above_one(self.shape_env, self.expr):
        decided()
        return True
    if file.endswith("TensorImpl.h") and self._hint is not None and oblivious(self.shape_env, self.expr):
        # Whether it is contiguous: not for every size.
        static = self.shape_env._maybe_evaluate_static(self.expr)
        if static is None:
            decided()
        return bool(static)
    return original(self, file, line)


def _is_above_one(shape_env: Any, question: Any) -> bool:
    """Whether this asks if a size, or a stride made of sizes, is above 1 that is 1 in a sample of one.

    Or one derived from larger sizes, as that of an image after a convolution with a stride, which may become 1.
    """
    if not isinstance(question, (sympy.StrictGreaterThan, sympy.StrictLessThan)):
        return False
    size, least = (question.gts, question.lts)
    symbols = size.free_symbols
    if least != 1 or any(follows_the_sample(shape_env, s) for s in symbols):
        return False
    if size.is_Symbol or larger_or_smaller(size):
        return all(samples(shape_env).get(symbol) == 1 for symbol in symbols)
    return symbols <= samples(shape_env).keys() and undecided(shape_env, size)


def as_many_columns_as_another_in_place() -> Reproducer:
    class Exponential(torch.nn.Module):
        def forward(self, x, y):
            z = x.clone()
            z.narrow(1, 0, y.shape[1]).exp_()
            return z

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Exponential(),
        inputs=dict(x=torch.randn(2, 6), y=torch.randn(2, 3)),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, y={0: dynamic, 1: dynamic}),
        accepts=[dict(x=torch.randn(n, m), y=torch.randn(n, k)) for n, m, k in ((3, 9, 9), (1, 1, 1), (3, 7, 2))],
    )


@patch(
    "torch:_debug_has_internal_overlap",
    family="torch",
    versions="torch>=2.13",
    around=True,
    why="whether elements of a tensor share memory is asked before it is written to; ATen compares sizes with strides, and guards",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when ATen asks for overlaps without guarding",
    reproducer=as_many_columns_as_another_in_place,
)
def _debug_has_internal_overlap(original: Any, t: Any) -> int:
    if not any(map(is_symbolic, (*t.shape, *t.stride()))):
        return original(t)
    overlaps = any(known(stride == 0) and known(size > 1) for size, stride in zip(t.shape, t.stride()))
    # MemOverlap: Yes, or TooHard
    return 1 if overlaps else 2


def windows_turned_round() -> Reproducer:
    class Windows(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.pad(x, (3, 0)).unfold(-1, 4, 1).flip(-1).transpose(1, 2) + 1

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Windows(),
        inputs=dict(x=torch.randn(2, 5, 6)),
        dynamic_shapes=dict(x={0: dynamic, 2: dynamic}),
        accepts=[dict(x=torch.randn(n, 5, m)) for n, m in ((3, 9), (2, 3), (1, 1))],
    )


@patch(
    "torch._prims_common:compute_elementwise_output_logical_to_physical_perm",
    family="torch",
    name="order_in_memory",
    versions="torch>=2.13",
    around=True,
    why="which dimension comes first in memory is told by comparing sizes where strides are equal; values do not depend on it",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when torch asks for the order of strides without guarding",
    reproducer=windows_turned_round,
)
def order_in_memory(original: Any, *tensors: Any, **kwargs: Any) -> Any:
    before, asking.layout = asking.layout, True
    try:
        return original(*tensors, **kwargs)
    finally:
        asking.layout = before
