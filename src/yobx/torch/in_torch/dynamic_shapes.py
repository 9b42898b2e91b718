"""Names in ``dynamic_shapes``: arguments that land in ``**kwargs``, and keywords in another order than the signature's."""

from __future__ import annotations

import inspect
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")
pytree: Any = lazy("torch.utils._pytree")
LocalSource: Any = lazy("torch._dynamo.source:LocalSource")


def keywords_of_the_callers_own() -> Reproducer:
    class Scale(torch.nn.Module):
        def forward(self, *, x, **kwargs):
            return x * kwargs["scale"]

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Scale(),
        inputs=dict(scale=torch.randn(3, 1), x=torch.randn(3, 4)),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, scale={0: dynamic}),
        accepts=[dict(scale=torch.randn(n, 1), x=torch.randn(n, m)) for n, m in ((5, 7), (1, 1))],
    )


def _variadic(f: Any) -> str | None:
    """The name of the parameter that takes keywords without one of their own."""
    signature = inspect.signature(f.forward if isinstance(f, torch.nn.Module) else f)
    names = [p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD]
    return names[0] if names else None


def _flat(f: Any, named: Any) -> Any:
    """What is named under ``**kwargs`` beside the other names."""
    name = _variadic(f)
    if name is None or not isinstance(named, dict) or not isinstance(named.get(name), dict):
        return named
    return {**{key: value for key, value in named.items() if key != name}, **named[name]}


@patch(
    "torch.export.dynamic_shapes:_combine_args",
    family="torch",
    name="combine_args",
    versions="torch>=2.9,<2.14",
    around=True,
    why="keywords are traced by their own names and in the order of the call; the original nests those of **kwargs",
    see="https://github.com/pytorch/pytorch/pull/174593",
    obsolete="with torch 2.14",
    reproducer=keywords_of_the_callers_own,
    group="keywords",
)
def combine_args(original: Any, f: Any, args: Any, kwargs: Any) -> dict[str, Any]:
    combined = original(f, args, kwargs)
    if isinstance(f, torch.export.ExportedProgram):
        return combined
    combined = _flat(f, combined)
    ordered = {key: value for key, value in combined.items() if key not in (kwargs or {})}
    return {**ordered, **{key: combined[key] for key in kwargs or {}}}


@patch(
    "torch.export._trace:_process_export_inputs",
    family="torch",
    name="process_export_inputs",
    versions="torch>=2.9,<2.14",
    around=True,
    why="dynamic_shapes may name the keywords of **kwargs as the call does, or nested as the signature does",
    see="https://github.com/pytorch/pytorch/issues/164313",
    obsolete="with torch 2.14",
    reproducer=keywords_of_the_callers_own,
    group="keywords",
)
def process_export_inputs(original: Any, mod: Any, args: Any, kwargs: Any, dynamic_shapes: Any) -> Any:
    if isinstance(dynamic_shapes, (tuple, list)) and kwargs:
        # A sequence follows the signature, whatever the order of the keywords is.
        names = inspect.signature(mod.forward if isinstance(mod, torch.nn.Module) else mod).bind(*args, **kwargs)
        if len(names.arguments) == len(dynamic_shapes):
            dynamic_shapes = dict(zip(names.arguments, dynamic_shapes))
    return original(mod, args, kwargs, _flat(mod, dynamic_shapes))


def guarded_keyword() -> Reproducer:
    class Add(torch.nn.Module):
        def forward(self, x, **kwargs):
            return x + kwargs["y"]

    dynamic = {0: torch.export.Dim.DYNAMIC}
    return Reproducer(
        Add(),
        inputs=dict(x=torch.randn(3, 4), y=torch.randn(3, 4)),
        dynamic_shapes=dict(x=dynamic, y=dynamic),
        accepts=[dict(x=torch.randn(n, 4), y=torch.randn(m, 4)) for n, m in ((5, 1), (1, 5), (2, 2))],
        rejects=[dict(x=torch.randn(3, 4), y=torch.randn(2, 4))],
    )


@patch(
    "torch._export.non_strict_utils:make_sourced_prefixes",
    family="torch",
    name="sourced_prefixes",
    versions="torch>=2.14",
    around=True,
    why="a guard on a keyword of **kwargs names it as the program's own inputs are named, which are not nested",
    see="https://github.com/pytorch/pytorch/issues/164313",
    obsolete="when the guards of a program can name a keyword of **kwargs",
    reproducer=guarded_keyword,
)
def sourced_prefixes(original: Any, nn_module: Any, args: Any, kwargs: Any) -> Any:
    prefixes = original(nn_module, args, kwargs)
    name = _variadic(nn_module)
    if name is not None:
        bound = inspect.signature(nn_module.forward).bind(*args, **kwargs).arguments.get(name, {})
        for key in bound:
            prefixes.add((pytree.SequenceKey(1), pytree.MappingKey(key)), LocalSource(key))
    return prefixes
