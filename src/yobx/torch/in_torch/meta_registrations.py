"""Meta functions that decide on a size by a remainder, or by where a window begins."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.pooling import max_pooling_of_any_length

torch: Any = lazy("torch")
meta_registrations: Any = lazy("torch._meta_registrations")


@patch(
    "torch._meta_registrations:div_rtn",
    family="torch",
    name="div_rtn",
    versions="torch>=2.9,<2.13",
    why="Python's division rounds down already; the original guards on the remainder to correct it, which never happens",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="with torch 2.13, which divides without guarding",
    reproducer=max_pooling_of_any_length,
)
def div_rtn(x: Any, y: Any) -> Any:
    return x // y


def windows_that_begin_in_the_padding() -> Reproducer:
    """The last window of an odd length begins in the padding and is left out; that of an even one is not."""
    return Reproducer(
        torch.nn.AvgPool1d(2, stride=2, padding=1, ceil_mode=True),
        inputs=dict(input=torch.randn(2, 4, 5)),
        dynamic_shapes=dict(input={0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}),
        accepts=[dict(input=torch.randn(b, 4, n)) for b, n in ((3, 8), (1, 1), (2, 2), (2, 7))],
    )


@patch(
    "torch._meta_registrations:pooling_output_shape_pad_lr",
    family="torch",
    name="pooling_output_shape",
    versions="torch>=2.9",
    why="with ceil_mode, whether the last window begins in the padding is asked with a guard, and the program is for the sample's answer",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when the number of windows is computed without guarding",
    reproducer=windows_that_begin_in_the_padding,
)
def pooling_output_shape_pad_lr(
    inputSize,
    kernelSize,
    pad_l,
    pad_r,
    stride,
    dilation,
    ceil_mode,
):
    outputSize = (
        meta_registrations.div_rtn(
            inputSize
            + pad_l
            + pad_r
            - dilation * (kernelSize - 1)
            - 1
            + (stride - 1 if ceil_mode else 0),
            stride,
        )
        + 1
    )
    # A step that is no longer than a window without its padding on the right leads to no window that begins there.
    if ceil_mode and stride > dilation * (kernelSize - 1) + 1 - pad_r:
        outputSize = torch.sym_min(outputSize, meta_registrations.div_rtn(inputSize + pad_l - 1, stride) + 1)
    return outputSize
