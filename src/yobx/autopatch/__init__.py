"""Switches for the patches: on for a program, on or off for a block, in this thread or by default.

Nothing here imports torch or transformers. A patch is installed when its target's module loads, and its replacement
runs only while it is active: inside an export (the default scope), or inside :func:`activate`.
"""

from __future__ import annotations

from yobx.autopatch import activation as _activation
from yobx.autopatch import control as _control
from yobx.autopatch import families as _families
from yobx.autopatch import process as _process
from yobx.autopatch.notices import PatchError

# Not imported from `typing`, which takes longer to load at interpreter start than all of this package.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from yobx.autopatch.patches import Patch
    from yobx.helpers.patch_helper import PatchDetails, PatchInfo

SCOPES = _process.SCOPES

__all__ = ["PatchError", "activate", "bind", "details", "disable", "enable", "is_active", "register", "suspend"]


def enable(*names: str, scope: str = "export") -> None:
    """Ask for patches in the whole process, from now on.

    It may be called before torch is imported, after it, or between torch and transformers; again, it adds.

    Args:
        names: families (``"torch"``), single patches (``"torch:infer_size"``), exclusions
            (``"-torch:infer_size"``); both built-in families when nothing is named.
        scope: ``"export"``: active inside an export or a re-trace of one, in any thread. ``"always"``: active at any
            time, eager code and ``torch.compile`` included.

    Raises:
        ValueError: for an unknown family, patch or scope; the message lists the valid ones.
    """
    if scope not in _process.SCOPES:
        raise ValueError(f"scope is {scope!r}; it is one of {', '.join(map(repr, _process.SCOPES))}")
    _process.enable(_families.Selection.parse(names or _families.BUILT_IN), scope)


def disable(*names: str) -> None:
    """Take back :func:`enable` for some families, or all of it: the originals stand at their places again.

    Raises:
        ValueError: for an unknown family.
    """
    for name in names:
        _families.get(name)
    _process.disable(names)


def activate(*names: str) -> _control.Scope:
    """Patches active in this thread for the length of a ``with`` block, whatever :func:`enable` asked for.

    Also a decorator. The block's value is a :class:`~yobx.helpers.patch_helper.PatchDetails`. Blocks nest; of two
    patches of one target, the one activated last runs.

    Args:
        names: as for :func:`enable`.

    Raises:
        ValueError: for an unknown family or patch.
    """
    return _control.scope_of(_families.Selection.parse(names or _families.BUILT_IN))


def suspend() -> _control.Scope:
    """The originals in this thread for the length of a ``with`` block, inside an activation or an export too.

    Also a decorator.
    """
    return _control.Scope(None)


def bind(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function for a worker thread: it runs there with what is active in this thread now.

    A thread starts with nothing active, whoever starts it. ``executor.submit(bind(work), x)`` carries the activations
    of this moment along, and keeps their patches installed while ``work`` runs, also when their blocks have ended here.
    """
    return _control.bind(function)


def is_active(name: str | None = None) -> bool:
    """Whether a call in this thread would run a replacement now: any, or one of a family or patch.

    Raises:
        ValueError: for an unknown family or patch.
    """
    active = _activation.active_numbers()
    if name is None:
        return bool(active)
    return any(patch.number in active for patch in _families.Selection.parse([name]).patches())


def details() -> PatchDetails:
    """Every patch that is enabled, or active in this thread, with its state and the reason for it."""
    chosen: dict[int, Patch] = {}
    for scope in _process.SCOPES:
        chosen.update((patch.number, patch) for patch in _process.wanted_by_process(scope, load=True))
    _process.synchronise()
    for entry in _activation.state.stack:
        chosen.update((patch.number, patch) for patch in (entry.choice.patches if entry.choice else ()))
    return _control.details_of(list(chosen.values()), None)


def register(patches: PatchInfo | Iterable[PatchInfo]) -> None:
    """Add patches of a program's own to their families, which are made when there are none of these names.

    A family that is enabled already has them from now on; a new one is enabled by its name like a built-in one.

    Raises:
        ValueError: when a family has another patch of that name.
    """
    infos: list[Any] = list(patches) if not hasattr(patches, "core") else [patches]
    for info in infos:
        if info.family in _families.BUILT_IN:
            _families.get(info.family).load()
        _families.declare(info.core)
    _process.synchronise()
