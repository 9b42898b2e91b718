"""Who wants which patch: the process, by ``enable``, and every open scope.

A patch is installed when the first of them asks for it, as soon as its module is loaded, and removed when the last one
has gone. Counts change under a lock; installing, which may import, happens outside it, and may be done by two threads
at once: the second finds it done.
"""

from __future__ import annotations

import importlib
import sys
from contextlib import ContextDecorator

from yobx.autopatch import activation, families, imports, notices, occupants, patches, scopes
from yobx.autopatch.occupants import lock

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from types import ModuleType, TracebackType
    from typing import Any

    from yobx.autopatch.families import Selection
    from yobx.autopatch.patches import Patch

EXPORT = "export"
ALWAYS = "always"
SCOPES = (EXPORT, ALWAYS)

# Makes what a scope gives its user; set by the module that defines it.
make_details: Callable[[Sequence[Patch], activation.Activation | None], Any] | None = None

_enabled: list[tuple[str, Selection]] = []
_held: list[Patch] = []
_wanted: dict[str, dict[int, Patch]] = {}
_late: list[Patch] = []


def acquire(wanted: Iterable[Patch]) -> list[Patch]:
    """Have patches installed, now or as soon as their modules load, until they are released as often.

    Raises:
        PatchError: in strict mode, when one cannot be installed; none of them is acquired then.
    """
    acquired: list[Patch] = []
    try:
        for patch in wanted:
            with lock:
                patch.users += 1
                if patch.users == 1:
                    _wanted.setdefault(patch.module, {})[patch.number] = patch
            acquired.append(patch)
            if patch.state != patches.INSTALLED:
                _want(patch)
    except BaseException:
        release(acquired)
        raise
    return acquired


def release(acquired: Iterable[Patch]) -> None:
    """Give back what ``acquire`` gave."""
    for patch in acquired:
        with lock:
            patch.users -= 1
            if patch.users == 0:
                patch.remove()
                module = _wanted[patch.module]
                del module[patch.number]
                if not module:
                    del _wanted[patch.module]
                    imports.forget(patch.module, _loaded)


def _want(patch: Patch) -> None:
    if patch.owner is None:
        imports.after(patch.module, _loaded)
        if not imports.finished(patch.module):
            patch.wait()
            # Another thread is loading the module, and may have found its loader before the hook was there.
            if patch.module in sys.modules:
                _late.append(patch)
            return
    _install(patch)


def _install_late() -> None:
    while _late and imports.finished(_late[-1].module):
        patch = _late.pop()
        if patch.users and patch.state == patches.PENDING:
            _install(patch)


occupants.preparations.append(_install_late)


def _loaded(module: ModuleType) -> None:
    for patch in list(_wanted.get(module.__name__, {}).values()):
        _install(patch, again=True)


def _install(patch: Patch, again: bool = False) -> None:
    try:
        patch.install(again)
    except notices.PatchError:
        raise
    except Exception as error:
        patch.fail(error)


def enable(selection: Selection, scope: str) -> None:
    """Add to what the whole process wants."""
    with lock:
        if (scope, selection) not in _enabled:
            _enabled.append((scope, selection))
    for name in selection.families:
        family = families.get(name)
        if family.package is None or family.package in sys.modules:
            family.load()
        else:
            imports.before(family.package, _declare)
    synchronise()


def disable(names: Sequence[str]) -> None:
    """Take families out of what the whole process wants; all of it when none is named."""
    with lock:
        for _, selection in _enabled:
            selection.drop(names)
        _enabled[:] = [(scope, selection) for scope, selection in _enabled if selection and names]
        if not _enabled:
            for family in families.BUILT_IN:
                imports.forget(str(families.get(family).package), _declare)
    synchronise()


def _declare() -> None:
    """A family's package is about to load: read the declarations that were left for later."""
    for _, selection in list(_enabled):
        selection.patches(load=True)
    synchronise()


def wanted_by_process(scope: str, load: bool = False) -> list[Patch]:
    """What ``enable`` asked for with this scope, of the families whose declarations have been read."""
    chosen: dict[int, Patch] = {}
    for wanted_scope, selection in list(_enabled):
        if wanted_scope == scope:
            chosen.update((patch.number, patch) for patch in selection.patches(load))
    return list(chosen.values())


def synchronise() -> None:
    """Make the installed patches and the default beneath every stack agree with what ``enable`` asked for."""
    exporting, always = wanted_by_process(EXPORT), wanted_by_process(ALWAYS)
    wanted = {patch.number: patch for patch in (*exporting, *always)}
    with lock:
        dropped = [patch for patch in _held if patch.number not in wanted]
        held = {patch.number for patch in _held}
        added = [patch for patch in wanted.values() if patch.number not in held]
        _held[:] = [*(patch for patch in _held if patch.number in wanted), *added]
    try:
        acquire(added)
    except BaseException:
        with lock:
            gone = {patch.number for patch in added}
            _held[:] = [patch for patch in _held if patch.number not in gone]
        raise
    release(dropped)
    activation.default.replace(exporting, always)
    scopes.stand(any(scope == EXPORT for scope, _ in _enabled))
    if always:
        occupants.prepare()


class Scope(ContextDecorator):
    """Patches, or the originals (``None``), active in this thread for the length of a ``with`` block or a call."""

    def __init__(self, wanted: Callable[[], Sequence[Patch]] | None) -> None:
        self._wanted = wanted
        self._activation: activation.Activation | None = None
        self._acquired: list[Patch] = []

    def _recreate_cm(self) -> Scope:
        return Scope(self._wanted)

    def __enter__(self) -> Any:
        if self._activation is not None:
            raise RuntimeError("this activation is open already: make another one to nest it")
        if self._wanted is None:
            self._activation = activation.Activation(None)
            activation.push(self._activation)
            return None
        chosen = list(self._wanted())
        self._acquired = acquire(chosen)
        try:
            with lock:
                for patch in chosen:
                    patch.show_name(True)
            occupants.prepare()
            self._activation = activation.Activation(chosen)
            activation.push(self._activation)
            return details_of(chosen, self._activation)
        except BaseException:
            self._close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._activation is not None:
            activation.remove(self._activation)
            self._activation = None
        acquired, self._acquired = self._acquired, []
        with lock:
            for patch in acquired:
                patch.show_name(False)
        release(acquired)


def details_of(chosen: Sequence[Patch], entry: activation.Activation | None) -> Any:
    """The ``PatchDetails`` of some patches; found by name, as the machine imports nothing of what is built on it."""
    if make_details is None:
        importlib.import_module("yobx.helpers.patch_helper")
    assert make_details is not None
    return make_details(chosen, entry)
