"""The function that stands at a patched place and picks, call by call, the original or a replacement.

It is a plain function and no proxy object: strict export looks through a ``wrapt.FunctionWrapper`` and runs what is
behind it. While Dynamo traces through it, it only reads: a count or a push there would be guarded on, and every call
of the compiled code would compile it again.
"""

from __future__ import annotations

import functools
import sys
import weakref
from contextlib import suppress
from types import BuiltinFunctionType

from yobx.autopatch import activation

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType
    from typing import Any

    from yobx.autopatch.patches import Patch

state = activation.state
default = activation.default


def _never() -> bool:
    return False


# `torch.compiler.is_dynamo_compiling` from the moment torch is there; Dynamo replaces a call of it by True.
tracing: Callable[[], bool] = _never


def bind_torch() -> None:
    """Learn from torch, if it is loaded, how to tell that Dynamo is tracing."""
    global tracing
    compiler = sys.modules.get("torch.compiler")
    if tracing is _never and compiler is not None:
        tracing = getattr(compiler, "is_dynamo_compiling", _never)
    _name_operators()


def torch_is_bound() -> bool:
    """Whether it is known how to tell that."""
    return tracing is not _never


def ran(patch: Patch) -> None:
    """Count a run of a replacement, for the process and for the open scopes of this thread."""
    patch.runs += 1
    activation.count(patch.number)


def _explained(error: Exception) -> bool:
    """Whether it is known already where an error comes from; from now on it is."""
    known = getattr(error, "yobx_explained", False)
    with suppress(AttributeError):  # a class with slots has no place for it: the next one up explains it again
        error.yobx_explained = True  # type: ignore[attr-defined]  # our own mark on an exception of any class
    return known


def _explain(error: Exception, patch: Patch) -> None:
    """Let the traceback of an error that a replacement raised name the patch, and what switches it off.

    Not when the original raised that it calls through to. The message stays what it was.
    """
    if not _explained(error) and hasattr(error, "add_note"):
        error.add_note(
            f"raised while the patch {patch.full_name} ran in place of {patch.target}; "
            f"YOBX_PATCH=…,-{patch.full_name} switches it off"
        )


def body_of(patch: Patch, original: Callable[..., Any]) -> Callable[..., Any]:
    """The function to run for a patch at a place where ``original`` stood."""
    replacement = patch.replacement
    if not patch.around:
        return replacement

    behind = through(original)

    def around(*args: Any, **kwargs: Any) -> Any:
        return replacement(behind, *args, **kwargs)

    return around


def through(original: Callable[..., Any]) -> Callable[..., Any]:
    """What a replacement gets to call its original by: what that does is not the replacement's doing."""

    def call_through(*args: Any, **kwargs: Any) -> Any:
        if tracing():
            return original(*args, **kwargs)
        running = state.running
        running.append(None)
        try:
            return original(*args, **kwargs)
        except Exception as error:
            _explained(error)
            raise
        finally:
            running.pop()

    take_names(call_through, original)
    return call_through


def take_names(function: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Let a function pass for the one it stands for.

    Attributes that were set on the original can be read from it, except for Dynamo's private marks
    (``_torchdynamo_orig_callable``), with which a compiled target would run the original while a patch is active
    (pytorch/pytorch#172732).
    """
    functools.update_wrapper(function, original, updated=())
    attributes = dict(getattr(original, "__dict__", ()))
    # The methods of `functools.lru_cache`, which is no Python function.
    methods = ("cache_info", "cache_clear")
    attributes.update((name, getattr(original, name)) for name in methods if hasattr(original, name))
    for name, value in attributes.items():
        if not name.startswith("_torchdynamo") and name != "__wrapped__":
            setattr(function, name, value)


# Dispatchers in place of C++ operators, with their originals, made before torch was there as a whole.
_waiting: list[tuple[weakref.ref[Any], Any]] = []


def _show_torchscript(dispatcher: Callable[..., Any], original: Callable[..., Any]) -> None:
    """Have ``torch.jit.script`` take the original wherever it meets the function that stands for it.

    It compiles the source of a Python function, and knows the operators written in C++ by their identity.
    """
    if isinstance(original, BuiltinFunctionType):
        _waiting.append((weakref.ref(dispatcher), original))
        if torch_is_bound():
            _name_operators()
    else:
        dispatcher.__prepare_scriptable__ = lambda: original  # type: ignore[attr-defined]  # TorchScript's own hook


def _name_operators() -> None:
    """Enter the dispatchers in place of C++ operators into TorchScript's table of these, for as long as they live."""
    table = getattr(sys.modules.get("torch.jit._builtins"), "_builtin_table", None)
    while table and _waiting:
        reference, original = _waiting.pop()
        dispatcher, operator = reference(), table.get(id(original))
        if dispatcher is not None and operator is not None:
            table[id(dispatcher)] = operator
            weakref.finalize(dispatcher, table.pop, id(dispatcher), None)


def make_dispatcher(original: Callable[..., Any]) -> tuple[Callable[..., Any], list[tuple[int, Any, Any]]]:
    """A function that stands for ``original``, and the list of ``(number, body, patch)`` it chooses from.

    The list is empty at first; whoever comes first in it wins when two of its patches are active at once.
    """
    entries: list[tuple[int, Any, Any]] = []

    def dispatcher(*args: Any, **kwargs: Any) -> Any:
        winners = state.winners or default.winners
        if winners:
            # A copy, as another thread may take an entry out meanwhile and move those behind it.
            for number, body, patch in tuple(entries):
                if number in winners:
                    if tracing():
                        return body(*args, **kwargs)
                    ran(patch)
                    running = state.running
                    depth = len(running)
                    running.append(patch)
                    try:
                        return body(*args, **kwargs)
                    except Exception as error:
                        _explain(error, patch)
                        raise
                    finally:
                        del running[depth:]
        return original(*args, **kwargs)

    take_names(dispatcher, original)
    _show_torchscript(dispatcher, original)
    return dispatcher, entries


def _code_of(maker: Callable[..., Any], name: str) -> CodeType:
    return next(const for const in maker.__code__.co_consts if getattr(const, "co_name", None) == name)


# By which a frame is known that Dynamo traces.
DISPATCHER = _code_of(make_dispatcher, "dispatcher")
AROUND = _code_of(body_of, "around")
THROUGH = _code_of(through, "call_through")
