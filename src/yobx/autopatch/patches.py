"""A patch as the machine sees it: a target, a replacement, a range of versions, and who wants it installed."""

from __future__ import annotations

import itertools
import sys

from yobx.autopatch import activation, decorators, dispatch, notices, occupants, slots
from yobx.autopatch.occupants import lock

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType
    from typing import Any

PENDING = "pending"
INSTALLED = "installed"
SKIPPED = "skipped"
MISSING = "missing"
FAILED = "failed"
REMOVED = "removed"
UNFIT = (SKIPPED, MISSING, FAILED)

_numbers = itertools.count(1)
_changes = 0


def changes() -> int:
    """How often a patch has come to stand somewhere, or left: what is remembered of places holds between changes."""
    return _changes


class Patch:
    """One replacement of one function, wherever that function is held.

    Attributes:
        target: ``module:path`` of the function that is replaced.
        also: further targets that hold the same function and that no scan of module globals finds.
        find_slots: for irregular places; called once the module is loaded.
        around: the replacement takes the original as its first parameter.
        decorator: the target is a decorator, and the replacement one that decorates the same functions.
        effect: the replacement is run once with the module when it is first wanted, and never undone.
        state: ``pending`` (the module is not loaded), ``installed``, ``skipped`` (installed versions out of range),
            ``missing`` (the target is not there), ``failed``, or ``removed`` (nobody wants it now).
        reason: the state in words.
        runs: how often the replacement ran in this process, outside Dynamo.
        info: what the user sees of it; the machine passes it through.
        codes: the code objects of the replacement, once they are known.
    """

    def __init__(
        self,
        target: str,
        replacement: Callable[..., Any],
        *,
        family: str,
        name: str,
        owner: Any = None,
        versions: str | None = None,
        also: Sequence[str] = (),
        find_slots: Callable[[], Sequence[slots.Slot]] | None = None,
        around: bool = False,
        effect: bool = False,
        decorator: bool = False,
    ) -> None:
        self.number = next(_numbers)
        self.target = target
        self.module, self.steps = (target, []) if effect or find_slots else slots.split_target(target)
        self.module = self.module.partition(":")[0]
        self.replacement = replacement
        self.family = family
        self.name = name
        self.owner = owner
        self.versions = versions
        self.also = tuple(also)
        self.find_slots = find_slots
        self.around = around
        self.effect = effect
        self.decorator = decorator
        # What only one of the active patches can have. Effects of a module are all made.
        self.place = self.full_name if effect else target
        self.state = REMOVED
        self.reason = "not asked for"
        self.runs = 0
        self.users = 0
        self.info: Any = None
        self._places: list[occupants.Occupant] = []
        self._known: list[tuple[slots.Slot, occupants.Occupant, Callable[..., Any]]] = []
        self._names: list[tuple[Any, str, str]] = []
        self._life: tuple[Any, Any] = (None, None)
        self._stood = ""
        self._claimed = 0
        self._done = False
        self.codes: frozenset[CodeType] | None = None

    @property
    def verbatim(self) -> bool:
        """Whether the replacement is the original's text with changes, rather than something around it."""
        return not (self.around or self.decorator or self.effect)

    @property
    def refid(self) -> str:
        """The anchor of the patch in documents and marks: ``patch-FAMILY-QUALNAME`` with dashes for dots."""
        name = getattr(self.replacement, "__qualname__", None) or type(self.replacement).__qualname__
        return f"patch-{self.family}-{name.rpartition('<locals>.')[2]}".replace(".", "-")

    @property
    def fits(self) -> bool:
        """Whether it can stand at its target, as far as is known."""
        return self.state not in UNFIT

    @property
    def full_name(self) -> str:
        """``family:name``, as written in ``YOBX_PATCH``."""
        return f"{self.family}:{self.name}"

    @property
    def original(self) -> Callable[..., Any] | None:
        """The function that stands, or stood, at the target; ``None`` when its module is not loaded or lacks it."""
        if self._known:
            return self._known[0][1].original
        if not self.loaded():
            return None
        try:
            return slots.unwrap(occupants.standing(self._slots()[0]))[0]
        except slots.TargetError:
            return None

    def loaded(self) -> bool:
        """Whether the module that owns the target has been loaded."""
        return self.owner is not None or self.module in sys.modules

    def _slots(self) -> list[slots.Slot]:
        if self.find_slots is not None:
            return list(self.find_slots())
        module = self.owner if self.owner is not None else sys.modules[self.module]
        places = [slots.find(module, self.steps)]
        for target in self.also:
            name, steps = slots.split_target(target)
            if name in sys.modules:
                places.append(slots.find(sys.modules[name], steps))
        return places

    def wait(self) -> None:
        """The module that owns the target is not loaded, or not to its end."""
        self.state, self.reason = PENDING, f"{self.module} is not loaded"

    def install(self, again: bool = False) -> None:
        """Put the replacement at all its places, or at none. The outcome is in ``state`` and ``reason``.

        ``again``: the module has just run, perhaps anew, and what was known of its places may be of its former life.
        """
        if again and self._places:
            with lock:
                # Names that were taken from the dispatcher are given back with it.
                occupants.aliases.update()
                self.vacate()
        elif not again:
            with lock:
                if self.state == SKIPPED or self.stand_again():
                    return
        from yobx.autopatch import signatures, versions

        conflict = versions.conflict(self.versions)
        if conflict is not None:
            self._settle(SKIPPED, f"{conflict}")
            return
        if self.effect:
            if not self._done:
                self.replacement(sys.modules[self.module])
                self._done = True
            self._settle(INSTALLED, f"made in {self.module}, stays for the process")
            return
        try:
            places = self._slots()
            originals = [slots.unwrap(occupants.standing(place))[0] for place in places]
        except slots.TargetError as error:
            self._settle(MISSING, f"{error}")
            return
        wrong = next(filter(None, (signatures.mismatch(self, original) for original in originals)), None)
        if wrong is not None:
            self._settle(FAILED, f"{wrong}")
            return
        with lock:
            if not self.users:
                return
            # Another thread may have done it meanwhile, and be running the replacement now.
            if not self._places:
                self._claim(places)
            self._stood = f"stands in {len(places)} place{'s' if len(places) > 1 else ''}"
            self._note(INSTALLED, self._stood)
        self._say()

    def _claim(self, places: list[slots.Slot]) -> None:
        make = decorators.Decorator if self.decorator else occupants.Occupant
        # A patch that comes back runs the same function: what Dynamo compiled for it stays valid.
        bodies = {place: body for _, place, body in self._known}
        claimed = [(slot, occupants.claim(slot, make)) for slot in places]
        known = [(slot, place, bodies.get(place) or dispatch.body_of(self, place.original)) for slot, place in claimed]
        self._stand(known)
        self._known = known
        name = getattr(self.replacement, "__name__", self.name)
        self._names = [
            (place.dispatcher, name, getattr(place.original, "__name__", place.dispatcher.__name__))
            for place in self._places
        ]
        module = sys.modules.get(self.module)
        self._life = (module, getattr(module, "__spec__", None))
        for occupant in self._places:
            occupants.aliases.track(occupant)

    def _stand(self, known: Sequence[tuple[slots.Slot, occupants.Occupant, Callable[..., Any]]]) -> None:
        """Enter at every place, or at none."""
        global _changes
        _changes += 1
        try:
            for _, place, body in known:
                self._places.append(place)
                place.enter(self, body)
        except BaseException:
            self.vacate()
            raise

    def stand_again(self) -> bool:
        """Stand again where the patch stood before, when nothing has changed there; whether it stands.

        The caller holds the lock: a scope asks for many at once.
        """
        if self._places:
            return True
        if not self._known or not self.users or self.state in UNFIT:
            return False
        # Imported anew or reloaded, the module's classes and tables are others.
        module, spec = self._life
        if self.owner is None and (
            sys.modules.get(self.module) is not module or getattr(module, "__spec__", None) is not spec
        ):
            return False
        claimed = occupants.claimed()
        for slot, place, _ in self._known:
            if not (place.unchanged(slot) if claimed == self._claimed else occupants.stands_for(slot, place)):
                return False
        self._claimed = claimed
        self._stand(self._known)
        self.state, self.reason = INSTALLED, self._stood
        return True

    def vacate(self) -> None:
        """Take the replacement out of every place where it stands."""
        global _changes
        if not self._places:
            return
        with lock:
            _changes += 1
            places, self._places = self._places, []
            wrong: BaseException | None = None
            for place in reversed(places):
                # Whatever goes wrong at one place, the others are given back.
                try:
                    place.drop(self)
                except BaseException as error:
                    wrong = wrong or error
            if wrong is not None:
                raise wrong

    def remove(self) -> None:
        """Nobody wants the patch any more: the original stands again, except for an effect."""
        if self._places:
            self.vacate()
        if self.state in (INSTALLED, PENDING) and not self.effect:
            self.state, self.reason = REMOVED, "the last scope that wanted it has ended"

    def names(self) -> list[tuple[Any, str, str]]:
        """The dispatchers, each with the replacement's name and the original's."""
        return self._names if self._places else []

    def fail(self, error: BaseException) -> None:
        """Note that installing raised; nothing of the patch stands anywhere."""
        self._settle(FAILED, " ".join(f"{type(error).__name__}: {error}".split()), cause=error)

    def _settle(self, state: str, reason: str, cause: BaseException | None = None) -> None:
        self._note(state, reason)
        self._say(cause)

    def _note(self, state: str, reason: str) -> None:
        fitted = self.fits
        self.state, self.reason = state, reason
        if fitted != self.fits:
            activation.found_out()

    def _say(self, cause: BaseException | None = None) -> None:
        from yobx.autopatch import versions

        text = f"{self.full_name} {self.state}: {self.target} ({versions.installed(self.module)}): {self.reason}"
        if self.state in (MISSING, FAILED):
            notices.complain(f"{text}; switch it off with YOBX_PATCH=…,-{self.full_name}", cause=cause)
        else:
            notices.mention(text)

    def __repr__(self) -> str:
        return f"<Patch {self.full_name} {self.state}: {self.target}>"
