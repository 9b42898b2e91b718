"""Who wants which patch installed: the process, by ``enable``, and every open scope.

A patch is installed when the first of them asks for it, as soon as its module is loaded, and removed when the last one
has gone. Counts change under a lock; installing, which may import, happens outside it, and may be done by two threads
at once: the second finds it done.
"""

from __future__ import annotations

import sys

from yobx.autopatch import activation, dispatch, imports, marks, notices, occupants, patches
from yobx.autopatch.occupants import lock

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import ModuleType

    from yobx.autopatch.patches import Patch

wanted: dict[str, dict[int, Patch]] = {}

# The modules when nothing that is loaded was waited for any more.
_looked_at: tuple[int, str | None] | None = None


def acquire(asked: Iterable[Patch]) -> list[Patch]:
    """Have patches installed, now or as soon as their modules load, until they are released as often.

    Raises:
        PatchError: in strict mode, when one cannot be installed; none of them is acquired then.
    """
    # What is meant for other versions never stands anywhere, however often it is asked for.
    acquired = [patch for patch in asked if patch.state != patches.SKIPPED]
    count(acquired)
    try:
        want(acquired)
    except BaseException:
        release(acquired)
        raise
    return acquired


def count(acquired: Iterable[Patch]) -> None:
    """One more wants each of the patches; what happens to their modules is heard of from now on."""
    awaited: set[str] = set()
    with lock:
        for patch in acquired:
            patch.users += 1
            if patch.users == 1:
                wanted.setdefault(patch.module, {})[patch.number] = patch
                if patch.owner is None:
                    awaited.add(patch.module)
        if awaited:
            imports.after(_loaded, *awaited)


def _attend() -> None:
    """What goes with patches of any kind, as long as there are some."""
    marks.observer.stand(bool(wanted))
    # A patch may stand somewhere before torch is loaded, and be traced after it.
    if wanted and not dispatch.torch_is_bound():
        imports.after(_torch_loaded, "torch.compiler")
    else:
        imports.forget(_torch_loaded, "torch.compiler")


def _torch_loaded(module: ModuleType) -> None:
    dispatch.bind_torch()


def release(acquired: Iterable[Patch]) -> None:
    """Give back what ``acquire`` gave."""
    wrong: BaseException | None = None
    left: list[str] = []
    with lock:
        for patch in acquired:
            patch.users -= 1
            if patch.users:
                continue
            module = wanted[patch.module]
            del module[patch.number]
            if not module:
                del wanted[patch.module]
                left.append(patch.module)
            # Whatever goes wrong with one, the others are given back.
            try:
                patch.remove()
            except BaseException as error:
                wrong = wrong or error
        imports.forget(_loaded, *left)
    _attend()
    if wrong is not None:
        raise wrong


def want(acquired: Iterable[Patch]) -> None:
    """Install what is counted already, as far as modules are loaded; the rest waits.

    Raises:
        PatchError: in strict mode, when one cannot be installed.
    """
    global _looked_at
    _attend()
    new, failed = _stand_again(acquired)
    for patch, error in failed:
        patch.fail(error)
    waiting: list[Patch] = []
    for patch in new:
        if patch.owner is None and not (patch.module in sys.modules and imports.finished(patch.module)):
            waiting.append(patch)
        else:
            _install(patch)
    with lock:
        for patch in waiting:
            if patch.users and patch.state != patches.INSTALLED:
                patch.wait()
            if patch.module in sys.modules:
                # Half loaded: it may end past our hook.
                _looked_at = None


def _stand_again(acquired: Iterable[Patch]) -> tuple[list[Patch], list[tuple[Patch, Exception]]]:
    """Let patches stand where they stood before; those that have to be installed anew, and what went wrong."""
    new = []
    failed = []
    with lock:
        for patch in acquired:
            try:
                if patch.state != patches.INSTALLED and not patch.stand_again():
                    new.append(patch)
            except Exception as error:
                failed.append((patch, error))
    return new, failed


def install_late() -> None:
    """Install what waits for a module that was loaded past our hook.

    Another thread had found its loader before the hook was there, it was a lazy one, or somebody took our finder away.
    """
    global _looked_at
    imports.watch()
    if imports.latest() == _looked_at:
        return
    _looked_at = imports.latest()
    for patch in [patch for waiting in list(wanted.values()) for patch in list(waiting.values())]:
        if patch.state != patches.PENDING:
            continue
        if imports.finished(patch.module):
            _install(patch)
        elif patch.module in sys.modules:
            _looked_at = None


occupants.preparations.append(install_late)


def _loaded(module: ModuleType) -> None:
    for patch in list(wanted.get(module.__name__, {}).values()):
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
