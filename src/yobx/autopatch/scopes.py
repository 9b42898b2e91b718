"""The doors: torch's entry points of an export, which activate by themselves what ``enable`` asked for.

``_export`` is behind ``torch.export.export`` (also when a program took hold of it before), ``draft_export`` and
``torch.onnx.export(dynamo=True)``, which runs the program once more, to promote types, before it translates it.
``run_decompositions`` traces a program again, and outside a scope would make a general one narrow. Up to torch 2.10,
``export_for_training`` has a way of its own. ``load`` traces nothing, but has to know the classes that a program names.
``aoti_compile_and_package`` compiles what is traced already: only patches of its own module are activated there.
"""

from __future__ import annotations

import importlib

from yobx.autopatch import activation, dispatch, fixtures, notices, occupants

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def make_door(original: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A function that runs ``original`` with the process-wide patches active beneath this thread's own."""

    def door(*args: Any, **kwargs: Any) -> Any:
        if not activation.default.exporting.winners:
            return original(*args, **kwargs)
        occupants.prepare()
        occupants.reclaim()
        entry = activation.open_door()
        try:
            result = original(*args, **kwargs)
        finally:
            activation.close_door(entry)
        if notices.settings.report and not activation.state.doors:
            _report(original.__name__, args[0] if args else kwargs.get("mod"), result, entry)
        return result

    dispatch.take_names(door, original)
    return door, []


def make_small_door(original: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A function that runs ``original`` with only those process-wide patches active whose targets are in its module."""

    def small_door(*args: Any, **kwargs: Any) -> Any:
        chosen = [patch for patch in activation.default.exporting.patches if patch.module == original.__module__]
        if not chosen or activation.state.stack:
            return original(*args, **kwargs)
        occupants.prepare()
        entry = activation.Activation(activation.Choice(chosen))
        activation.push(entry)
        try:
            return original(*args, **kwargs)
        finally:
            activation.remove(entry)

    dispatch.take_names(small_door, original)
    return small_door, []


def _report(name: str, of: Any, result: Any, entry: activation.Activation) -> None:
    """Add a program to the report that ``YOBX_PATCH_REPORT`` asks for; what writes it is found by its name."""
    if name == "load":
        return
    title = f"{name.strip('_')} of {type(of).__name__}"
    importlib.import_module("yobx.attribution.written").add(notices.settings.report, result, entry, title)


doors = fixtures.Fixtures(
    {
        "torch.export._trace": {"_export": make_door, "_export_for_training": make_door},
        "torch.export.exported_program": {"ExportedProgram.run_decompositions": make_door},
        "torch.export": {"load": make_door},
        "torch._inductor": {"aoti_compile_and_package": make_small_door},
        "torch.onnx._internal.exporter._core": {"_prepare_exported_program_for_export": make_door},
    },
    "exports do not activate patches by themselves, use yobx.autopatch.activate",
    optional=("_export_for_training", "_prepare_exported_program_for_export"),
)
stand = doors.stand
