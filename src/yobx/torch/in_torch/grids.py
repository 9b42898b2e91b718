"""The decomposition of ``affine_grid``, which asks whether a side has one element."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import decomposed, is_symbolic

torch: Any = lazy("torch")


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
