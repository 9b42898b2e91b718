"""Functions of ``torch`` that take a float in C++ as a plain double: one that is made of sizes is fixed to the sample's.

Numbers that are Scalars to an operator stay symbolic, and the functions here are written with operators that take those.
They call torch's own function with its default first, for the errors that it raises, and leave no node of that.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.torch.in_torch.sizes import check_assumed

torch: Any = lazy("torch")
functional: Any = lazy("torch.nn.functional")
proxy_tensor: Any = lazy("torch.fx.experimental.proxy_tensor")
utils: Any = lazy("torch._prims_common")

WRITTEN: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {}


def _floats(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register what to call when one of these parameters is made of sizes."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        WRITTEN[function.__name__] = function, names
        return function

    return register


def _checked(name: str, *args: Any, **kwargs: Any) -> None:
    with proxy_tensor.disable_proxy_modes_tracing():
        getattr(functional, name)(*args, **kwargs)


def _last(shape: Any) -> list[int]:
    return list(range(-len(shape), 0))


def _normalized(input: Any, dims: list[int], eps: Any, mean: bool = True) -> Any:
    x = input.to(utils.get_computation_dtype(input.dtype))
    if mean:
        x = x - x.mean(dims, keepdim=True)
    return x * torch.rsqrt((x * x).mean(dims, keepdim=True) + eps)


def _scaled(normalized: Any, weight: Any, bias: Any, dtype: Any) -> Any:
    out = normalized if weight is None else normalized * weight
    return (out if bias is None else out + bias).to(dtype)


def _of_channels(parameter: Any, input: Any) -> Any:
    return None if parameter is None else parameter.view(-1, *[1] * (input.ndim - 2))


@_floats("eps")
def layer_norm(input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
    _checked("layer_norm", input, normalized_shape, weight, bias)
    return _scaled(_normalized(input, _last(normalized_shape), eps), weight, bias, input.dtype)


@_floats("eps")
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: Any = None) -> Any:
    _checked("rms_norm", input, normalized_shape, weight)
    return _scaled(_normalized(input, _last(normalized_shape), eps, mean=False), weight, None, input.dtype)


@_floats("eps")
def group_norm(input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: Any = 1e-5) -> Any:
    _checked("group_norm", input, num_groups, weight, bias)
    x = _normalized(input.unflatten(1, (num_groups, -1)), list(range(2, input.ndim + 1)), eps).flatten(1, 2)
    return _scaled(x, _of_channels(weight, input), _of_channels(bias, input), input.dtype)


@_floats("eps")
def instance_norm(
    input: Any,
    running_mean: Any = None,
    running_var: Any = None,
    weight: Any = None,
    bias: Any = None,
    use_input_stats: bool = True,
    momentum: Any = 0.1,
    eps: Any = 1e-5,
) -> Any:
    if running_mean is not None or running_var is not None or input.ndim < 3:
        return functional.instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)
    _checked("instance_norm", input, None, None, weight, bias, use_input_stats)
    x = _normalized(input, list(range(2, input.ndim)), eps)
    return _scaled(x, _of_channels(weight, input), _of_channels(bias, input), input.dtype)


@_floats("eps")
def batch_norm(
    input: Any,
    running_mean: Any,
    running_var: Any,
    weight: Any = None,
    bias: Any = None,
    training: bool = False,
    momentum: Any = 0.1,
    eps: Any = 1e-5,
) -> Any:
    if training:
        return functional.batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)
    _checked("batch_norm", input, running_mean, running_var, weight, bias)
    deviation = _of_channels(torch.rsqrt(running_var + eps), input)
    x = (input - _of_channels(running_mean, input)) * deviation
    return _scaled(x, _of_channels(weight, input), _of_channels(bias, input), input.dtype)


@_floats("value")
def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    return torch.constant_pad_nd(input, pad, value) if mode == "constant" else functional.pad(input, pad, mode)


@_floats("p")
def dropout(input: Any, p: Any = 0.5, training: Any = True, inplace: bool = False) -> Any:
    if training:
        return functional.dropout(input, p, training, inplace)
    check_assumed(p >= 0)
    check_assumed(p <= 1)
    return functional.dropout(input, 0.5, False, inplace)


def _reduced(losses: Any, reduction: str) -> Any:
    return losses if reduction == "none" else losses.mean() if reduction == "mean" else losses.sum()


@_floats("delta")
def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: Any = 1.0, weight: Any = None) -> Any:
    if weight is not None:
        return functional.huber_loss(input, target, reduction, delta, weight)
    _checked("huber_loss", input, target, reduction)
    check_assumed(delta > 0)
    z = (input - target).abs()
    return _reduced(torch.where(z <= delta, 0.5 * z * z, delta * (z - 0.5 * delta)), reduction)


@_floats("beta")
def smooth_l1_loss(
    input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: Any = 1.0
) -> Any:
    if size_average is not None or reduce is not None:
        return functional.smooth_l1_loss(input, target, size_average, reduce, reduction, beta)
    _checked("smooth_l1_loss", input, target, reduction=reduction)
    check_assumed(beta >= 0)
    z = (input - target).abs()
    return _reduced(torch.where(z < beta, 0.5 * z * z / beta, z - 0.5 * beta), reduction)


@_floats("margin")
def margin_ranking_loss(
    input1: Any,
    input2: Any,
    target: Any,
    margin: Any = 0,
    size_average: Any = None,
    reduce: Any = None,
    reduction: str = "mean",
) -> Any:
    if size_average is not None or reduce is not None:
        return functional.margin_ranking_loss(input1, input2, target, margin, size_average, reduce, reduction)
    _checked("margin_ranking_loss", input1, input2, target, reduction=reduction)
    return _reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction)


def written(func: Any, args: Any, kwargs: Any) -> Callable[..., Any] | None:
    """What to call in place of a function that gets a float made of sizes."""
    if any(isinstance(value, (torch.SymInt, torch.SymFloat)) for value in (*args, *kwargs.values())):
        for name, (function, floats) in WRITTEN.items():
            if func is getattr(functional, name):
                given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
                if any(isinstance(given.get(parameter), (torch.SymInt, torch.SymFloat)) for parameter in floats):
                    return function
    return None
