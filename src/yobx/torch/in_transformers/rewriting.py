"""Copies of a model's own function with a few passages replaced; declares no patch.

Where the same few lines stand in the middle of long functions of many models, a replacement of each of them would be
mostly a copy of transformers. So the copy is made from the source that is installed.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from typing import TYPE_CHECKING, Any, NamedTuple

from yobx.helpers.lazy import lazy

if TYPE_CHECKING:
    from collections.abc import Callable

torch: Any = lazy("torch")


class Passage(NamedTuple):
    """What is replaced in a function's source.

    Attributes:
        pattern: a regular expression.
        text: what is written instead, as in ``re.sub``.
        times: how often the pattern matches.
    """

    pattern: str
    text: str
    times: int = 1


def new_source(original: Callable[..., Any], passages: tuple[Passage, ...]) -> str:
    """The source of a function with some passages replaced.

    Raises:
        RuntimeError: when a pattern matches another number of times: the installed model is written otherwise.
    """
    source = textwrap.dedent(inspect.getsource(inspect.unwrap(original)))
    for passage in passages:
        source, count = re.subn(passage.pattern, passage.text, source)
        if count != passage.times:
            where = f"{original.__module__}.{original.__qualname__}"
            raise RuntimeError(f"{where} has {count} passages like {passage.pattern!r}, not {passage.times}")
    return source


@functools.cache
def rewritten(
    original: Callable[..., Any], passages: tuple[Passage, ...], helpers: tuple[Callable[..., Any], ...]
) -> Callable[..., Any]:
    """A copy of a function with some passages replaced; decorators around it are left out of the copy.

    Args:
        original: the function.
        passages: what is replaced in it.
        helpers: functions that the new passages call by their names.
    """
    written = inspect.unwrap(original)
    tree = ast.parse(new_source(original, passages))
    tree.body[0].decorator_list.clear()  # type: ignore[attr-defined]  # a function's source
    namespace = {**written.__globals__, **{helper.__name__: helper for helper in helpers}}
    exec(compile(tree, f"<{written.__qualname__}, rewritten>", "exec"), namespace)
    return namespace[written.__name__]


def of_any_length(*args: Any, **kwargs: Any) -> bool:
    """Whether a call is for states of any length: the first tensor has a symbolic size besides its batch."""
    states = next(value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor))
    return any(not isinstance(size, int) for size in states.shape[1:])


def some_padding(padding_len: Any) -> bool:
    """Whether there may be padding."""
    return not isinstance(padding_len, int) or padding_len > 0


def called(passages: tuple[Passage, ...], functions: tuple[Callable[..., Any], ...]) -> tuple[Callable[..., Any], ...]:
    """Those of some functions that passages call: the helpers of their rewriting."""
    return tuple(function for function in functions if any(f"{function.__name__}(" in text for _, text, _ in passages))


def rewriting(
    name: str,
    *passages: Passage,
    helpers: tuple[Callable[..., Any], ...],
    when: Callable[..., bool] = lambda *args, **kwargs: True,
) -> Callable[..., Any]:
    """A replacement, to be declared with ``around=True``, that runs a rewritten copy of the original.

    Args:
        name: its name.
        passages: what is replaced.
        helpers: functions that the new passages call by their names.
        when: called with the arguments of a call: whether the copy runs, or the original.
    """

    def replacement(original, *args, **kwargs):
        if not when(*args, **kwargs):
            return original(*args, **kwargs)
        return rewritten(original, passages, helpers)(*args, **kwargs)

    replacement.__name__ = replacement.__qualname__ = name
    # What `PatchInfo.make_diff` shows: the function that runs, rather than the one that writes it.
    vars(replacement).update(new_source=functools.partial(new_source, passages=passages), helpers=helpers)
    return replacement
