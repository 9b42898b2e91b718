"""Copies of a model's own function with one passage replaced; declares no patch.

Where the same few lines stand in the middle of long functions of many models, a replacement of each of them would be
mostly a copy of transformers. So the copy is made from the source that is installed.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@functools.cache
def rewritten(
    original: Callable[..., Any], pattern: str, passage: str, helper: Callable[..., Any]
) -> Callable[..., Any]:
    """A copy of a function in which what ``pattern`` matches is replaced by ``passage``.

    Args:
        original: the function; decorators around it are left out of the copy.
        pattern: a regular expression that matches once in its source.
        passage: what is written instead, as in ``re.sub``.
        helper: a function that the passage calls by its name.

    Raises:
        RuntimeError: when the pattern does not match once: the installed model is written otherwise.
    """
    written = inspect.unwrap(original)
    source, count = re.subn(pattern, passage, textwrap.dedent(inspect.getsource(written)))
    if count != 1:
        where = f"{written.__module__}.{written.__qualname__}"
        raise RuntimeError(f"{where} has {count} passages like {pattern!r}, not one")
    tree = ast.parse(source)
    tree.body[0].decorator_list.clear()  # type: ignore[attr-defined]  # a function's source
    namespace = {**written.__globals__, helper.__name__: helper}
    exec(compile(tree, f"<{written.__qualname__}, rewritten>", "exec"), namespace)
    return namespace[written.__name__]
