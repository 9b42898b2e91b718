"""The doors: torch's entry points of an export, which activate by themselves what ``enable`` asked for.

``_export`` is behind ``torch.export.export`` (also when a program took hold of it before), ``draft_export`` and
``torch.onnx.export(dynamo=True)``. ``run_decompositions`` traces a program again, and outside a scope would make a
general one narrow. Up to torch 2.10, ``export_for_training`` has a way of its own.
"""

from __future__ import annotations

import sys

from yobx.autopatch import activation, dispatch, imports, notices, occupants, slots
from yobx.autopatch.occupants import lock

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any

DOORS = {
    "torch.export._trace": ("_export", "_export_for_training"),
    "torch.export.exported_program": ("ExportedProgram.run_decompositions",),
}
_standing: dict[str, list[occupants.Occupant]] = {}


def make_door(original: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
    """A function that runs ``original`` with the process-wide patches active beneath this thread's own."""

    def door(*args: Any, **kwargs: Any) -> Any:
        if not activation.default.exporting.winners:
            return original(*args, **kwargs)
        occupants.prepare()
        entry = activation.open_door()
        try:
            return original(*args, **kwargs)
        finally:
            activation.close_door(entry)

    dispatch.take_names(door, original)
    return door, []


def stand(wanted: bool) -> None:
    """Put the doors up, in modules already loaded and in those to come; or take them down."""
    for module in DOORS:
        if not wanted:
            imports.forget(module, _loaded)
            _take_down(module)
            continue
        imports.after(module, _loaded)
        if imports.finished(module) and not _standing.get(module):
            _loaded(sys.modules[module])


def _take_down(module: str) -> None:
    with lock:
        for occupant in _standing.pop(module, ()):
            occupant.entries.clear()
            occupant.restore()


def _loaded(module: ModuleType) -> None:
    name = module.__name__
    _take_down(name)
    places = []
    for path in DOORS[name]:
        try:
            places.append(slots.find(module, slots.split_target(f"{name}:{path}")[1]))
        except slots.TargetError as error:
            if path != "_export_for_training":
                notices.complain(f"exports do not activate patches by themselves: {error}; use yobx.autopatch.activate")
    with lock:
        for place in places:
            occupant = occupants.Occupant(place, make_door)
            occupant.entries.append(True)
            occupant.put()
            occupants.aliases.track(occupant)
            _standing.setdefault(name, []).append(occupant)
