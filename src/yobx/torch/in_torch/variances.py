"""The variance whose correction is a size."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")
utils: Any = lazy("torch._prims_common")


def variances_corrected_by_the_rows() -> Reproducer:
    class Variances(torch.nn.Module):
        def forward(self, x):
            deviation, mean = torch.std_mean(x, 0, correction=x.shape[1] - 1)
            return x.var(1, correction=x.shape[0]).sum() + deviation + mean

    return Reproducer(
        Variances(),
        inputs=dict(x=torch.randn(2, 5)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m)) for n, m in ((4, 7), (3, 2), (1, 1), (7, 4))],
    )


@patch(
    "torch._refs:var",
    family="torch",
    name="correction",
    versions="torch>=2.9",
    around=True,
    why="the operator takes its correction as a Scalar, but the primitive beneath takes a plain float, which fixes a size to the sample's",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when prims.var takes its correction as SymFloat",
    reproducer=variances_corrected_by_the_rows,
)
def var(
    original: Any, a: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None, **kwargs: Any
) -> Any:
    if not isinstance(correction, (torch.SymInt, torch.SymFloat)) or unbiased is not None:
        return original(a, dim, unbiased, keepdim, correction=correction, **kwargs)
    uncorrected = original(a, dim, None, keepdim, correction=0, **kwargs)
    count = 1
    for i in utils.reduction_dims(a.shape, dim or None):
        count = count * a.shape[i]
    # A tensor divides by zero as the operator does.
    left = torch.scalar_tensor(torch.sym_max(count - correction, 0), dtype=torch.float64, device=a.device)
    return uncorrected * (count / left).to(uncorrected.dtype)
