"""Patches that scopes ask for together, shared by all scopes that ask for the same."""

from __future__ import annotations

from yobx.autopatch import activation, claims, occupants, patches
from yobx.autopatch.occupants import lock

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from yobx.autopatch.patches import Patch

# The numbers of the patches that the process wants anyway.
held: frozenset[int] = frozenset()


def find_names() -> None:
    """Find the names that modules loaded of late took from a dispatcher, before it leaves its place."""
    with lock:
        occupants.aliases.update()


class Group:
    """Patches that scopes ask for together: installed for the first of them, given back after the last.

    While ``enable`` holds all of them anyway they are kept, so that a scope costs the same for any number of patches.
    """

    def __init__(self, choice: activation.Choice) -> None:
        self.choice = choice
        self._acquired: list[Patch] | None = None
        self._ready = False
        self._users = 0
        self._names: list[tuple[Any, str, str]] = []
        self._other_names: list[tuple[Any, str, str]] = []
        self._named_at = -1

    def open(self) -> None:
        """One more scope wants the patches.

        Raises:
            PatchError: in strict mode, when one cannot be installed; the scope is not counted then.
        """
        with lock:
            self._users += 1
        acquired: list[Patch] = []
        try:
            if not self._ready:
                acquired = claims.acquire(self.choice.patches)
                with lock:
                    if self._acquired is None:
                        self._acquired, acquired = acquired, []
                    self._ready = True
            self._show_names()
        except BaseException:
            self.close()
            raise
        finally:
            if acquired:
                # Another thread came first: its claim serves both.
                claims.release(acquired)

    def close(self) -> None:
        """A scope has ended."""
        with lock:
            self._users -= 1
            if self._users == 0:
                self._hide_names()
                if known.get(self.choice.patches) is not self or not self.choice.numbers <= held:
                    self.give_back()

    def _show_names(self) -> None:
        with lock:
            if self not in _shown:
                _shown.append(self)
            if self._named_at != patches.changes():
                self._named_at = patches.changes()
                standing = [patch for patch in self.choice.patches if patch.state == patches.INSTALLED]
                self._names = [names for patch in standing for names in patch.names()]
                self._other_names = [names for names in self._names if names[1] != names[2]]
            # Alone, it need not write the original's name, which stands there already.
            for dispatcher, name, _ in self._names if len(_shown) > 1 else self._other_names:
                dispatcher.__name__ = name

    def _hide_names(self) -> None:
        if self in _shown:
            _shown.remove(self)
        for dispatcher, _, name in self._names if _shown else self._other_names:
            dispatcher.__name__ = name
        for other in _shown:
            other._show_names()

    def give_back(self) -> None:
        """Nobody holds the patches any more, unless a scope is open."""
        with lock:
            if self._users:
                return
            if known.get(self.choice.patches) is self:
                del known[self.choice.patches]
            if self._acquired is not None:
                self._ready = False
                acquired, self._acquired = self._acquired, None
                find_names()
                claims.release(acquired)


known: dict[tuple[Patch, ...], Group] = {}

# Groups whose replacements' names the dispatchers show, oldest first.
_shown: list[Group] = []


def group_of(wanted: Iterable[Patch] | activation.Choice) -> Group:
    choice = wanted if isinstance(wanted, activation.Choice) else activation.Choice(wanted)
    group = known.get(choice.patches)
    if group is None:
        group = known.setdefault(choice.patches, Group(choice))
    return group
