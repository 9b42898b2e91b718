"""How a test tells a dispatcher from any other function."""

from __future__ import annotations

from typing import Any

from yobx.autopatch import decorators, dispatch, marks, scopes

FILES = {module.__file__ for module in (decorators, dispatch, marks, scopes)}


def is_dispatcher(function: Any) -> bool:
    """Whether a function is ours, one that chooses between an original and its replacements or opens a door."""
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    return code is not None and code.co_filename in FILES
