"""What stands where: one dispatcher per place, shared by every patch of that place, and put away after the last.

A dispatcher is kept when the last patch has left, and used again when one comes back: the modules that hold another
name for the same function are then known already, and code that Dynamo compiled stays valid.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import weakref

from yobx.autopatch import dispatch, imports, slots

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, MutableMapping
    from typing import Any

    from yobx.autopatch.patches import Patch


class Occupant:
    """A place and the dispatcher made for what stands there.

    Attributes:
        raw: the very object that stood in the slot, a descriptor included.
        original: the function inside it, which the dispatcher runs when no patch is active.
        aliases: other places that held the same object, filled and restored with this one.
    """

    def __init__(self, slot: slots.Slot, make: Callable[..., Any] = dispatch.make_dispatcher) -> None:
        self.slot = slot
        self.raw = slot.get()
        self.inherited = not slot.own()
        self.original, dress = slots.unwrap_in(slot, self.raw)
        self.dispatcher, self.entries = make(self.original)
        self.placed = dress(self.dispatcher)
        self.aliases: list[slots.Slot] = []

    def enter(self, patch: Patch, body: Callable[..., Any]) -> None:
        """Add a patch, with the function to run for it, to those the dispatcher chooses from; the last is first."""
        self.put()
        self.entries.insert(0, (patch.number, body, patch))

    def drop(self, patch: Patch) -> None:
        """Take a patch out; the original stands at the place again when it was the last."""
        if self.entries and self.entries[0][2] is patch:
            del self.entries[0]
        else:
            self.entries[:] = [entry for entry in self.entries if entry[2] is not patch]
        if not self.entries:
            self.restore()

    def put(self) -> None:
        """Let the dispatcher stand at the place and its aliases, where the original does: nobody is pushed aside."""
        for place in (self.slot, *self.aliases):
            if place.get() is self.raw:
                place.set(self.placed)

    def restore(self) -> None:
        """Give every place its own object back. What another patcher put over the dispatcher is left to it."""
        for alias in self.aliases:
            if alias.get() is self.placed:
                alias.set(self.raw)
        if self.slot.get() is self.placed:
            if self.inherited:
                self.slot.delete()
            else:
                self.slot.set(self.raw)

    def know(self, alias: slots.Slot) -> bool:
        """Remember another place that holds the same object; whether it was new."""
        if alias.key() in {self.slot.key(), *(known.key() for known in self.aliases)}:
            return False
        self.aliases.append(alias)
        return True

    def unchanged(self, slot: slots.Slot | None = None) -> bool:
        """Whether the place, or another name for it, holds what was there at the first look, or the dispatcher."""
        current = (slot or self.slot).get()
        return current is self.raw or current is self.placed


# An occupant is kept by the patches that stand, or stood, at its place: a class that was patched once can go.
_table: MutableMapping[Hashable, Occupant] = weakref.WeakValueDictionary()
_claimed = 0

# Held while places are filled or given back. Nothing is imported under it: a thread that holds the import lock of a
# module may be waiting for it.
lock = threading.RLock()

# A process is forked between two changes: its copy holds no lock that another thread would have to release.
os.register_at_fork(before=lock.acquire, after_in_parent=lock.release, after_in_child=lock.release)


def standing(slot: slots.Slot) -> Any:
    """What stands in a slot, our own dispatcher aside."""
    occupant = _table.get(slot.key())
    current = slot.get()
    return occupant.raw if occupant is not None and current is occupant.placed else current


def claim(slot: slots.Slot, make: Callable[[slots.Slot], Occupant] = Occupant) -> Occupant:
    """The occupant of a slot, made when there is none that knows what stands there."""
    global _claimed
    dispatch.bind_torch()
    occupant = _table.get(slot.key())
    # After a reload, or when somebody who does not know us has put something there, the old one is of no use.
    if occupant is None or not occupant.unchanged(slot):
        # A function that is patched under another name has its dispatcher.
        occupant = aliases.holder(slot) if make is Occupant else None
        occupant = _table[slot.key()] = occupant or make(slot)
        _claimed += 1
    return occupant


def claimed() -> int:
    """How often a place has got another occupant."""
    return _claimed


def stands_for(slot: slots.Slot, occupant: Occupant) -> bool:
    """Whether ``claim`` would give this occupant."""
    return _table.get(slot.key()) is occupant and occupant.unchanged(slot)


def reclaim() -> None:
    """Let the dispatchers stand again where another patcher, leaving, has put the original back over them."""
    with lock:
        for occupant in list(_table.values()):
            if occupant.entries:
                occupant.put()


class Aliases:
    """Other names for the patched functions: ``from torch._refs import expand`` in a module, values of a table.

    Modules are looked through once each, when an activation begins and new ones have been loaded since the last, and
    all of them again when a function has come to be patched that was not before. In the packages whose functions are
    patched any name counts; in other modules only the function's own, as an import makes it: what a program keeps
    under a name of its choice (``before = torch._refs.expand``) stays what it was.
    """

    def __init__(self) -> None:
        self._tracked: dict[int, weakref.ref[Occupant]] = {}
        self._packages: set[str] = set()
        self._seen: dict[str, int] = {}
        self._unloaded: list[str] = []
        self._latest: tuple[int, str | None] = (0, None)
        self._complete = True
        self._tables: list[Callable[[], Iterable[tuple[Any, Callable[[Any], slots.Slot]]]]] = []

    def add_tables(self, tables: Callable[[], Iterable[tuple[Any, Callable[[Any], slots.Slot]]]]) -> None:
        """Name mappings whose values are looked through like a module's, each with what makes a key's slot.

        ``tables()`` gives those that are there; it is asked on every look.
        """
        self._tables.append(tables)

    def track(self, occupant: Occupant) -> None:
        """Look out for other names of what stood at a place and of the dispatcher that stands there now.

        Not for what a cell holds, nor for what a place inherits: the other names of that are not this place's.
        """
        if isinstance(occupant.slot, slots.CellSlot) or id(occupant.placed) in self._tracked:
            return
        # Of two places with the same object, the first to come has its other names.
        for thing in (occupant.placed,) if occupant.inherited else (occupant.raw, occupant.placed):
            if id(thing) not in self._tracked:
                self._tracked[id(thing)] = weakref.ref(occupant, functools.partial(self._forget, id(thing)))
        owner = getattr(occupant.slot, "owner", None)
        home = getattr(owner, "__module__", None) or getattr(owner, "__name__", "")
        self._packages.add(str(home).partition(".")[0])
        self._complete = False

    def _forget(self, thing: int, reference: weakref.ref[Occupant]) -> None:
        if self._tracked.get(thing) is reference:
            del self._tracked[thing]

    def _holder_of(self, value: Any) -> Occupant | None:
        reference = self._tracked.get(id(value))
        return reference() if reference is not None else None

    def holder(self, slot: slots.Slot) -> Occupant | None:
        """The occupant of the function that stands in a slot, when the slot is another name for it."""
        value = slot.get()
        occupant = self._holder_of(value)
        if occupant is None or not slot.own() or _table.get(occupant.slot.key()) is not occupant:
            return None
        named = value is occupant.raw and any(slot.key() == alias.key() for alias in occupant.aliases)
        return occupant if type(occupant) is Occupant and (named or value is occupant.placed) else None

    def update(self) -> None:
        """Find the names that are new since the last look, and fill them."""
        latest = imports.latest()
        # Lazy modules that were not loaded at the last look.
        woken = any(imports.namespace_of(sys.modules.get(name)) is not None for name in self._unloaded)
        if self._complete and not woken and latest == self._latest:
            return
        self._unloaded.clear()
        # A copy in one step: other threads import meanwhile.
        for name, module in sys.modules.copy().items():
            if self._complete and self._seen.get(name) == id(module) and name != "__main__":
                continue
            namespace = imports.namespace_of(module)
            if namespace is None:
                self._unloaded.append(name)
                continue
            # What is still being imported gains more names: look again next time.
            if not getattr(namespace.get("__spec__"), "_initializing", False):
                self._seen[name] = id(module)
            any_name = name.partition(".")[0] in self._packages
            self._look(namespace, functools.partial(slots.AttributeSlot, module), any_name)
        for tables in self._tables:
            for mapping, slot_of in tables():
                self._look(mapping, slot_of, any_name=True)
        self._complete = True
        self._latest = latest

    def _look(self, mapping: Any, slot_of: Callable[[Any], slots.Slot], any_name: bool) -> None:
        tracked = self._tracked
        for key, value in (mapping.copy() if type(mapping) is dict else dict(mapping)).items():
            if id(value) not in tracked:
                continue
            occupant = self._holder_of(value)
            if occupant is None or (value is not occupant.raw and value is not occupant.placed):
                continue
            # A dispatcher is given back under any name; it was taken from the patched place.
            if value is occupant.raw and not any_name and key != getattr(occupant.original, "__name__", None):
                continue
            if occupant.know(slot_of(key)) and occupant.entries:
                occupant.put()


aliases = Aliases()

# Called when an activation begins, before any replacement runs.
preparations: list[Callable[[], None]] = []


def prepare() -> None:
    """What has to be done before a replacement may run: late names bound, other names for the functions found."""
    for preparation in preparations:
        preparation()
    with lock:
        aliases.update()
