"""Sizes that a normalisation rejects, though torch takes for granted that no size has them."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import check_assumed

torch: Any = lazy("torch")


def instance_norm_of_more_than_one_element() -> Reproducer:
    return Reproducer(
        torch.nn.InstanceNorm1d(4),
        inputs=dict(input=torch.randn(2, 4, 5)),
        dynamic_shapes=dict(input={0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}),
        accepts=[dict(input=torch.randn(b, 4, n)) for b, n in ((3, 7), (1, 2))],
        rejects=[dict(input=torch.randn(b, 4, 1)) for b in (3, 1)],
    )


@patch(
    "torch.nn.functional:_verify_spatial_size",
    family="torch",
    name="verify_spatial_size",
    versions="torch>=2.9",
    why="a program takes sizes of 1 where the sample had 2 or more, and the error is lost that the function raises there; it becomes a guard",
    obsolete="when torch guards on what it assumes of sizes",
    reproducer=instance_norm_of_more_than_one_element,
)
def verify_spatial_size(size: list[int]) -> None:
    # Verify that there is > 1 spatial element for instance norm calculation.
    size_prods = 1
    for i in range(2, len(size)):
        size_prods *= size[i]
    if size_prods == 1:
        raise ValueError(
            f"Expected more than 1 spatial element when training, got input size {size}"
        )
    if not torch.compiler.is_dynamo_compiling():
        check_assumed(size_prods != 1)
