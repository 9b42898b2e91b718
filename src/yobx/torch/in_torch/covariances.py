"""The covariance of rows, whose C++ kernel reads a number that it has made of sizes back from a tensor."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.composite import CompositeKernel
from yobx.torch.in_torch.sizes import check_assumed, hint, is_symbolic

torch: Any = lazy("torch")


def correlations_of_rows() -> Reproducer:
    class Correlations(torch.nn.Module):
        def forward(self, x):
            return torch.cov(x, correction=2) + torch.corrcoef(x)

    return Reproducer(
        Correlations(),
        inputs=dict(x=torch.randn(2, 5)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, m)) for n, m in ((3, 7), (4, 3), (2, 9))],
    )


@patch(
    "torch:ops.aten.cov.default",
    family="torch",
    name="cov",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten.cov.default)],
    around=True,
    why="the C++ kernel asks of a tensor whether there are more observations than the correction takes, which a trace cannot answer",
    obsolete="when cov in ATen asks that of the number itself",
    reproducer=correlations_of_rows,
)
def cov(original: Any, self: Any, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Any:
    # Weights are checked by their values; the result for one row has no dimensions.
    rows = self.shape[0] if self.ndim == 2 else 1
    if fweights is not None or aweights is not None or self.ndim > 2 or self.dtype is torch.bool or (is_symbolic(rows) and hint(rows) == 1):
        return original(self, correction=correction, fweights=fweights, aweights=aweights)
    x = self if self.ndim == 2 else self.view(1, -1)
    count = x.shape[1]
    x = x - (x.sum(1) / count).unsqueeze(1)
    covariance = torch.mm(x, x.t().conj()) / torch.sym_max(count - correction, 0)
    if is_symbolic(rows):
        check_assumed(rows != 1)
        return covariance
    return covariance.squeeze()
