"""When a patch is installed: right after the module that owns its target ran, before its importer sees it.

A finder at the front of ``sys.meta_path`` keeps its own, persistent table of module names. It never asks the import
machinery again, as wrapt's finder does: that deadlocks when a package's ``__init__`` waits for a thread that imports a
hooked submodule (DataDog/dd-trace-py#17742). It walks the other finders instead, and gives the loader it got a hook
that leaves no trace in the module.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

_before: dict[str, list[Callable[[], None]]] = {}
_after: dict[str, list[Callable[[ModuleType], None]]] = {}
_lock = threading.Lock()
_never_again = itertools.count(-1, -1)
os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release)


def finished(name: str) -> bool:
    """Whether a module has been loaded to its end: while it runs, its functions may not be defined yet."""
    module = sys.modules.get(name)
    namespace = None if module is None else namespace_of(module)
    return namespace is not None and not getattr(namespace.get("__spec__"), "_initializing", False)


def namespace_of(module: Any) -> dict[str, Any] | None:
    """The names of a module, or of what stands for one in ``sys.modules``; ``None`` while it is not loaded.

    Nothing is asked of the module itself: to ask one of ``importlib.util.LazyLoader`` would load it.
    """
    kind = type(module)
    if kind.__module__ == "importlib.util" and kind.__name__ == "_LazyModule":
        return None
    try:
        namespace = object.__getattribute__(module, "__dict__")
    except AttributeError:
        return None
    return namespace if isinstance(namespace, dict) else None


def latest() -> tuple[int, str | None]:
    """Something that changes whenever a module has been loaded."""
    try:
        return len(sys.modules), next(reversed(sys.modules), None)
    except RuntimeError:
        # Another thread is importing: whatever the last look saw, it was not this.
        return next(_never_again), None


def installed(package: str) -> bool:
    """Whether a top-level package is loaded, or could be; nothing is imported."""
    if package in sys.modules:
        return True
    finders = (getattr(finder, "find_spec", None) for finder in list(sys.meta_path))
    return any(find(package, None) is not None for find in finders if find)


class HookedLoader:
    """The loader that was found, with something to do before and after the module runs.

    It passes for the loader it stands for in every other respect, and takes itself out of the module's ``__spec__``
    and ``__loader__`` before the module runs, so that ``pkg_resources``, ``importlib.resources`` and ``python -m``
    see nothing of it (wrapt#221, wrapt#238).
    """

    def __init__(self, loader: Any, name: str, spec: ModuleSpec) -> None:
        self._loader = loader
        self._name = name
        self._spec = spec

    def __getattr__(self, name: str) -> Any:
        if name == "get_code" and self._spec.loader is self:
            # Who asks for the code runs it without us, as `python -m` does, and shows the loader to it.
            self._spec.loader = self._loader
        return getattr(self._loader, name)

    @property  # type: ignore[misc]  # read-only, as `isinstance` only reads it
    def __class__(self) -> Any:
        return type(self._loader)

    def __eq__(self, other: object) -> bool:
        return bool(self._loader == (other._loader if type(other) is HookedLoader else other))

    def __hash__(self) -> int:
        return hash(self._loader)

    def __repr__(self) -> str:
        return repr(self._loader)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """Run the module with its own loader, between the two kinds of hooks."""
        spec = getattr(module, "__spec__", None)
        if spec is not None and spec.loader is self:
            spec.loader = self._loader
        if getattr(module, "__loader__", None) is self:
            module.__loader__ = self._loader
        for hook in _hooks(_before, self._name):
            hook()
        self._loader.exec_module(module)
        _notify_wrapt(module)
        for after in _hooks(_after, self._name):
            after(module)


def _hooks(table: dict[str, list[Any]], name: str) -> list[Any]:
    with _lock:
        return list(table.get(name, ()))


def _notify_wrapt(module: ModuleType) -> None:
    """Fire the post-import hooks that anybody registered with wrapt; what they raise is theirs."""
    notify = getattr(sys.modules.get("wrapt"), "notify_module_loaded", None)
    if notify is not None:
        notify(module)


class Finder:
    """Finds what the other finders find, and hooks the loader when the module is in the table."""

    def __init__(self) -> None:
        self._busy = threading.local()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname not in _after and fullname not in _before:
            return None
        busy: set[str] = self._busy.__dict__.setdefault("names", set())
        if fullname in busy:
            # Another finder asks the whole machinery again on behalf of our walk: it is hooked there already.
            return None
        busy.add(fullname)
        try:
            for finder in list(sys.meta_path):
                find_spec = getattr(finder, "find_spec", None)
                spec = find_spec(fullname, path, target) if find_spec and finder is not self else None
                if spec is not None:
                    break
            else:
                return None
        finally:
            busy.discard(fullname)
        # A finder may give the same spec again.
        if hasattr(spec.loader, "exec_module") and type(spec.loader) is not HookedLoader:
            spec.loader = HookedLoader(spec.loader, fullname, spec)
        return spec

    def invalidate_caches(self) -> None:
        """Nothing is cached; ``importlib.invalidate_caches`` asks every finder."""


_finder = Finder()


def _present() -> None:
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)


def watch() -> None:
    """Put the finder back when somebody has taken it away and it is still needed."""
    if (_before or _after) and _finder not in sys.meta_path:
        with _lock:
            _present()


def before(hook: Callable[[], None], *names: str) -> None:
    """Call ``hook()`` whenever one of the modules is about to run."""
    _add(_before, hook, names)


def after(hook: Callable[[ModuleType], None], *names: str) -> None:
    """Call ``hook(module)`` whenever one of the modules has run, at once on a reload too."""
    _add(_after, hook, names)


def _add(table: dict[str, list[Any]], hook: Any, names: Iterable[str]) -> None:
    with _lock:
        for name in names:
            hooks = table.setdefault(name, [])
            if hook not in hooks:
                hooks.append(hook)
        _present()


def forget(hook: Any, *names: str) -> None:
    """Take back the hook of some modules; the finder leaves with the last one."""
    with _lock:
        for table in (_before, _after):
            for name in names:
                hooks = table.get(name, [])
                if hook in hooks:
                    hooks.remove(hook)
                    if not hooks:
                        del table[name]
        if not _before and not _after and _finder in sys.meta_path:
            sys.meta_path.remove(_finder)
