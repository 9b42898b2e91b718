"""Decompositions that take what the operator rejects, because they broadcast or because torch takes a size for granted."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.composite import CompositeKernel
from yobx.torch.in_torch.sizes import check_assumed, decomposed

torch: Any = lazy("torch")


def blocks_of_an_image() -> Reproducer:
    class Blocks(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.unfold(x, 2, stride=2) * 2

    return Reproducer(
        Blocks(),
        inputs=dict(x=torch.randn(2, 3, 4, 4)),
        dynamic_shapes=dict(x=dict.fromkeys((0, 2, 3), torch.export.Dim.DYNAMIC)),
        accepts=[dict(x=torch.randn(b, 3, *size)) for b, size in ((3, (7, 2)), (1, (2, 9)), (2, (3, 2)))],
        rejects=[dict(x=torch.randn(b, 3, *size)) for b, size in ((2, (1, 6)), (1, (5, 1)), (2, (1, 1)))],
        export=decomposed,
    )


@patch(
    "torch._decomp.decompositions:im2col",
    family="torch",
    name="unfold",
    versions="torch>=2.9",
    around=True,
    why="decomposed into an index, an image smaller than a block gives no block, which the operator rejects, as torch takes for granted "
    "that no size is 1; the error becomes a guard",
    obsolete="when torch guards on what it assumes of sizes",
    reproducer=blocks_of_an_image,
)
def im2col(original: Any, input: Any, kernel_size: Any, dilation: Any, padding: Any, stride: Any, **out: Any) -> Any:
    # First, for the errors that it raises.
    blocks = original(input, kernel_size, dilation, padding, stride, **out)
    if not torch.compiler.is_dynamo_compiling():
        for length, kernel, step, pad in zip(input.shape[-2:], kernel_size, dilation, padding):
            check_assumed(length + 2 * pad > step * (kernel - 1))
    return blocks


def classes_of_pixels() -> Reproducer:
    class Loss(torch.nn.Module):
        def forward(self, x, y):
            return torch.nn.functional.cross_entropy(x, y) * 2

    def inputs(size: tuple[int, int], target: tuple[int, int]) -> dict[str, Any]:
        return dict(x=torch.randn(2, 5, *size), y=torch.ones(2, *target, dtype=torch.int64))

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Loss(),
        inputs=inputs((3, 4), (3, 4)),
        dynamic_shapes=dict(x={2: dynamic, 3: dynamic}, y={1: dynamic, 2: dynamic}),
        accepts=[inputs((5, 7), (5, 7)), inputs((1, 1), (1, 1))],
        rejects=[inputs((1, 4), (1, 1)), inputs((3, 3), (3, 2))],
        export=decomposed,
    )


@patch(
    "torch._decomp.decompositions:_nll_loss_forward",
    family="torch",
    name="nll_loss",
    versions="torch>=2.9",
    around=True,
    why="decomposed into a gather, classes for fewer pixels than the image has are taken, which the operator rejects",
    obsolete="when the decomposition compares the sizes of image and classes",
    reproducer=classes_of_pixels,
)
def nll_loss_forward(original: Any, self: Any, target: Any, weight: Any, reduction: int, ignore_index: int) -> Any:
    for size, wanted in zip(target.shape[1:], self.shape[2:]):
        torch._check(size == wanted, lambda: f"size mismatch (got input: {tuple(self.shape)}, target: {tuple(target.shape)})")
    return original(self, target, weight, reduction, ignore_index)


def rows_added_to_some() -> Reproducer:
    class Add(torch.nn.Module):
        def forward(self, x, index, rows):
            return x.index_add(0, index, rows)

    def inputs(width: int, n: int, wide: int) -> dict[str, Any]:
        return dict(x=torch.randn(4, width), index=torch.arange(n), rows=torch.randn(n, wide))

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Add(),
        inputs=inputs(3, 2, 3),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, index={0: dynamic}, rows={0: dynamic, 1: dynamic}),
        accepts=[inputs(5, 3, 5), inputs(1, 1, 1)],
        rejects=[inputs(3, 3, 1), inputs(3, 2, 2)],
        export=decomposed,
    )


@patch(
    "torch._decomp.decompositions:_index_add",
    family="torch",
    name="index_add",
    versions="torch>=2.9",
    around=True,
    why="decomposed into an assignment, which broadcasts, rows of one element are added to wider ones, which the operator rejects",
    obsolete="when the decomposition compares the sizes of both",
    reproducer=rows_added_to_some,
)
def index_add(original: Any, x: Any, dim: int, index: Any, tensor: Any, **options: Any) -> Any:
    if x.ndim == tensor.ndim:
        for i, (size, wanted) in enumerate(zip(tensor.shape, x.shape)):
            if i != dim % x.ndim:
                torch._check(size == wanted, lambda: f"source tensor shape must match self tensor shape but for dim {dim}")
    return original(x, dim, index, tensor, **options)


def powers_of_one_and_of_several() -> Reproducer:
    class Powers(torch.nn.Module):
        def forward(self, x):
            return torch.linalg.vander(x) * 2

    return Reproducer(
        Powers(),
        inputs=dict(x=torch.randn(2, 3)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m)) for n, m in ((1, 2), (3, 4))],
        rejects=[dict(x=torch.randn(2, 1)), dict(x=torch.randn(1, 1))],
        export=decomposed,
    )


@patch(
    "torch:ops.aten.linalg_vander.default",
    family="torch",
    name="linalg_vander",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten.linalg_vander.default)],
    around=True,
    why="decomposed into a product, it takes the single power that the operator rejects, as torch takes for granted that no size is 1; "
    "the error becomes a guard",
    obsolete="when torch guards on what it assumes of sizes",
    reproducer=powers_of_one_and_of_several,
)
def linalg_vander(original: Any, x: Any, *, N: Any = None) -> Any:
    check_assumed((x.shape[-1] if N is None else N) > 1)
    return original(x, N=N)
