"""The scale of an interpolation whose corners are aligned."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")


def corners_aligned_to_one_column() -> Reproducer:
    class Resize(torch.nn.Module):
        def forward(self, x, y):
            return torch.nn.functional.interpolate(x, size=y.shape[2:], mode="bilinear", align_corners=True)

    def inputs(b: int, h: int, w: int) -> dict[str, Any]:
        return dict(x=torch.randn(b, 4, 6, 5), y=torch.randn(b, 4, h, w))

    dynamic = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC, 3: torch.export.Dim.DYNAMIC}
    return Reproducer(
        Resize(),
        inputs=inputs(2, 1, 7),
        dynamic_shapes=dict(x=dynamic, y=dynamic),
        accepts=[inputs(3, 7, 1), inputs(1, 1, 1), inputs(2, 4, 9)],
    )


@patch(
    "torch._decomp.decompositions:_compute_scale",
    family="torch",
    name="compute_scale",
    versions="torch>=2.9",
    why="with one element the scale is multiplied by position 0; that is so for any scale, so nothing has to be asked",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when torch scales without guarding",
    reproducer=corners_aligned_to_one_column,
)
def _compute_scale(in_size, out_size, align_corners, scale=None):
    if align_corners:
        return (in_size - 1.0) / torch.sym_max(out_size - 1, 1)
    else:
        return 1.0 / scale if scale is not None and scale > 0 else in_size / out_size
