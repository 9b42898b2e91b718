"""Patching a decorator: every function that it made, and every one that it will make.

The name of the decorator is taken, so that a class defined later, in a file of remote code too, gets a dispatcher
around its own function. Functions made before are known by their code, which is a constant of the decorator's own
code, and are looked for in the classes of the modules that hold the decorator's name: as a class attribute, or in a
closure cell of another decorator above it (``torch.no_grad``). When the last patch has left, the functions that were
made meanwhile stand where their dispatchers stood, and are among those made before.
"""

from __future__ import annotations

import sys
from types import CodeType, FunctionType

from yobx.autopatch import dispatch, imports, occupants, slots

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from yobx.autopatch.patches import Patch


def _made(patch: Patch, function: Callable[..., Any]) -> Callable[..., Any]:
    return patch.replacement(dispatch.through(function))


def _place(function: Callable[..., Any], dispatcher: Callable[..., Any]) -> slots.Slot | None:
    """Where the dispatcher of a decorated method stands: in the method's class, or in a cell of what stands there."""
    owner: Any = sys.modules.get(function.__module__)
    *path, name = function.__qualname__.split(".")
    for step in path:
        names = vars(owner) if isinstance(owner, type) else imports.namespace_of(owner) or {}
        owner = names.get(step)
    return _holding(dispatcher, slots.AttributeSlot(owner, name), depth=2) if isinstance(owner, type) else None


def _holding(dispatcher: Callable[..., Any], slot: slots.Slot, depth: int) -> slots.Slot | None:
    value = slot.get()
    if value is dispatcher:
        return slot
    cells = value.__closure__ or () if isinstance(value, FunctionType) and depth else ()
    return next(filter(None, (_holding(dispatcher, slots.CellSlot(cell), depth - 1) for cell in cells)), None)


class Decorator(occupants.Occupant):
    """The place of a decorator's name, and the places of what it made."""

    def __init__(self, slot: slots.Slot) -> None:
        self.made: list[tuple[Callable[..., Any], list[Any], Callable[..., Any], Callable[..., Any]]] = []
        self.found: dict[Any, tuple[Callable[..., Any], occupants.Occupant]] = {}
        self._searched: set[int] = set()
        super().__init__(slot, self._make_decorating)
        code = self.original.__code__
        self._parameter = code.co_varnames[0]
        self._inner = {const for const in code.co_consts if isinstance(const, CodeType)}

    def _make_decorating(self, original: Callable[..., Any]) -> tuple[Callable[..., Any], list[Any]]:
        def decorating(*args: Any, **kwargs: Any) -> Any:
            made = original(*args, **kwargs)
            function = args[0] if args else kwargs.get(self._parameter)
            if not isinstance(function, FunctionType) or not isinstance(made, FunctionType):
                return made
            dispatcher, entries = dispatch.make_dispatcher(made)
            self.made.append((function, entries, made, dispatcher))
            entries[:] = [(number, _made(patch, function), patch) for number, _, patch in self.entries]
            return dispatcher

        dispatch.take_names(decorating, original)
        return decorating, []

    def enter(self, patch: Patch, body: Callable[..., Any]) -> None:
        """Let the replacement decorate every function that the original decorator was given."""
        self.put()
        self.entries.insert(0, (patch.number, body, patch))
        for function, entries, *_ in self.made:
            entries.insert(0, (patch.number, _made(patch, function), patch))
        for function, occupant in self.found.values():
            occupant.enter(patch, _made(patch, function))

    def drop(self, patch: Patch) -> None:
        """Take the replacement out of every function, the decorator's own name included."""
        for _, entries, *_ in self.made:
            entries[:] = [entry for entry in entries if entry[2] is not patch]
        for _, occupant in self.found.values():
            occupant.drop(patch)
        super().drop(patch)

    def restore(self) -> None:
        """Give back the decorator's name, and what was made while it was taken."""
        super().restore()
        kept = []
        for function, entries, made, dispatcher in self.made:
            slot = _place(function, dispatcher)
            if slot is None:
                # Of a class that was defined in a function, or that is gone.
                kept.append((function, entries, made, dispatcher))
            else:
                slot.set(made)
                self.found[slot.key()] = (function, occupants.Occupant(slot))
        self.made = kept

    def put(self) -> None:
        """Take the name, here and in the modules that hold it, and look for what was made there before."""
        super().put()
        for place in (self.slot, *self.aliases):
            owner = getattr(place, "owner", None)
            if owner is not None and id(owner) not in self._searched:
                self._searched.add(id(owner))
                self._search(owner)

    def _search(self, module: Any) -> None:
        for value in list(vars(module).values()):
            if not isinstance(value, type) or value.__module__ != getattr(module, "__name__", None):
                continue
            for name, attribute in list(vars(value).items()):
                for slot, function in self._made_before(slots.AttributeSlot(value, name), attribute, depth=2):
                    if slot.key() not in self.found:
                        occupant = occupants.Occupant(slot)
                        self.found[slot.key()] = (function, occupant)
                        for _, _, patch in reversed(self.entries):
                            occupant.enter(patch, _made(patch, function))

    def _made_before(self, slot: slots.Slot, value: Any, depth: int) -> Iterator[tuple[slots.Slot, Callable[..., Any]]]:
        if not isinstance(value, FunctionType):
            return
        closure = dict(zip(value.__code__.co_freevars, value.__closure__ or ()))
        if value.__code__ in self._inner and self._parameter in closure:
            yield slot, closure[self._parameter].cell_contents
        elif depth:
            for cell in closure.values():
                cell_slot = slots.CellSlot(cell)
                yield from self._made_before(cell_slot, cell_slot.get(), depth - 1)
