"""Grids of an affine map: whether a side has one element, or none, is asked of sizes."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import check_assumed, decomposed, is_symbolic

torch: Any = lazy("torch")
shapes: Any = lazy("torch.fx.experimental.symbolic_shapes")


def corners_of_an_image() -> Reproducer:
    class Grid(torch.nn.Module):
        def forward(self, theta, x):
            return torch.nn.functional.affine_grid(theta, x.shape, align_corners=True)

    def inputs(b: int, h: int, w: int) -> dict[str, Any]:
        return dict(theta=torch.randn(b, 2, 3), x=torch.randn(b, 1, h, w))

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Grid(),
        inputs=inputs(2, 4, 5),
        dynamic_shapes=dict(theta={0: dynamic}, x={0: dynamic, 2: dynamic, 3: dynamic}),
        accepts=[inputs(3, 7, 2), inputs(1, 1, 3), inputs(2, 1, 1)],
        export=decomposed,
    )


@patch(
    "torch._decomp.decompositions:_linspace_from_neg_one",
    family="torch",
    name="affine_grid",
    versions="torch>=2.9",
    around=True,
    why="whether a side has one element, which then is its middle, is answered by the sample, and a decomposed program gives a corner instead",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when the decomposition asks for no size",
    reproducer=corners_of_an_image,
)
def linspace_from_neg_one(original: Any, num_steps: Any, align_corners: bool, dtype: Any, device: Any) -> Any:
    if not is_symbolic(num_steps):
        return original(num_steps, align_corners, dtype, device)
    a = torch.sym_min(num_steps - 1, 1) if align_corners else (num_steps - 1) / num_steps
    return torch.linspace(-a, a, steps=num_steps, device=device, dtype=dtype)


def corners_of_one_row() -> Reproducer:
    class Grid(torch.nn.Module):
        def forward(self, theta, x):
            return torch.nn.functional.affine_grid(theta, x.shape, align_corners=True)

    def inputs(b: int, h: int, w: int) -> dict[str, Any]:
        return dict(theta=torch.randn(b, 2, 3), x=torch.randn(b, 8, h, w))

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Grid(),
        inputs=inputs(2, 1, 5),
        dynamic_shapes=dict(theta={0: dynamic}, x={0: dynamic, 2: dynamic, 3: dynamic}),
        accepts=[inputs(3, 7, 2), inputs(1, 1, 3), inputs(2, 1, 1), inputs(0, 1, 3)],
        rejects=[inputs(0, 3, 4), inputs(2, 0, 4)],
    )


@patch(
    "torch.nn.functional:affine_grid",
    family="torch",
    name="affine_grid_sizes",
    versions="torch>=2.9",
    around=True,
    why="whether a side has one element, which only gives a warning, is asked with a guard; that no size is 0, which raises, without one",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when torch warns of images of one row without guarding",
    reproducer=corners_of_one_row,
)
def affine_grid(original: Any, theta: Any, size: Any, align_corners: Any = None) -> Any:
    n = len(size) - 2
    fits = n in (2, 3) and theta.is_floating_point() and theta.ndim == 3 and tuple(theta.shape[1:]) == (n, n + 1)
    symbolic = any(map(is_symbolic, size)) and not torch.compiler.is_dynamo_compiling()
    if not fits or not symbolic or torch.overrides.has_torch_function_unary(theta):
        return original(theta, size, align_corners)
    positive = shapes.sym_and(*(length > 0 for length in size))
    if not align_corners:
        check_assumed(positive)
        return original(theta, size, align_corners)
    # Of a row the original warns, and asks no more.
    row = shapes.sym_and(shapes.sym_or(*(length == 1 for length in size[2:])), *(length > 0 for length in size[2:]))
    check_assumed(shapes.sym_or(positive, row))
    return torch.affine_grid_generator(theta, size, align_corners)
