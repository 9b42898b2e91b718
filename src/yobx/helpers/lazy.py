"""Names of a catalogue that are bound when they are needed: what ``lazy import`` of PEP 810 will do.

A file of patches is read before torch is loaded, and must not load it. ``torch = lazy("torch")`` puts a stand-in into
the module's globals; when an activation begins, every stand-in whose module has been loaded is replaced by the real
object, so that replacements, and Dynamo when it traces through them, meet real modules.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from yobx.autopatch import imports, occupants


class Lazy:
    """Stands for a module, or for ``module:name``, until it is bound; resolves itself when used before that."""

    def __init__(self, path: str) -> None:
        self._path = path

    def resolve(self) -> Any:
        """Import the module and return what is named."""
        module, _, name = self._path.partition(":")
        value: Any = importlib.import_module(module)
        for part in name.split(".") if name else ():
            value = getattr(value, part)
        return value

    def __getattr__(self, name: str) -> Any:
        return getattr(self.resolve(), name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.resolve()(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<lazy {self._path}>"


_unbound: list[tuple[Lazy, dict[str, Any]]] = []
_seen: tuple[int, str | None] | None = None


def lazy(path: str) -> Any:
    """A global of the calling module that becomes ``module`` or ``module:name`` when an activation begins."""
    stand_in = Lazy(path)
    _unbound.append((stand_in, sys._getframe(1).f_globals))
    return stand_in


def bind() -> None:
    """Replace every stand-in whose module has been loaded to its end. Nothing is imported."""
    global _seen
    if not _unbound or imports.latest() == _seen:
        return
    _seen = imports.latest()
    for waiting in list(_unbound):
        stand_in, namespace = waiting
        module = stand_in._path.partition(":")[0]
        if not imports.finished(module):
            if module in sys.modules:
                _seen = None
            continue
        _unbound.remove(waiting)
        try:
            value = stand_in.resolve()
        except AttributeError:
            # The installed version has no such name: only a patch for other versions uses it.
            continue
        for name in [name for name, held in namespace.items() if held is stand_in]:
            namespace[name] = value


occupants.preparations.append(bind)
