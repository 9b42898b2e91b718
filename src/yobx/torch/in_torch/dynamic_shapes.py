"""Arguments that land in ``**kwargs``: how ``dynamic_shapes`` names them, and where guards find them.

A caller passes them by name like any other argument. Up to torch 2.13 the exporter knows them only by the name of the
parameter that collects them, demands ``dynamic_shapes`` nested in the same way, and gives ranges to the wrong tensors.
"""

from __future__ import annotations

import inspect
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")
LocalSource: Any = lazy("torch._dynamo.source:LocalSource")
GetItemSource: Any = lazy("torch._dynamo.source:GetItemSource")
tree_map_with_path: Any = lazy("torch.utils._pytree:tree_map_with_path")
_combine_args: Any = lazy("torch.export.dynamic_shapes:_combine_args")
_KeyPath: Any = lazy("torch._export.non_strict_utils:_KeyPath")
_KeyPathTrie: Any = lazy("torch._export.non_strict_utils:_KeyPathTrie")


def collector(module: Any) -> str | None:
    """The parameter of a module's ``forward``, or of a function, that collects keywords; ``None`` without one."""
    signature = inspect.signature(module.forward if isinstance(module, torch.nn.Module) else module)
    names = [p.name for p in signature.parameters.values() if p.kind is p.VAR_KEYWORD]
    return names[0] if names else None


def flattened(arguments: dict[str, Any], name: str | None) -> dict[str, Any]:
    """Arguments, or their dynamic shapes, with those that ``name`` collects in its place, by their own names."""
    if name is None or not isinstance(arguments.get(name), dict):
        return arguments
    flat: dict[str, Any] = {}
    for key, value in arguments.items():
        flat.update(value if key == name else {key: value})
    return flat


def _collected(nested: bool) -> Reproducer:
    class Collects(torch.nn.Module):
        def forward(self, x, **kwargs):
            return x.sum(0) * kwargs["scale"] + kwargs["shift"]

    dim = torch.export.Dim.DYNAMIC
    rest = dict(scale={1: dim}, shift={0: dim})

    def inputs(rows: int, scales: int, shifts: int) -> dict[str, Any]:
        return dict(shift=torch.randn(shifts, 1, 1), x=torch.randn(rows, 1), scale=torch.randn(2, scales))

    return Reproducer(
        Collects(),
        inputs=inputs(3, 4, 5),
        dynamic_shapes=dict(x={0: dim}, **(dict(kwargs=rest) if nested else rest)),
        accepts=[inputs(6, 7, 2), inputs(2, 2, 9)],
    )


def guard_on_what_a_keyword_holds() -> Reproducer:
    class Collects(torch.nn.Module):
        def forward(self, x, **kwargs):
            return x @ kwargs["pair"]["left"] @ kwargs["pair"]["right"]

    dim = torch.export.Dim.DYNAMIC
    pair = dict(left={1: dim}, right={0: dim})

    def inputs(rows: int, inner: int) -> dict[str, Any]:
        return dict(x=torch.randn(rows, 3), pair=dict(left=torch.randn(3, inner), right=torch.randn(inner, 2)))

    return Reproducer(
        Collects(),
        inputs=inputs(2, 4),
        dynamic_shapes=dict(x={0: dim}, pair=pair),
        accepts=[inputs(5, 6), inputs(1, 2)],
        rejects=[dict(x=torch.randn(2, 3), pair=dict(left=torch.randn(3, 5), right=torch.randn(4, 2)))],
    )


def shapes_by_name() -> Reproducer:
    return _collected(nested=False)


def shapes_under_the_collecting_parameter() -> Reproducer:
    return _collected(nested=True)


@patch(
    "torch.export.dynamic_shapes:_combine_args",
    family="torch",
    name="combine_args",
    versions="torch>=2.9,<2.14",
    why="an argument that lands in **kwargs is known by its own name, as its caller knows it",
    see="https://github.com/pytorch/pytorch/issues/164313",
    obsolete="since torch 2.14, which accepts both forms",
    reproducer=shapes_by_name,
    group="kwargs",
    around=True,
)
def combine_args(original: Any, f: Any, args: Any, kwargs: Any) -> Any:
    module = f.module() if isinstance(f, torch.export.ExportedProgram) else f
    return flattened(original(f, args, kwargs), collector(module))


@patch(
    "torch.export._trace:_process_export_inputs",
    family="torch",
    name="process_export_inputs",
    versions="torch>=2.9,<2.14",
    why="dynamic shapes nested under the parameter that collects keywords mean the same as shapes by name",
    see="https://github.com/pytorch/pytorch/issues/150371",
    obsolete="since torch 2.14, which accepts both forms",
    reproducer=shapes_under_the_collecting_parameter,
    group="kwargs",
    around=True,
)
def process_export_inputs(original: Any, mod: Any, args: Any, kwargs: Any, dynamic_shapes: Any) -> Any:
    if isinstance(dynamic_shapes, dict):
        dynamic_shapes = flattened(dynamic_shapes, collector(mod))
    return original(mod, args, kwargs, dynamic_shapes)


@patch(
    "torch._export.non_strict_utils:make_sourced_prefixes",
    family="torch",
    name="make_sourced_prefixes",
    versions="torch>=2.14",
    why="a guard on a tensor in **kwargs is written for the program, whose argument has that tensor's own name",
    see="https://github.com/pytorch/pytorch/issues/164313",
    obsolete="when ExportedProgram.module() checks guards on such arguments",
    reproducer=guard_on_what_a_keyword_holds,
    group="kwargs",
)
def make_sourced_prefixes(nn_module, args, kwargs):
    kp_args, kp_kwargs = tree_map_with_path(
        lambda kp, _: _KeyPath(kp),
        (tuple(None for _ in args), {k: None for k in kwargs}),  # noqa: C420
    )
    kp_combined_args = _combine_args(nn_module, kp_args, kp_kwargs)

    sourced_prefixes = _KeyPathTrie()
    for name, struct in kp_combined_args.items():
        src = LocalSource(name)

        if isinstance(struct, _KeyPath):
            sourced_prefixes.add(struct.kp, src)
        elif isinstance(struct, tuple):
            for i, prefix in enumerate(struct):
                if not isinstance(prefix, _KeyPath):
                    raise AssertionError(f"expected _KeyPath, got {type(prefix)}")
                sourced_prefixes.add(prefix.kp, GetItemSource(src, i))
        elif isinstance(struct, dict):
            for k, prefix in struct.items():
                if not isinstance(prefix, _KeyPath):
                    raise AssertionError(f"expected _KeyPath, got {type(prefix)}")
                sourced_prefixes.add(prefix.kp, LocalSource(k))

    return sourced_prefixes
