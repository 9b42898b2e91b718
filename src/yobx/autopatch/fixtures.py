"""Functions of torch that stand over their originals as long as somebody wants them, whatever patches there are."""

from __future__ import annotations

import sys

from yobx.autopatch import imports, notices, occupants, slots
from yobx.autopatch.occupants import lock

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Hashable, Mapping
    from types import ModuleType
    from typing import Any

    Maker = Callable[[Callable[..., Any]], tuple[Callable[..., Any], list[Any]]]


class Fixtures:
    """Places in some modules, and what makes the function that stands at each of them."""

    def __init__(
        self, places: Mapping[str, Mapping[str, Maker]], consequence: str, optional: Collection[str] = ()
    ) -> None:
        """
        Args:
            places: by module and path in it, a function that takes the original and gives the one to stand there.
            consequence: what it means, in words, that a place is not found.
            optional: paths that some versions have not.
        """
        self._places = places
        self._consequence = consequence
        self._optional = optional
        self._wanted = False
        self._standing: dict[str, list[occupants.Occupant]] = {}
        self._before: dict[str, list[occupants.Occupant]] = {}
        self._known: dict[Hashable, occupants.Occupant] = {}

    def stand(self, wanted: bool) -> None:
        """Put them up, in modules already loaded and in those to come; or take them down."""
        with lock:
            if wanted is self._wanted:
                return
            self._wanted = wanted
        for module in self._places:
            with lock:
                # Another thread may have changed its mind meanwhile.
                if self._wanted:
                    imports.after(self._loaded, module)
                else:
                    imports.forget(self._loaded, module)
                    self._take_down(module)
                    continue
            if imports.finished(module) and not self._standing.get(module) and not self._stand_again(module):
                self._loaded(sys.modules[module])

    def _take_down(self, module: str) -> None:
        with lock:
            for occupant in self._standing.pop(module, ()):
                occupant.entries.clear()
                occupant.restore()

    def _stand_again(self, name: str) -> bool:
        """Put up what stood in a module before, when nothing has changed there."""
        with lock:
            before = self._before.get(name, [])
            if not before or not self._wanted or not all(occupant.unchanged() for occupant in before):
                return False
            for occupant in before:
                occupant.entries.append(True)
                occupant.put()
            self._standing[name] = list(before)
            return True

    def _loaded(self, module: ModuleType) -> None:
        name = module.__name__
        self._take_down(name)
        places = []
        for path, make in self._places[name].items():
            try:
                places.append((slots.find(module, slots.split_target(f"{name}:{path}")[1]), make))
            except slots.TargetError as error:
                if path not in self._optional:
                    notices.complain(f"{self._consequence}: {error}")
        with lock:
            for place, make in places if self._wanted else ():
                occupant = self._known.get(place.key())
                # As with patches: the same function stands there every time, unless the place has changed.
                if occupant is None or not occupant.unchanged():
                    occupant = self._known[place.key()] = occupants.Occupant(place, make)
                occupant.entries.append(True)
                occupant.put()
                occupants.aliases.track(occupant)
                self._standing.setdefault(name, []).append(occupant)
            self._before[name] = list(self._standing.get(name, ()))
