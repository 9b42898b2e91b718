"""What the whole process wants: the selections that ``enable`` was called with, until ``disable``."""

from __future__ import annotations

import sys

from yobx.autopatch import activation, claims, families, groups, imports, notices, occupants, scopes
from yobx.autopatch.occupants import lock

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Sequence

    from yobx.autopatch.families import Selection
    from yobx.autopatch.patches import Patch

EXPORT = "export"
ALWAYS = "always"
SCOPES = (EXPORT, ALWAYS)

_enabled: list[tuple[str, Selection]] = []
_held: list[Patch] = []


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
                imports.before(_declare, package)
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
                    imports.forget(_declare, package)
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
    _held[:] = held
    groups.held = frozenset(patch.number for patch in held)


def synchronise() -> None:
    """Make the installed patches and the default beneath every stack agree with what ``enable`` asked for."""
    with lock:
        wanted = {patch.number: patch for scope in SCOPES for patch in wanted_by_process(scope)}
        dropped = [patch for patch in _held if patch.number not in wanted]
        held = {patch.number for patch in _held}
        added = [patch for patch in wanted.values() if patch.number not in held]
        _hold([*(patch for patch in _held if patch.number in wanted), *added])
        claims.count(added)
    try:
        claims.want(added)
        claims.install_late()
        occupants.reclaim()
    except BaseException:
        with lock:
            # Another thread may have dropped some of them since.
            failed = [patch for patch in added if patch.number in groups.held]
            _hold([patch for patch in _held if patch not in failed])
        claims.release(failed)
        raise
    if dropped:
        groups.find_names()
        claims.release(dropped)
        for group in list(groups.known.values()):
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
