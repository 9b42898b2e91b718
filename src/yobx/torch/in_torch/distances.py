"""Distances between the rows of two matrices, computed in one of two ways by how many rows there are."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import hint, sample_decides

torch: Any = lazy("torch")
symbolic_shapes: Any = lazy("torch.fx.experimental.symbolic_shapes")

# From more rows than this on, distances are computed by a product of matrices.
FEW = 25
MODES = {"use_mm_for_euclid_dist_if_necessary": None, "donot_use_mm_for_euclid_dist": 2}


def of_few_and_of_many_rows() -> Reproducer:
    class Distances(torch.nn.Module):
        def forward(self, x, y):
            return torch.cdist(x, y)

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}

    def inputs(b: int, n: int, c: int, m: int) -> dict[str, Any]:
        return dict(x=torch.randn(b, n, 4), y=torch.randn(c, m, 4))

    return Reproducer(
        Distances(),
        inputs=inputs(2, 5, 2, 30),
        dynamic_shapes=dict(x=dynamic, y=dynamic),
        accepts=[inputs(2, 5, 2, 3), inputs(3, 40, 1, 40), inputs(1, 30, 4, 1), inputs(1, 1, 1, 1), inputs(2, 0, 2, 3)],
        rejects=[inputs(2, 5, 3, 5)],
        atol=1e-4,
    )


@patch(
    "torch.functional:cdist",
    family="torch",
    name="cdist",
    versions="torch>=2.9",
    around=True,
    why="the operator asks whether there are more than 25 rows, or none, and the sample, or nothing, answers; the one that it calls "
    "in the end asks the same when the program runs",
    obsolete="when aten.cdist of torch takes any number of rows without a guard",
    reproducer=of_few_and_of_many_rows,
)
def cdist(original: Any, x1: Any, x2: Any, p: Any = 2.0, compute_mode: str = "use_mm_for_euclid_dist_if_necessary") -> Any:
    # ONNX has no function for the operator that decides when the program runs.
    elsewhere = torch.compiler.is_dynamo_compiling() or torch.onnx.is_in_onnx_export()
    if elsewhere or compute_mode not in MODES or x1.ndim < 2 or x2.ndim < 2:
        return original(x1, x2, p, compute_mode)
    known, rows = symbolic_shapes.statically_known_true, (x1.shape[-2], x2.shape[-2])
    depends_on_data = any(hint(size) is None for size in (*x1.shape, *x2.shape))
    one_way = (
        p != 2 or MODES[compute_mode] == 2 or all(known(size <= FEW) for size in rows) or any(known(size > FEW) for size in rows)
    )
    if sample_decides(*rows) or (one_way and not depends_on_data):
        return original(x1, x2, p, compute_mode)
    return torch.ops.aten._cdist_forward(x1, x2, p, MODES[compute_mode])
