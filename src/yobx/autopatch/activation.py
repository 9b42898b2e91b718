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


# How often it has turned out that a patch fits where it is to stand, or does not.
_findings = 0


class Choice:
    """Patches that are asked for together, and what follows from them, worked out anew when one is found not to fit."""

    __slots__ = ("_by_target", "_findings", "_winners", "numbers", "patches")

    def __init__(self, patches: Iterable[Patch]) -> None:
        self.patches = tuple(patches)
        self.numbers = frozenset([patch.number for patch in self.patches])
        self._by_target: dict[str, int] = {}
        self._winners = NOTHING
        self._findings = -1

    def _work_out(self) -> None:
        findings = _findings
        # One that is for other versions, or does not fit, takes nothing from another of its target.
        self._by_target = {patch.place: patch.number for patch in self.patches if patch.fits}
        self._winners = frozenset(self._by_target.values())
        # Last, as another thread may ask meanwhile.
        self._findings = findings

    @property
    def by_target(self) -> dict[str, int]:
        """The patch that wins each target among them: the last one that fits."""
        if self._findings != _findings:
            self._work_out()
        return self._by_target

    @property
    def winners(self) -> frozenset[int]:
        """The numbers of the patches that win a target."""
        if self._findings != _findings:
            self._work_out()
        return self._winners


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
    """What one thread has activated. ``winners`` is all that a dispatcher reads while nothing is.

    ``running`` holds the patches whose replacements are running, innermost last, and ``None`` where one of them calls
    what it replaces.
    """

    def __init__(self) -> None:
        self.winners = NOTHING
        self.stack: list[Activation] = []
        self.doors: list[Activation] = []
        self.running: list[Patch | None] = []


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
    chosen: dict[str, int] = {}
    for choice in layers:
        chosen.update(choice.by_target)
    state.winners = frozenset(chosen.values()) or ORIGINALS


def found_out() -> None:
    """A patch has turned out to fit or not; this thread follows at once, other threads at their next change."""
    global _findings
    _findings += 1
    default.winners = default.always.winners
    refresh()


def push(activation: Activation) -> None:
    """Put an entry on top of this thread's stack."""
    state.stack.append(activation)
    refresh()


def remove(activation: Activation) -> None:
    """Take an entry off this thread's stack, wherever it stands in it: scopes may end in any order.

    Raises:
        RuntimeError: in a thread that did not push the entry.
    """
    if discard(activation):
        return
    raise RuntimeError(
        f"an activation made in thread {activation.thread} was ended in thread {threading.get_ident()}; "
        "an activation belongs to the thread that made it: end it there"
    )


def discard(activation: Activation | None) -> bool:
    """Take an entry off this thread's stack, if it is there; whether it was."""
    for index, entry in enumerate(state.stack):
        if entry is activation:
            del state.stack[index]
            refresh()
            return True
    return False


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


def patch_of(number: int) -> Patch | None:
    """The patch of a number, among those that may be active in this thread."""
    choices = [default.always, default.exporting, *(entry.choice for entry in state.stack if entry.choice)]
    return next((patch for choice in choices for patch in choice.patches if patch.number == number), None)


def count(number: int) -> None:
    """Note that a replacement ran, for every entry and every export of this thread that is open now."""
    for entries in (state.stack, state.doors):
        for activation in entries:
            activation.runs[number] = activation.runs.get(number, 0) + 1
