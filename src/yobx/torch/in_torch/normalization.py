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


def batch_norm_of_more_than_one_value() -> Reproducer:
    class Norm(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.batch_norm(x, None, None, training=True)

    return Reproducer(
        Norm(),
        inputs=dict(x=torch.randn(3, 4, 5)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(b, 4, n)) for b, n in ((2, 7), (2, 1), (1, 2))],
        rejects=[dict(x=torch.randn(1, 4, 1))],
    )


@patch(
    "torch.nn.functional:_verify_batch_size",
    family="torch",
    name="verify_batch_size",
    versions="torch>=2.9",
    why="a program takes sizes of 1 where the sample had 2 or more, and the error is lost that the function raises there; it becomes a guard",
    obsolete="when torch guards on what it assumes of sizes",
    reproducer=batch_norm_of_more_than_one_value,
)
def verify_batch_size(size: list[int]) -> None:
    # XXX: JIT script does not support the reduce from functools, and mul op is a
    # builtin, which cannot be used as a value to a func yet, so rewrite this size
    # check to a simple equivalent for loop
    #
    # TODO: make use of reduce like below when JIT is ready with the missing features:
    # from operator import mul
    # from functools import reduce
    #
    #   if reduce(mul, size[2:], size[0]) == 1
    size_prods = size[0]
    for i in range(len(size) - 2):
        size_prods *= size[i + 2]
    if size_prods == 1:
        raise ValueError(
            f"Expected more than 1 value per channel when training, got input size {size}"
        )
    if not torch.compiler.is_dynamo_compiling():
        check_assumed(size_prods != 1)
