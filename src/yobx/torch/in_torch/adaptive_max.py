"""Adaptive max pooling to as many elements as a size says."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any

from yobx.autopatch.slots import CellSlot
from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.pooling import each
from yobx.torch.in_torch.sizes import check_assumed

torch: Any = lazy("torch")
proxy_tensor: Any = lazy("torch.fx.experimental.proxy_tensor")


def _largest(input: Any, dim: int, length: Any) -> Any:
    """The largest of each of as many windows as the length says, which cover the dimension."""
    size = input.shape[dim]
    divisor = torch.sym_max(length, 1)
    window = torch.arange(length, device=input.device)
    start = window * size // divisor
    # Windows shorter than the longest take their last element more than once.
    last = ((window + 1) * size - 1) // divisor
    longest = torch.arange((size + divisor - 1) // divisor + 1, device=input.device)
    index = torch.minimum(start[:, None] + longest, last[:, None])
    taken = input.movedim(dim, -1).index_select(-1, index.flatten()).unflatten(-1, (length, longest.shape[0]))
    return taken.amax(-1).movedim(-1, dim)


def _pooled(n: int, original: Any, input: Any, output_size: Any, return_indices: bool = False) -> Any:
    sizes = each(output_size, n)
    wanted = [input.shape[i - n] if size is None else size for i, size in enumerate(sizes)]
    dynamic = any(isinstance(size, torch.SymInt) for size in wanted)
    if not dynamic or not input.is_floating_point() or torch.compiler.is_dynamo_compiling():
        return original(input, output_size, return_indices)
    with proxy_tensor.disable_proxy_modes_tracing():
        # For the errors that the operator raises.
        original(input, [1] * n)
    for size in input.shape[1:]:
        check_assumed(size > 0)
    for i, size in enumerate(wanted):
        if sizes[i] is not None:
            input = _largest(input, i - n, size)
    return input


def to_the_size_of_another(name: str, n: int) -> Reproducer:
    class Pool(torch.nn.Module):
        def forward(self, x, y):
            return getattr(torch.nn.functional, name)(x, y.shape[1:])

    def inputs(b: int, size: int, wanted: int) -> dict[str, Any]:
        return dict(x=torch.randn(b, 4, *[size] * n), y=torch.randn(b, *[wanted] * n))

    return Reproducer(
        Pool(),
        inputs=inputs(2, 6, 2),
        dynamic_shapes=dict(
            x=dict.fromkeys((0, *range(2, n + 2)), torch.export.Dim.DYNAMIC),
            y=dict.fromkeys(range(n + 1), torch.export.Dim.DYNAMIC),
        ),
        accepts=[inputs(3, 7, 3), inputs(1, 1, 1), inputs(2, 4, 5), inputs(2, 9, 1)],
        rejects=[inputs(2, 0, 2)],
    )


def _without_indices(name: str) -> list[CellSlot]:
    """Where the public function keeps what it calls when no indices are asked for; TorchScript knows that by the function itself."""
    public = getattr(sys.modules["torch.nn.functional"], name)
    return [CellSlot(public.__closure__[public.__code__.co_freevars.index("if_false")])]


def _declared(name: str, n: int) -> Callable[..., Any]:
    return patch(
        f"torch.nn.functional:_{name}",
        family="torch",
        name=name,
        versions="torch>=2.9",
        slots=partial(_without_indices, name),
        around=True,
        why="the operator takes the sizes that are wanted as plain ints, so a size is fixed to the sample's",
        see="https://github.com/pytorch/pytorch/issues/176349",
        obsolete="when adaptive max pooling in ATen takes its sizes as SymInt",
        reproducer=partial(to_the_size_of_another, name, n),
    )


@_declared("adaptive_max_pool1d", 1)
def adaptive_max_pool1d(original: Any, *args: Any, **kwargs: Any) -> Any:
    return _pooled(1, original, *args, **kwargs)


@_declared("adaptive_max_pool2d", 2)
def adaptive_max_pool2d(original: Any, *args: Any, **kwargs: Any) -> Any:
    return _pooled(2, original, *args, **kwargs)


@_declared("adaptive_max_pool3d", 3)
def adaptive_max_pool3d(original: Any, *args: Any, **kwargs: Any) -> Any:
    return _pooled(3, original, *args, **kwargs)
