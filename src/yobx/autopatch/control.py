"""Patches, or the originals, active in a thread for the length of a block or of a call."""

from __future__ import annotations

import functools
import importlib
from contextlib import ContextDecorator, ExitStack

from yobx.autopatch import activation, groups, notices, occupants

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType
    from typing import Any

    from yobx.autopatch.families import Selection
    from yobx.autopatch.patches import Patch

# Makes what a scope gives its user; set by the module that defines it.
make_details: Callable[[Sequence[Patch], activation.Activation | None], Any] | None = None


class Scope(ContextDecorator):
    """Patches, or the originals (``None``), active in this thread for the length of a ``with`` block or a call."""

    def __init__(self, wanted: Callable[[], Sequence[Patch] | activation.Choice] | None) -> None:
        self._wanted = wanted
        self._activation: activation.Activation | None = None
        self._group: groups.Group | None = None

    def __call__(self, func: Callable[..., Any]) -> Any:
        """The function, with the patches active while it runs.

        Raises:
            TypeError: for a generator or a coroutine function, whose call ends before its body begins.
        """
        # Not imported at interpreter start.
        import inspect

        kinds = (inspect.iscoroutinefunction, inspect.isgeneratorfunction, inspect.isasyncgenfunction)
        if any(kind(func) for kind in kinds):
            raise TypeError(
                f"{func.__qualname__} is a generator or a coroutine function: its call ends before its body begins. "
                "Open the scope inside it, in a `with` block that no `yield` or `await` leaves open"
            )
        return super().__call__(func)

    def _recreate_cm(self) -> Scope:
        return Scope(self._wanted)

    def __enter__(self) -> Any:
        if self._activation is not None:
            raise RuntimeError("this activation is open already: make another one to nest it")
        if self._wanted is None:
            self._activation = activation.Activation(None)
            activation.push(self._activation)
            return None
        group = groups.group_of(self._wanted())
        group.open()
        self._group = group
        try:
            occupants.prepare()
            self._activation = activation.Activation(group.choice)
            activation.push(self._activation)
            return details_of(group.choice.patches, self._activation)
        except BaseException:
            activation.discard(self._activation)
            self._activation = None
            self._close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        if self._activation is not None:
            activation.remove(self._activation)
            self._activation = None
        if self._group is not None:
            self._group.close()
            self._group = None


def bind(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, to be called in any thread with what is active in this one now."""
    state = activation.state
    behind = [activation.default.exporting] if state.doors else []
    choices = [*behind, *(entry.choice for entry in state.stack)]
    wanted = [None if choice is None else functools.partial(_given, choice) for choice in choices]

    @functools.wraps(function)
    def bound(*args: Any, **kwargs: Any) -> Any:
        with ExitStack() as stack:
            for asked in wanted:
                stack.enter_context(Scope(asked))
            return function(*args, **kwargs)

    return bound


def _given(choice: activation.Choice) -> activation.Choice:
    return choice


def scope_of(selection: Selection, more: Sequence[Patch] = ()) -> Scope:
    """A scope of what is selected, and of further patches that go over it."""
    missing = selection.absent()
    if missing:
        notices.complain(missing)
    return Scope(lambda: [*selection.patches(), *more] if more else selection.choice())


def details_of(chosen: Sequence[Patch], entry: activation.Activation | None) -> Any:
    """The ``PatchDetails`` of some patches; found by name, as the machine imports nothing of what is built on it."""
    if make_details is None:
        importlib.import_module("yobx.helpers.patch_helper")
    assert make_details is not None
    return make_details(chosen, entry)
