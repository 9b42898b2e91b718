"""How a test tells a dispatcher from any other function."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from yobx.autopatch import decorators, dispatch, marks, scopes

FILES = {module.__file__ for module in (decorators, dispatch, marks, scopes)}


def is_dispatcher(function: Any) -> bool:
    """Whether a function is ours, one that chooses between an original and its replacements or opens a door."""
    if isinstance(function, (staticmethod, classmethod)):
        function = function.__func__
    elif isinstance(function, property):
        function = function.fget
    return isinstance(function, FunctionType) and function.__code__.co_filename in FILES
