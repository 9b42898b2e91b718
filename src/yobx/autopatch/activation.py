"""Which patches are active in this thread: a stack per thread and a process-wide default beneath it.

Only integers are kept where a dispatcher looks, in a frozenset that is replaced and never changed, so that a call
costs one thread-local read when nothing is active and Dynamo can guard on what it read. The holder is a subclass of
``threading.local`` that sets its attributes in ``__init__``: a default on the class would be folded into a compiled
graph as a constant, and a ``ContextVar`` cannot be traced.
"""

from __future__ import annotations

import threading

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Iterable

    from yobx.autopatch.patches import Patch

NOTHING: frozenset[int] = frozenset()

# Active, and matching no patch: what `suspend` puts on top. Patch numbers start at 1.
ORIGINALS: frozenset[int] = frozenset({0})


class Choice:
    """Patches that are asked for together, and what follows from them: worked out once.

    Attributes:
        by_target: the patch that wins each target among them. A family's declarations for other versions stay beside
            it: one of them is installed.
        winners: the numbers of these.
    """

    __slots__ = ("by_target", "patches", "winners")

    def __init__(self, patches: Iterable[Patch]) -> None:
        self.patches = tuple(patches)
        self.by_target: dict[str, tuple[int, ...]] = {}
        last: dict[str, Patch] = {}
        for patch in self.patches:
            rival = last.get(patch.target)
            beside = rival is not None and patch.versions and rival.family == patch.family
            self.by_target[patch.target] = (*(self.by_target[patch.target] if beside else ()), patch.number)
            last[patch.target] = patch
        self.winners = frozenset(number for numbers in self.by_target.values() for number in numbers)


class Activation:
    """One entry of a thread's stack: patches that were asked for together, or the originals (``choice=None``).

    Attributes:
        runs: how often each patch's replacement ran in this thread while this entry was on the stack.
    """

    __slots__ = ("choice", "runs", "thread")

    def __init__(self, choice: Choice | None) -> None:
        self.choice = choice
        self.runs: dict[int, int] = {}
        self.thread = threading.get_ident()


class ThreadState(threading.local):
    """What one thread has activated. ``winners`` is all that a dispatcher reads."""

    def __init__(self) -> None:
        self.winners = NOTHING
        self.stack: list[Activation] = []
        self.doors: list[Activation] = []


class Default:
    """What ``enable`` or ``YOBX_PATCH`` asked for in every thread.

    Attributes:
        exporting: patches that an open export activates.
        always: patches that are active everywhere, at any time (``scope="always"``).
        winners: what a dispatcher reads when its own thread has nothing active.
    """

    def __init__(self) -> None:
        self.exporting = Choice(())
        self.always = Choice(())
        self.winners = NOTHING

    def replace(self, exporting: Iterable[Patch], always: Iterable[Patch]) -> None:
        """Set both groups; the calling thread's own state follows at once, other threads' at their next change."""
        self.exporting = Choice(exporting)
        self.always = Choice(always)
        self.winners = self.always.winners
        refresh()


state = ThreadState()
default = Default()


def refresh() -> None:
    """Work out anew what is active in this thread: the last one activated wins each target."""
    stack = state.stack
    if not stack and not state.doors:
        state.winners = NOTHING
        return
    layers = [default.always, default.exporting] if state.doors else [default.always]
    for activation in stack:
        if activation.choice is None:
            layers.clear()
        else:
            layers.append(activation.choice)
    layers = [choice for choice in layers if choice.winners]
    if len(layers) == 1:
        state.winners = layers[0].winners
        return
    chosen: dict[str, tuple[int, ...]] = {}
    for choice in layers:
        chosen.update(choice.by_target)
    state.winners = frozenset(number for numbers in chosen.values() for number in numbers) or ORIGINALS


def push(activation: Activation) -> None:
    """Put an entry on top of this thread's stack."""
    state.stack.append(activation)
    refresh()


def remove(activation: Activation) -> None:
    """Take an entry off this thread's stack, wherever it stands in it: scopes may end in any order.

    Raises:
        RuntimeError: in a thread that did not push the entry.
    """
    for index, entry in enumerate(state.stack):
        if entry is activation:
            del state.stack[index]
            refresh()
            return
    raise RuntimeError(
        f"an activation made in thread {activation.thread} was ended in thread {threading.get_ident()}; "
        "an activation belongs to the thread that made it: end it there"
    )


def open_door() -> Activation:
    """An export begins in this thread: what ``enable`` asked for is active, beneath any explicit activation."""
    activation = Activation(None)
    state.doors.append(activation)
    refresh()
    return activation


def close_door(activation: Activation) -> None:
    """The export that opened the door ended, however it ended."""
    state.doors.remove(activation)
    refresh()


def active_numbers() -> frozenset[int]:
    """The numbers of the patches that a call in this thread would run now."""
    return (state.winners or default.winners) - ORIGINALS


def count(number: int) -> None:
    """Note that a replacement ran, for every entry of this thread that is open now."""
    for activation in state.stack:
        activation.runs[number] = activation.runs.get(number, 0) + 1
