"""Who else has a hand on a target: other patchers, and what holds the original where no patch can reach it."""

from __future__ import annotations

import contextlib
import gc
import inspect
import io
import os
import sys
import sysconfig
from types import CellType, FrameType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any

from yobx.autopatch import control
from yobx.commands.doctor import NOTE, OK, PROBLEM, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yobx.helpers.patch_helper import PatchInfo

_OURS = os.path.realpath(os.path.dirname(os.path.dirname(__file__)))


def wrapped(infos: list[PatchInfo]) -> Iterator[Finding]:
    """Targets at which the function of somebody else stands."""
    clash = False
    for info in infos:
        stranger = _stranger(info)
        if stranger:
            clash = True
            message = f"{info.target} is wrapped already, by {stranger}: the patch goes over it"
            yield Finding("clash", info.core.full_name, PROBLEM, f"{message}; switch one of the two off")
    if infos and not clash:
        yield Finding("clash", "other patchers", OK, "no target is wrapped by anybody else")


def _stranger(info: PatchInfo) -> str:
    """The file, or the kind, of a function that is not of the package that owns the target; empty for none."""
    original: Any = info.original
    if info.core.effect or original is None:
        return ""
    if type(original).__module__.partition(".")[0] in ("wrapt", "wrapt_proxies"):
        return f"a {type(original).__name__} of wrapt around {_file(inspect.unwrap(original)) or 'it'}"
    file = _file(original)
    if not file or file.startswith(_OURS):
        return ""
    package = sys.modules.get(info.core.module.partition(".")[0])
    files = [getattr(module, "__file__", None) or "-" for module in (package, sys.modules.get("torch"))]
    roots = [os.path.dirname(file) for file in files]
    # Decorators of the standard library leave functions of their own.
    roots.append(sysconfig.get_path("stdlib"))
    outside = sysconfig.get_path("purelib")
    known = [os.path.realpath(root) for root in roots if root]
    if any(file.startswith(root + os.sep) for root in known[:-1]):
        return ""
    if file.startswith(known[-1] + os.sep) and not file.startswith(os.path.realpath(outside) + os.sep):
        return ""
    return file


def _file(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return os.path.realpath(code.co_filename) if code is not None and not code.co_filename.startswith("<") else ""


def captured(infos: list[PatchInfo]) -> Iterator[Finding]:
    """References to originals that no slot and no alias covers: whoever calls by them runs the original."""
    by_id = {id(info.original): info for info in infos if info.original is not None and not info.core.effect}
    if not by_id:
        return
    holders: dict[str, list[str]] = {}
    with contextlib.redirect_stderr(io.StringIO()), control.Scope(lambda: [info.core for info in infos]):
        # What still holds an original while all patches stand.
        for holder in gc.get_referrers(*[info.original for info in by_id.values()]):
            if isinstance(holder, FrameType):
                continue
            for info in _held(holder, by_id):
                place = _place(holder)
                if place:
                    holders.setdefault(info.core.full_name, []).append(place)
    for name, places in holders.items():
        shown = sorted(set(places))
        message = f"its original is held where no patch reaches it, and runs there unpatched: {len(shown)} places"
        yield Finding("captured", name, NOTE, message, tuple(shown[:10]))
    if not holders:
        yield Finding("captured", "references", OK, "no original is held where no patch reaches it")


def _held(holder: Any, by_id: dict[int, PatchInfo]) -> list[PatchInfo]:
    if isinstance(holder, dict):
        values = list(holder.values())
    elif isinstance(holder, (list, tuple, set, frozenset)):
        values = list(holder)
    elif isinstance(holder, CellType):
        values = [holder.cell_contents]
    else:
        values = [getattr(holder, name, None) for name in ("func", "__func__", "__wrapped__", "fget")]
    return [by_id[id(value)] for value in values if id(value) in by_id]


def _place(holder: Any) -> str:
    """Where a holder is, in words; empty when it is ours, or nobody calls by it."""
    if isinstance(holder, dict):
        owner = _owner(holder)
        if isinstance(owner, ModuleType):
            return "" if owner.__name__.startswith("yobx") else f"a name in {owner.__name__}"
        # What `functools.wraps` leaves on a function is for those who look behind it.
        if owner is None or isinstance(owner, FunctionType) or type(owner).__module__.startswith("yobx"):
            return ""
        return f"an attribute of {owner.__qualname__ if isinstance(owner, type) else f'{type(owner).__name__} {owner}'}"
    if isinstance(holder, CellType):
        for function in _functions_with(holder):
            if not _file(function).startswith(_OURS):
                return f"the closure of {function.__module__}.{function.__qualname__}"
        return ""
    if isinstance(holder, (staticmethod, classmethod, property)):
        return ""
    if hasattr(holder, "func") and type(holder).__name__ == "partial":
        return f"a functools.partial ({holder!r:.80})"
    return ""


def _owner(namespace: dict[Any, Any]) -> Any:
    for owner in gc.get_referrers(namespace):
        if getattr(owner, "__dict__", None) is namespace:
            return owner
    name = namespace.get("__name__")
    module = sys.modules.get(name) if isinstance(name, str) else None
    return module if module is not None and vars(module) is namespace else None


def _functions_with(cell: CellType) -> Iterator[FunctionType]:
    for closure in gc.get_referrers(cell):
        if isinstance(closure, tuple):
            for function in gc.get_referrers(closure):
                if isinstance(function, FunctionType) and function.__closure__ is closure:
                    yield function
