"""Pooling by a size: over a whole dimension, or to as many elements as a size says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.composite import CompositeKernel
from yobx.torch.in_torch.sizes import check_assumed, expression

torch: Any = lazy("torch")


def each(value: Any, n: int) -> list[Any]:
    """What is given for one or for all of ``n`` dimensions, for each of them."""
    return list(value) * (n // len(value)) if isinstance(value, (list, tuple)) else [value] * n


def _pooled(
    n: int, reduce: str, original: Any, input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, *args: Any, **kwargs: Any
) -> Any:
    """Pooling over ``n`` dimensions, of which those are reduced that the kernel covers."""
    kernel, pads = each(kernel_size, n), each(padding, n)
    whole = [i for i, size in enumerate(kernel) if isinstance(size, torch.SymInt)]
    covered = all(expression(kernel[i]) == expression(input.shape[i - n]) and pads[i] == 0 for i in whole)
    if not whole or not covered or kwargs.get("divisor_override") or torch.compiler.is_dynamo_compiling():
        return original(input, kernel_size, stride, padding, *args, **kwargs)
    for i in whole:
        check_assumed(input.shape[i - n] > 0)
    reduced = getattr(input, reduce)([i - n for i in whole], keepdim=True)
    if len(whole) == n:
        return reduced
    steps = each(stride or kernel_size, n)
    kernel, steps = ([1 if i in whole else size for i, size in enumerate(sizes)] for sizes in (kernel, steps))
    return original(reduced, kernel, steps, pads, *args, **kwargs)


def over_the_whole_length(name: str, n: int) -> Reproducer:
    class Pool(torch.nn.Module):
        def forward(self, x):
            return getattr(torch.nn.functional, name)(x, x.shape[2:]).flatten(1)

    dynamic = dict.fromkeys((0, *range(2, n + 2)), torch.export.Dim.DYNAMIC)
    return Reproducer(
        Pool(),
        inputs=dict(x=torch.randn(2, 4, *[5] * n)),
        dynamic_shapes=dict(x=dynamic),
        accepts=[dict(x=torch.randn(b, 4, *[m] * n)) for b, m in ((3, 7), (1, 2), (2, 1))],
        rejects=[dict(x=torch.randn(3, 4, *[0] * n))],
    )


def max_pooling_of_any_length() -> Reproducer:
    return Reproducer(
        torch.nn.MaxPool1d(2),
        inputs=dict(input=torch.randn(2, 4, 10)),
        dynamic_shapes=dict(input={0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}),
        accepts=[dict(input=torch.randn(n, 4, m)) for n, m in ((3, 7), (1, 2))],
        rejects=[dict(input=torch.randn(3, 4, 1))],
    )


@patch(
    "torch:max_pool1d",
    family="torch",
    versions="torch>=2.9",
    around=True,
    why="the operator reads the length as a plain int, which fixes it to the sample's, here and whenever the program is traced again",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when max_pool1d in ATen keeps its sizes symbolic",
    reproducer=max_pooling_of_any_length,
)
def max_pool1d(original: Any, input: Any, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(input.shape[-1], torch.SymInt):
        return original(input, *args, **kwargs)
    return _pooled(1, "amax", _max_pool1d, input, *args, **kwargs)


def _max_pool1d(input: Any, *args: Any, **kwargs: Any) -> Any:
    return torch.nn.functional.max_pool1d_with_indices(input, *args, **kwargs)[0]


def _declared(target: str, n: int) -> Callable[..., Any]:
    name = target.partition(":")[2]
    return patch(
        target,
        family="torch",
        name=name,
        versions="torch>=2.9",
        around=True,
        why="the operator takes its kernel as plain ints; a kernel as large as the image, which covers it once, fixes the image's size",
        see="https://github.com/pytorch/pytorch/issues/176349",
        obsolete="when pooling operators take their kernels as SymInt",
        reproducer=partial(over_the_whole_length, name, n),
    )


@_declared("torch:max_pool2d", 2)
def max_pool2d(original: Any, *args: Any, **kwargs: Any) -> Any:
    return _pooled(2, "amax", original, *args, **kwargs)


@_declared("torch:max_pool3d", 3)
def max_pool3d(original: Any, *args: Any, **kwargs: Any) -> Any:
    return _pooled(3, "amax", original, *args, **kwargs)


@_declared("torch:avg_pool1d", 1)
def avg_pool1d(original: Any, *args: Any, **kwargs: Any) -> Any:
    return _pooled(1, "mean", original, *args, **kwargs)


@_declared("torch.nn.functional:avg_pool2d", 2)
def avg_pool2d(original: Any, *args: Any, **kwargs: Any) -> Any:
    return _pooled(2, "mean", original, *args, **kwargs)


@_declared("torch.nn.functional:avg_pool3d", 3)
def avg_pool3d(original: Any, *args: Any, **kwargs: Any) -> Any:
    return _pooled(3, "mean", original, *args, **kwargs)


def to_the_size_of_another(mode: str, n: int) -> Reproducer:
    class Resize(torch.nn.Module):
        def forward(self, x, y):
            return torch.nn.functional.interpolate(x, size=y.shape[2:], mode=mode)

    def inputs(b: int, size: int, wanted: int) -> dict[str, Any]:
        return dict(x=torch.randn(b, 4, *[size] * n), y=torch.randn(b, 4, *[wanted] * n))

    dynamic = dict.fromkeys((0, *range(2, n + 2)), torch.export.Dim.DYNAMIC)
    return Reproducer(
        Resize(),
        inputs=inputs(2, 6, 1),
        dynamic_shapes=dict(x=dynamic, y=dynamic),
        accepts=[inputs(3, 7, 3), inputs(1, 1, 1), inputs(2, 4, 5)],
    )


def _declared_composite(operator: str, n: int) -> Callable[..., Any]:
    return patch(
        f"torch:ops.aten.{operator}.default",
        family="torch",
        name=operator,
        versions="torch>=2.9",
        slots=lambda: [CompositeKernel(getattr(torch.ops.aten, operator).default)],
        around=True,
        why="the C++ kernel takes the mean where one element is asked for, and guards on whether it is; the general operator gives the same",
        see="https://github.com/pytorch/pytorch/issues/176349",
        obsolete="when adaptive pooling in ATen asks without guarding",
        reproducer=partial(to_the_size_of_another, "area", n),
    )


@_declared_composite("adaptive_avg_pool2d", 2)
def adaptive_avg_pool2d(original: Any, self: Any, output_size: Any) -> Any:
    if not any(isinstance(size, torch.SymInt) for size in output_size):
        return original(self, output_size)
    return torch.ops.aten._adaptive_avg_pool2d(self, output_size)


@_declared_composite("adaptive_avg_pool3d", 3)
def adaptive_avg_pool3d(original: Any, self: Any, output_size: Any) -> Any:
    if not any(isinstance(size, torch.SymInt) for size in output_size):
        return original(self, output_size)
    return torch.ops.aten._adaptive_avg_pool3d(self, output_size)


@patch(
    "torch:adaptive_avg_pool1d",
    family="torch",
    versions="torch>=2.9",
    around=True,
    why="the operator takes the length that is wanted as a plain int, so a size is fixed to the sample's; pooling an image of one row does not",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when adaptive_avg_pool1d in ATen takes its length as SymInt",
    reproducer=partial(to_the_size_of_another, "area", 1),
)
def adaptive_avg_pool1d(original: Any, input: Any, output_size: Any) -> Any:
    (length,) = each(output_size, 1)
    if not isinstance(length, torch.SymInt):
        return original(input, output_size)
    return torch.nn.functional.adaptive_avg_pool2d(input.unsqueeze(-2), (1, length)).squeeze(-2)
