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
    from collections.abc import Iterable, Sequence

    from yobx.autopatch.patches import Patch

NOTHING: frozenset[int] = frozenset()

# Active, and matching no patch: what `suspend` puts on top. Patch numbers start at 1.
ORIGINALS: frozenset[int] = frozenset({0})


class Activation:
    """One entry of a thread's stack: patches that were asked for together, or the originals (``patches=None``).

    Attributes:
        runs: how often each patch's replacement ran in this thread while this entry was on the stack.
    """

    __slots__ = ("patches", "runs", "thread")

    def __init__(self, patches: Sequence[Patch] | None) -> None:
        self.patches = patches
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
        self.exporting: tuple[Patch, ...] = ()
        self.always: tuple[Patch, ...] = ()
        self.winners = NOTHING

    def replace(self, exporting: Iterable[Patch], always: Iterable[Patch]) -> None:
        """Set both groups; the calling thread's own state follows at once, other threads' at their next change."""
        self.exporting = tuple(exporting)
        self.always = tuple(always)
        self.winners = _numbers(_by_target(self.always))
        refresh()


state = ThreadState()
default = Default()


def _by_target(patches: Iterable[Patch]) -> dict[str, list[Patch]]:
    """The last patch of each target. A family's declarations for other versions stay beside it: one is installed."""
    chosen: dict[str, list[Patch]] = {}
    for patch in patches:
        rivals = chosen.get(patch.target)
        if rivals and patch.versions and rivals[-1].family == patch.family:
            rivals.append(patch)
        else:
            chosen[patch.target] = [patch]
    return chosen


def _numbers(chosen: dict[str, list[Patch]]) -> frozenset[int]:
    return frozenset(patch.number for rivals in chosen.values() for patch in rivals)


def refresh() -> None:
    """Work out anew what is active in this thread: the last one activated wins each target."""
    if not state.stack and not state.doors:
        state.winners = NOTHING
        return
    chosen = _by_target(default.always)
    if state.doors:
        chosen.update(_by_target(default.exporting))
    for activation in state.stack:
        if activation.patches is None:
            chosen.clear()
        else:
            chosen.update(_by_target(activation.patches))
    state.winners = _numbers(chosen) or ORIGINALS


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
