"""Whether strides are in the order of channels last, for images that may shrink to one pixel."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")
guard_or_true: Any = lazy("torch.fx.experimental.symbolic_shapes:guard_or_true")


def an_image_of_one_pixel() -> Reproducer:
    class Pooled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = torch.nn.Conv2d(3, 4, 3, stride=4, padding=1)

        def forward(self, x):
            return torch.nn.functional.max_pool2d(self.convolution(x), 3, 2, 1)

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Pooled(),
        inputs=dict(x=torch.randn(2, 3, 8, 16)),
        dynamic_shapes=dict(x={0: dynamic, 2: dynamic, 3: dynamic}),
        accepts=[dict(x=torch.randn(n, 3, h, w)) for n, h, w in ((3, 16, 8), (1, 4, 4), (2, 4, 12))],
    )


@patch(
    "torch._prims_common:are_strides_like_channels_last",
    family="torch",
    versions="torch>=2.9,<2.13",
    why="whether strides are in the order of channels last is guarded on, so images that shrink to one pixel are rejected",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="with torch 2.13, which asks without guarding",
    reproducer=an_image_of_one_pixel,
)
def are_strides_like_channels_last(
    shape, strides
) -> bool:
    ndim = len(shape)

    if ndim == 4:
        # Check for channels_last_2d
        dim_order = [1, 3, 2, 0]
    elif ndim == 5:
        # Check for channels_last_3d
        dim_order = [1, 4, 3, 2, 0]
    else:
        return False

    if guard_or_true(strides[1] == 0):
        return False

    min = 0
    for d in dim_order:
        if guard_or_true(shape[d] == 0):
            return False
        if guard_or_true(strides[d] < min):
            return False
        if d == 0 and min == strides[1]:
            return False
        min = strides[d]
        min *= shape[d]
    return True
