"""How a test tells a dispatcher from any other function, and what the machine still waits for."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from yobx.autopatch import decorators, dispatch, imports, marks, scopes

FILES = {module.__file__ for module in (decorators, dispatch, marks, scopes)}


def is_dispatcher(function: Any) -> bool:
    """Whether a function is ours, one that chooses between an original and its replacements or opens a door."""
    if isinstance(function, (staticmethod, classmethod)):
        function = function.__func__
    elif isinstance(function, property):
        function = function.fget
    return isinstance(function, FunctionType) and function.__code__.co_filename in FILES


def waited_for() -> list[str]:
    """The modules that the machine waits for; the catalogue's registrations of caches go on, enabled or not."""
    return [
        name
        for table in (imports._before, imports._after)
        for name, hooks in table.items()
        if any(hook.__module__.startswith("yobx.autopatch") for hook in hooks)
    ]
