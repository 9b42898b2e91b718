"""The text of functions: what a replacement changes in its original, and which of its lines are its own."""

from __future__ import annotations

import ast
import difflib
import inspect
import textwrap
from typing import TYPE_CHECKING, Any

from yobx.autopatch import marks

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType

    from yobx.autopatch.patches import Patch


def source_of(function: Any) -> list[str] | None:
    """The lines of a function's source, from column 0; ``None`` where there is none (frozen, typed at a prompt)."""
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(function))).splitlines()
    except (OSError, TypeError):
        return None


def from_def(lines: list[str]) -> list[str]:
    """A function's text from its ``def`` on: what decorates it, ``@patch(…)`` or the original's, does not differ."""
    for index, line in enumerate(lines):
        if line.startswith(("def ", "async def ")):
            return lines[index:]
    return lines


def changed_lines(original: Callable[..., Any], replacement: Callable[..., Any]) -> set[int] | None:
    """The lines, numbered as in its file, of the replacement's statements that do not stand so in the original.

    ``None`` when one of the two has no source, or none that can be read by itself (a lambda in a larger statement).
    """
    old, new = source_of(original), source_of(replacement)
    if old is None or new is None:
        return None
    first = inspect.getsourcelines(inspect.unwrap(replacement))[1]
    body = from_def(new)
    offset = len(new) - len(body)
    matcher = difflib.SequenceMatcher(None, from_def(old), body, autojunk=False)
    kept = {offset + line for block in matcher.get_matching_blocks() for line in range(block.b, block.b + block.size)}
    changed = {line for line in range(len(new)) if line not in kept}
    try:
        parsed = ast.parse("\n".join(new))
    except SyntaxError:
        return None
    # A statement of several lines is known to the interpreter by one of them.
    for statement in ast.walk(parsed):
        if isinstance(statement, ast.stmt) and not hasattr(statement, "body"):
            lines = set(range(statement.lineno - 1, statement.end_lineno or statement.lineno))
            if lines & changed:
                changed |= lines
    return {first + line for line in changed}


_changed: dict[int, set[int] | None] = {}


def _is_own_line(patch: Patch, code: CodeType, line: int) -> bool:
    if patch.number not in _changed:
        original = patch.original
        _changed[patch.number] = None if original is None else changed_lines(original, patch.replacement)
    lines = _changed[patch.number]
    return lines is None or line in lines


marks.is_own_line = _is_own_line
