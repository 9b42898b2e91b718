"""What a patch is to those who write and read it: its declaration, its diff, its state."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from yobx.autopatch import activation, control, families, imports, occupants, versions
from yobx.autopatch.notices import PatchError
from yobx.autopatch.patches import INSTALLED, PENDING, Patch
from yobx.helpers import diffs
from yobx.helpers.patch_details import PatchDetails

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from yobx.autopatch.slots import Slot
    from yobx.helpers.reproducer import Reproducer

__all__ = ["PatchDetails", "PatchInfo", "effect", "patch"]


class PatchInfo:
    """One replacement of one function.

    Attributes:
        core: what the machine knows of it.
        patch: the replacement.
        why: the reason for it, in a sentence.
        see: an upstream report.
        obsolete: what would make it superfluous.
        reproducer: makes the smallest export that fails without it.
        group: patches that overlap share a group; each is needed only when the rest of it is off.
        depends_on: patches that are applied with this one.
    """

    def __init__(
        self,
        core: Patch,
        *,
        why: str = "",
        see: str = "",
        obsolete: str = "",
        reproducer: Callable[[], Reproducer] | None = None,
        group: str | None = None,
    ) -> None:
        self.core = core
        self.why = why
        self.see = see
        self.obsolete = obsolete
        self.reproducer = reproducer
        self.group = group
        self.depends_on: list[PatchInfo] = []
        self._scope: control.Scope | None = None
        self._entry: activation.Activation | None = None
        core.info = core.info or self

    @classmethod
    def make(
        cls, patch: Callable[..., Any], module_or_class: Any, method_or_function_name: str, family: str = ""
    ) -> PatchInfo:
        """A patch of a function of a module, or of a method of a class.

        Args:
            patch: the replacement; it takes what the original takes.
            module_or_class: the owner, or its dotted name, ``"torch._refs"`` or ``"package.module:Class"``. A module
                given by name is imported when the patch is applied with :meth:`do`.
            method_or_function_name: the attribute that is replaced.
            family: a label used in lists, diffs and reports.

        Raises:
            TypeError: when the replacement cannot be called, or cannot be called as the original is.
            AttributeError: when the owner has no such attribute.
            ValueError: when a dotted name is none.
        """
        from yobx.autopatch import signatures, slots

        name = method_or_function_name
        if not callable(patch):
            raise TypeError(f"the replacement of {name!r} is {patch!r}, which cannot be called; give a function")
        owner = None if isinstance(module_or_class, str) else module_or_class
        if owner is None:
            module, _, path = module_or_class.partition(":")
            target = f"{module}:{path}.{name}" if path else f"{module}:{name}"
        elif isinstance(owner, type):
            target = f"{owner.__module__}:{owner.__qualname__}.{name}"
        else:
            target = f"{getattr(owner, '__name__', repr(owner))}:{name}"
        core = Patch(target, patch, family=family, name=_plain_name(patch), owner=owner)
        if owner is not None:
            core.steps = [("attribute", name)]
            try:
                original = slots.unwrap(slots.find(owner, core.steps).get())[0]
            except slots.TargetError as error:
                message = f"cannot patch {target} ({versions.installed(core.module)}): {error}"
                kind = AttributeError if "has no" in message else TypeError
                raise kind(message) from None
            wrong = signatures.mismatch(core, original)
            if wrong is not None:
                raise TypeError(f"{wrong}")
        return cls(core)

    @property
    def name(self) -> str:
        """The replacement's name; for a declared patch, the name it is selected by."""
        return self.core.name

    @property
    def family(self) -> str:
        """The group it belongs to: ``torch``, ``transformers``, or any label."""
        return self.core.family

    @property
    def patch(self) -> Callable[..., Any]:
        """The replacement."""
        return self.core.replacement

    @property
    def original(self) -> Callable[..., Any] | None:
        """The function that is replaced; ``None`` when its module is not loaded or has no such function."""
        return self.core.original

    @property
    def target(self) -> str:
        """``module:path`` of what is replaced."""
        return self.core.target

    @property
    def versions(self) -> str | None:
        """The versions it is for, such as ``torch>=2.9,<2.14``; ``None`` for any."""
        return self.core.versions

    @property
    def state(self) -> str:
        """``pending``, ``installed``, ``skipped``, ``missing``, ``failed`` or ``removed``."""
        return self.core.state

    @property
    def reason(self) -> str:
        """Why it is in that state, in words."""
        package = self.core.module.partition(".")[0]
        if self.state == PENDING and not imports.installed(package):
            return f"{package} is not installed"
        return self.core.reason

    @property
    def runs(self) -> int:
        """How often the replacement ran, outside Dynamo: in the scope that gave this object, else in the process."""
        if self._entry is not None:
            return self._entry.runs.get(self.core.number, 0)
        return self.core.runs

    @property
    def refid(self) -> str:
        """The anchor of the patch in documents and marks: ``patch-FAMILY-QUALNAME`` with dashes for dots."""
        return self.core.refid

    def add_dependency(self, other: PatchInfo) -> None:
        """Have another patch applied whenever this one is, and shown in its diff."""
        if other not in self.depends_on:
            self.depends_on.append(other)

    def with_dependencies(self) -> list[PatchInfo]:
        """This patch after all those that it depends on, each once."""
        found: dict[int, PatchInfo] = {}

        def walk(info: PatchInfo) -> None:
            if info.core.number not in found:
                found[info.core.number] = info
                for other in info.depends_on:
                    walk(other)

        walk(self)
        return list(reversed(found.values()))

    def do(self) -> None:
        """Apply the patch in this thread until :meth:`undo`, together with those it depends on.

        Raises:
            PatchError: when it is applied already, or its target is missing or does not fit.
            ModuleNotFoundError: when its module cannot be imported.
        """
        if self._scope is not None:
            raise PatchError(f"patch {self.name!r} of {self.target} is applied already; call undo() first")
        wanted = self.with_dependencies()
        for info in wanted:
            if info.core.owner is None and not info.core.loaded():
                importlib.import_module(info.core.module)
        scope = control.Scope(lambda: [info.core for info in wanted])
        scope.__enter__()
        for info in wanted:
            if info.state != INSTALLED:
                scope.__exit__(None, None, None)
                raise PatchError(f"patch {info.name!r} of {info.target} was not applied: {info.state}: {info.reason}")
        self._scope = scope

    def undo(self) -> None:
        """Take the patch back; patches applied before or after it stay.

        Raises:
            PatchError: when it is not applied.
            RuntimeError: in another thread than the one that applied it.
        """
        if self._scope is None:
            raise PatchError(f"patch {self.name!r} of {self.target} is not applied; call do() first")
        self._scope.__exit__(None, None, None)
        self._scope = None

    def make_diff(self) -> str:
        """A unified diff from the original to the replacement, from the text of the functions that stand there."""
        return "\n".join("\n".join(diffs.lines_of(info)) for info in reversed(self.with_dependencies()))

    def format_diff(self, format: str = "raw") -> str:
        """The diff as plain text (``"raw"``), or as a reStructuredText section with an anchor (``"rst"``).

        Raises:
            ValueError: for another format.
        """
        if format == "raw":
            return self.make_diff()
        if format == "rst":
            return diffs.section(self)
        raise ValueError(f"format is {format!r}; it is one of 'raw', 'rst'")

    def data(self) -> dict[str, Any]:
        """What there is to know of it, in plain values."""
        return {
            "name": self.name,
            "family": self.family,
            "target": self.target,
            "versions": self.versions,
            "state": self.state,
            "reason": self.reason,
            "runs": self.runs,
            "why": self.why,
            "see": self.see,
            "obsolete": self.obsolete,
            "refid": self.refid,
            "depends_on": [other.name for other in self.depends_on],
        }

    def seen_by(self, entry: activation.Activation | None) -> PatchInfo:
        """The same patch, counting only what runs while one scope is open."""
        view = object.__new__(type(self))
        view.__dict__.update(self.__dict__)
        view._entry = entry
        return view

    def __repr__(self) -> str:
        return f"<PatchInfo {self.family}:{self.name} of {self.target}, {self.state}>"


def _plain_name(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    return str(name).rpartition("<locals>.")[2]


def patch(
    target: str,
    *,
    family: str,
    why: str,
    name: str | None = None,
    versions: str | None = None,
    see: str = "",
    obsolete: str = "",
    reproducer: Callable[[], Reproducer] | None = None,
    group: str | None = None,
    also: Sequence[str] = (),
    slots: Callable[[], Sequence[Slot]] | None = None,
    around: bool = False,
    effect: bool = False,
    decorator: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function as the replacement of ``target`` in a family.

    Args:
        target: ``module:path``; see :mod:`yobx.autopatch.slots`.
        family: the family that it joins.
        why: the reason, in a sentence.
        name: what users select it by; the function's name by default.
        versions: what it is for, such as ``torch>=2.9,<2.14``.
        see: an upstream report.
        obsolete: what would make it superfluous.
        reproducer: makes the smallest export that fails without it.
        group: a name shared by patches that overlap.
        also: further targets that hold the same function.
        slots: gives irregular places, when the target's module is loaded.
        around: the function takes the original as its first parameter.
        effect: the function takes the module ``target`` and is run once when that is loaded; see :func:`effect`.
        decorator: the target is a decorator and so is the function; what the target made, or makes later, is
            made by the function while the patch is active.

    Raises:
        ValueError: when the family has a patch of that name.
    """

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        core = Patch(
            target,
            function,
            family=family,
            name=name or _plain_name(function),
            versions=versions,
            also=also,
            find_slots=slots,
            around=around,
            effect=effect,
            decorator=decorator,
        )
        PatchInfo(core, why=why, see=see, obsolete=obsolete, reproducer=reproducer, group=group)
        families.declare(core)
        return function

    return declare


def effect(
    module: str, *, family: str, why: str, **declaration: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare the decorated function, which takes a module, as something to be done once when that module is loaded.

    For what cannot be switched per call, such as pytree registrations. It is never undone.
    """
    return patch(module, family=family, why=why, effect=True, **declaration)


def look_through(tables: Callable[[], Iterable[tuple[Any, Callable[[Any], Slot]]]]) -> None:
    """Have the values of mappings searched for patched functions, and replaced where they stand.

    Args:
        tables: gives each mapping that is there with what makes the slot of one of its keys.
    """
    occupants.aliases.add_tables(tables)
