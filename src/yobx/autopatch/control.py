"""Who wants which patch: the process, by ``enable``, and every open scope.

A patch is installed when the first of them asks for it, as soon as its module is loaded, and removed when the last one
has gone. Counts change under a lock; installing, which may import, happens outside it, and may be done by two threads
at once: the second finds it done.
"""

from __future__ import annotations

import functools
import importlib
import sys
from contextlib import ContextDecorator, ExitStack

from yobx.autopatch import activation, dispatch, families, imports, marks, notices, occupants, patches, scopes
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
_held_numbers: frozenset[int] = frozenset()
_wanted: dict[str, dict[int, Patch]] = {}

# The modules when nothing that is loaded was waited for any more.
_looked_at: tuple[int, str | None] | None = None


def acquire(wanted: Iterable[Patch]) -> list[Patch]:
    """Have patches installed, now or as soon as their modules load, until they are released as often.

    Raises:
        PatchError: in strict mode, when one cannot be installed; none of them is acquired then.
    """
    # What is meant for other versions never stands anywhere, however often it is asked for.
    acquired = [patch for patch in wanted if patch.state != patches.SKIPPED]
    _count(acquired)
    try:
        _want(acquired)
    except BaseException:
        release(acquired)
        raise
    return acquired


def _count(acquired: Iterable[Patch]) -> None:
    with lock:
        for patch in acquired:
            patch.users += 1
            if patch.users == 1:
                _wanted.setdefault(patch.module, {})[patch.number] = patch


def _attend() -> None:
    """What goes with patches of any kind, as long as there are some."""
    marks.observer.stand(bool(_wanted))
    # A patch may stand somewhere before torch is loaded, and be traced after it.
    if _wanted and not dispatch.torch_is_bound():
        imports.after("torch.compiler", _torch_loaded)
    else:
        imports.forget("torch.compiler", _torch_loaded)


def _torch_loaded(module: ModuleType) -> None:
    dispatch.bind_torch()


def release(acquired: Iterable[Patch]) -> None:
    """Give back what ``acquire`` gave."""
    wrong: BaseException | None = None
    for patch in acquired:
        # Whatever goes wrong with one, the others are given back.
        try:
            _release(patch)
        except BaseException as error:
            wrong = wrong or error
    _attend()
    if wrong is not None:
        raise wrong


def _release(patch: Patch) -> None:
    with lock:
        patch.users -= 1
        if patch.users == 0:
            module = _wanted[patch.module]
            del module[patch.number]
            if not module:
                del _wanted[patch.module]
                imports.forget(patch.module, _loaded)
            patch.remove()


def _want(acquired: Iterable[Patch]) -> None:
    global _looked_at
    _attend()
    loaded: dict[str, bool] = {}
    for patch in acquired:
        if patch.state == patches.INSTALLED:
            continue
        if patch.owner is None:
            if patch.module not in loaded:
                with lock:
                    if not patch.users:
                        continue
                    imports.after(patch.module, _loaded)
                loaded[patch.module] = imports.finished(patch.module)
            if not loaded[patch.module]:
                with lock:
                    if patch.users:
                        patch.wait()
                _looked_at = None
                continue
        _install(patch)


def _install_late() -> None:
    """Install what waits for a module that was loaded past our hook.

    Another thread had found its loader before the hook was there, it was a lazy one, or somebody took our finder away.
    """
    global _looked_at
    imports.watch()
    if imports.latest() == _looked_at:
        return
    _looked_at = imports.latest()
    for patch in [patch for waiting in list(_wanted.values()) for patch in list(waiting.values())]:
        if patch.state != patches.PENDING:
            continue
        if imports.finished(patch.module):
            _install(patch)
        elif patch.module in sys.modules:
            _looked_at = None


occupants.preparations.append(_install_late)


def _loaded(module: ModuleType) -> None:
    for patch in list(_wanted.get(module.__name__, {}).values()):
        _install(patch, again=True)
    if activation.active_numbers():
        # Loaded inside a scope or an export: too late for its beginning, in time for the module's first use.
        occupants.prepare()


def _install(patch: Patch, again: bool = False) -> None:
    try:
        patch.install(again)
    except notices.PatchError:
        raise
    except Exception as error:
        patch.fail(error)


def enable(selection: Selection, scope: str) -> None:
    """Add to what the whole process wants.

    Raises:
        PatchError: in strict mode, when a family's package is not installed or a patch cannot be installed.
    """
    if not selection:
        return
    missing = selection.absent()
    if missing:
        notices.complain(missing)
    with lock:
        before = list(_enabled)
        if (scope, selection) not in _enabled:
            _enabled.append((scope, selection))
    try:
        for name in selection.families:
            family = families.get(name)
            if not family.targets or any(package in sys.modules for package in family.targets):
                family.load()
            for package in family.targets:
                imports.before(package, _declare)
        synchronise()
    except BaseException:
        with lock:
            _enabled[:] = [wanted for wanted in _enabled if wanted in before or wanted[1] is not selection]
        synchronise()
        raise


def disable(names: Sequence[str]) -> None:
    """Take families out of what the whole process wants; all of it when none is named."""
    with lock:
        for _, selection in _enabled:
            selection.drop(names)
        _enabled[:] = [(scope, selection) for scope, selection in _enabled if selection and names]
        if not _enabled:
            for name in families.BUILT_IN:
                for package in families.get(name).targets:
                    imports.forget(package, _declare)
    synchronise()


def _declare() -> None:
    """A family's package is about to load: read the declarations that were left for later."""
    try:
        for name in [name for _, selection in list(_enabled) for name in selection.families]:
            # Other families are read already, or are being read by a thread that may wait for this very import.
            if families.get(name).targets:
                families.get(name).load()
        synchronise()
    except notices.PatchError:
        raise
    except Exception as error:
        # The program's import goes on, whatever is wrong with ours.
        notices.complain(f"a family of patches cannot be read: {type(error).__name__}: {error}", cause=error)


def wanted_by_process(scope: str, load: bool = False) -> list[Patch]:
    """What ``enable`` asked for with this scope, of the families whose declarations have been read."""
    chosen: dict[int, Patch] = {}
    for wanted_scope, selection in list(_enabled):
        if wanted_scope == scope:
            chosen.update((patch.number, patch) for patch in selection.patches(load))
    return list(chosen.values())


def _hold(held: list[Patch]) -> None:
    global _held_numbers
    _held[:] = held
    _held_numbers = frozenset(patch.number for patch in held)


def synchronise() -> None:
    """Make the installed patches and the default beneath every stack agree with what ``enable`` asked for."""
    with lock:
        wanted = {patch.number: patch for scope in SCOPES for patch in wanted_by_process(scope)}
        dropped = [patch for patch in _held if patch.number not in wanted]
        held = {patch.number for patch in _held}
        added = [patch for patch in wanted.values() if patch.number not in held]
        _hold([*(patch for patch in _held if patch.number in wanted), *added])
        _count(added)
    try:
        _want(added)
        _install_late()
        occupants.reclaim()
    except BaseException:
        with lock:
            # Another thread may have dropped some of them since.
            failed = [patch for patch in added if patch.number in _held_numbers]
            _hold([patch for patch in _held if patch not in failed])
        release(failed)
        raise
    if dropped:
        _find_names()
        release(dropped)
        for group in list(_groups.values()):
            group.give_back()
    with lock:
        # Asked again: other threads enable and disable too, and the last one has to leave what all of them wanted.
        activation.default.replace(wanted_by_process(EXPORT), wanted_by_process(ALWAYS))
    standing = None
    while standing != (wanted_now := any(scope == EXPORT for scope, _ in _enabled)):
        scopes.stand(wanted_now)
        standing = wanted_now
    if activation.default.winners:
        occupants.prepare()


def _find_names() -> None:
    """Find the names that modules loaded of late took from a dispatcher, before it leaves its place."""
    with lock:
        occupants.aliases.update()


class Group:
    """Patches that scopes ask for together: installed for the first of them, given back after the last.

    While ``enable`` holds all of them anyway they are kept, so that a scope costs the same for any number of patches.
    """

    def __init__(self, choice: activation.Choice) -> None:
        self.choice = choice
        self._key = tuple([patch.number for patch in choice.patches])
        self._acquired: list[Patch] | None = None
        self._ready = False
        self._users = 0
        self._names: list[tuple[Any, str, str]] = []
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
                acquired = acquire(self.choice.patches)
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
                release(acquired)

    def close(self) -> None:
        """A scope has ended."""
        with lock:
            self._users -= 1
            if self._users == 0:
                self._hide_names()
                if _groups.get(self._key) is not self or not _held_numbers.issuperset(self._key):
                    self.give_back()

    def _show_names(self) -> None:
        with lock:
            if self not in _shown:
                _shown.append(self)
            if self._named_at != patches.changes():
                self._named_at = patches.changes()
                self._names = [names for patch in self.choice.patches for names in patch.names()]
            for dispatcher, name, _ in self._names:
                dispatcher.__name__ = name

    def _hide_names(self) -> None:
        if self in _shown:
            _shown.remove(self)
        for dispatcher, _, name in self._names:
            dispatcher.__name__ = name
        for other in _shown:
            other._show_names()

    def give_back(self) -> None:
        """Nobody holds the patches any more, unless a scope is open."""
        with lock:
            if self._users:
                return
            if _groups.get(self._key) is self:
                del _groups[self._key]
            if self._acquired is not None:
                self._ready = False
                acquired, self._acquired = self._acquired, None
                _find_names()
                release(acquired)


_groups: dict[tuple[int, ...], Group] = {}

# Groups whose replacements' names the dispatchers show, oldest first.
_shown: list[Group] = []


def _group(wanted: Iterable[Patch]) -> Group:
    chosen = tuple(wanted)
    key = tuple([patch.number for patch in chosen])
    group = _groups.get(key)
    if group is None:
        group = _groups.setdefault(key, Group(activation.Choice(chosen)))
    return group


class Scope(ContextDecorator):
    """Patches, or the originals (``None``), active in this thread for the length of a ``with`` block or a call."""

    def __init__(self, wanted: Callable[[], Sequence[Patch]] | None) -> None:
        self._wanted = wanted
        self._activation: activation.Activation | None = None
        self._group: Group | None = None

    def _recreate_cm(self) -> Scope:
        return Scope(self._wanted)

    def __enter__(self) -> Any:
        if self._activation is not None:
            raise RuntimeError("this activation is open already: make another one to nest it")
        if self._wanted is None:
            self._activation = activation.Activation(None)
            activation.push(self._activation)
            return None
        group = _group(self._wanted())
        group.open()
        self._group = group
        try:
            occupants.prepare()
            self._activation = activation.Activation(group.choice)
            activation.push(self._activation)
            return details_of(group.choice.patches, self._activation)
        except BaseException:
            activation.discard(self._activation)
            self._activation = None
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
        if self._group is not None:
            self._group.close()
            self._group = None


def bind(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, to be called in any thread with what is active in this one now."""
    state = activation.state
    behind = [activation.default.exporting] if state.doors else []
    choices = [*behind, *(entry.choice for entry in state.stack)]

    @functools.wraps(function)
    def bound(*args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            for choice in choices:
                stack.enter_context(Scope(None if choice is None else functools.partial(getattr, choice, "patches")))
            return function(*args, **kwargs)

    return bound


def scope_of(selection: Selection, more: Sequence[Patch] = ()) -> Scope:
    """A scope of what is selected, and of further patches that go over it."""
    missing = selection.absent()
    if missing:
        notices.complain(missing)
    return Scope(lambda: [*selection.patches(), *more])


def details_of(chosen: Sequence[Patch], entry: activation.Activation | None) -> Any:
    """The ``PatchDetails`` of some patches; found by name, as the machine imports nothing of what is built on it."""
    if make_details is None:
        importlib.import_module("yobx.helpers.patch_helper")
    assert make_details is not None
    return make_details(chosen, entry)
