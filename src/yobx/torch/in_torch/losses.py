"""Losses that compare the sizes of what they are given, only to warn when these differ."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import expression

torch: Any = lazy("torch")


def loss_of_unrelated_sizes(name: str) -> Reproducer:
    class Loss(torch.nn.Module):
        def forward(self, x, y):
            return getattr(torch.nn.functional, name)(x, y, reduction="none")

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}

    def inputs(x: tuple[int, int], y: tuple[int, int]) -> dict[str, Any]:
        return dict(x=torch.randn(*x), y=torch.randn(*y))

    return Reproducer(
        Loss(),
        inputs=inputs((2, 5), (2, 5)),
        dynamic_shapes=dict(x=dynamic, y=dynamic),
        accepts=[inputs((3, 7), (3, 1)), inputs((3, 7), (3, 7)), inputs((1, 1), (4, 2))],
        rejects=[inputs((3, 5), (3, 4))],
    )


def _declared(name: str) -> Callable[..., Any]:
    return patch(
        f"torch.nn.functional:{name}",
        family="torch",
        name=name,
        versions="torch>=2.9",
        around=True,
        why="the function asks whether two sizes are equal, only to warn, and so demands what the sample has; "
        "broadcast first, they are equal",
        see="https://github.com/pytorch/pytorch/issues/181097",
        obsolete="when torch warns of different sizes without guarding",
        reproducer=partial(loss_of_unrelated_sizes, name),
    )


@_declared("mse_loss")
@_declared("l1_loss")
@_declared("smooth_l1_loss")
@_declared("huber_loss")
def loss(original: Any, input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    if not torch.compiler.is_dynamo_compiling() and list(map(expression, input.shape)) != list(map(expression, target.shape)):
        input, target = torch.broadcast_tensors(input, target)
    return original(input, target, *args, **kwargs)
