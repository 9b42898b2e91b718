"""The families of patches: the built-in ones by name, those of other packages, and those registered by a program.

A family's declarations are read when they are first needed. They import neither torch nor transformers, so that a
family can be listed, selected from and made ready before its package is loaded.
"""

from __future__ import annotations

import functools
import importlib
import threading

from yobx.autopatch import activation, imports, notices

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from yobx.autopatch.patches import Patch

ENTRY_POINTS = "yobx.patches"


class Family:
    """A named group of patches.

    Attributes:
        source: the module whose import declares the patches; ``None`` for a family made by ``register``.
        package: the top-level package that the patches are for.
        targets: the top-level packages that their targets are in: before one of them loads, nothing needs to be
            declared. By default the package itself; without any, the declarations are read at once.
        origin: the distribution that the family comes with.
    """

    def __init__(
        self,
        name: str,
        source: str | None,
        package: str | None = None,
        targets: tuple[str, ...] | None = None,
        origin: str = "yobx",
    ) -> None:
        self.name = name
        self.source = source
        self.package = package
        self.targets = targets if targets is not None else (package,) if package is not None else ()
        self.origin = origin
        self.patches: dict[str, Patch] = {}
        self.declared = source is None
        self._lock = threading.RLock()

    def load(self) -> dict[str, Patch]:
        """Read the declarations, once; the patches by name."""
        if not self.declared:
            with self._lock:
                if not self.declared and self.source is not None:
                    importlib.import_module(self.source)
                    self.declared = True
        return self.patches

    def __repr__(self) -> str:
        return f"<Family {self.name}>"


_families: dict[str, Family] = {
    "torch": Family("torch", "yobx.torch.in_torch", "torch"),
    "transformers": Family("transformers", "yobx.torch.in_transformers", "transformers", ("torch", "transformers")),
}
BUILT_IN = tuple(_families)
_discovered = False


def _discover() -> None:
    """Add the families that installed distributions declare under the entry-point group ``yobx.patches``."""
    global _discovered
    if _discovered:
        return
    _discovered = True
    from importlib import metadata

    for entry in metadata.entry_points(group=ENTRY_POINTS):
        origin = entry.dist.name if entry.dist is not None else "unknown"
        if entry.name in _families:
            notices.complain(f"family {entry.name!r} of {origin} is ignored: there is one of that name already")
        else:
            _families[entry.name] = Family(entry.name, entry.value.partition(":")[0], origin=origin)


def known() -> dict[str, Family]:
    """Every family, those of other distributions included."""
    _discover()
    return dict(_families)


def get(name: str) -> Family:
    """A family by name.

    Raises:
        ValueError: lists the valid names.
    """
    if name not in _families:
        _discover()
    if name not in _families:
        raise ValueError(f"no family of patches is called {name!r}; there are: {', '.join(_families)}")
    return _families[name]


def declare(patch: Patch) -> None:
    """Add a patch to its family, which is made when there is none of that name.

    Raises:
        ValueError: when the family has another patch of that name.
    """
    family = _families.setdefault(patch.family, Family(patch.family, None, origin="this program"))
    other = family.patches.setdefault(patch.name, patch)
    if other is not patch:
        raise ValueError(f"family {patch.family!r} has a patch called {patch.name!r} already, on {other.target}")


class Selection:
    """What a user asked for: ``torch,transformers``, ``all``, ``torch:infer_size``, ``torch,-torch:maybe_broadcast``.

    Whole families are kept by name and read late; a single patch, or one left out, is looked up at once, so that a
    misspelt one is an error where it was written.
    """

    def __init__(self, families: Iterable[str] = (), only: Iterable[Any] = (), without: Iterable[Any] = ()) -> None:
        self.families = list(dict.fromkeys(families))
        self.only: list[Patch] = list(only)
        self.without: list[Patch] = list(without)

    @classmethod
    def parse(cls, words: Iterable[str]) -> Selection:
        """Read a selection.

        Raises:
            ValueError: names the unknown family or patch, and the valid ones.
        """
        selection = cls()
        for word in (part.strip() for text in words for part in text.split(",")):
            if word in ("", "0"):
                continue
            excluded = word.startswith("-")
            name, colon, patch_name = word.removeprefix("-").partition(":")
            names = list(BUILT_IN) if name == "all" and not excluded and not colon else [name]
            for family in map(get, names):
                patches = [_patch(family, patch_name)] if colon else []
                if excluded:
                    selection.without += patches or family.load().values()
                elif colon:
                    selection.only += patches
                elif family.name not in selection.families:
                    selection.families.append(family.name)
        return selection

    def patches(self, load: bool = True) -> tuple[Patch, ...]:
        """The patches asked for; with ``load=False`` only of families whose declarations have been read."""
        return self.choice(load).patches

    def choice(self, load: bool = True) -> activation.Choice:
        """The same, with what follows from it."""
        families = [_families[name] for name in self.families if load or _families[name].declared]
        everything = _together(tuple(families), tuple([len(family.load()) for family in families]))
        if not self.only and not self.without:
            return everything
        chosen = {patch.number: patch for patch in (*everything.patches, *self.only)}
        for patch in self.without:
            chosen.pop(patch.number, None)
        return activation.Choice(chosen.values())

    def absent(self) -> str | None:
        """What is asked for in vain: a family whose package is not installed, in words."""
        packages = [_families[name].package for name in self.families]
        missing = [package for package in packages if package is not None and not imports.installed(package)]
        return f"{' and '.join(missing)} asked for, but not installed: nothing to patch there" if missing else None

    def drop(self, names: Iterable[str]) -> None:
        """No longer ask for some families, nor for single patches of them."""
        self.families = [family for family in self.families if family not in names]
        self.only = [patch for patch in self.only if patch.family not in names]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Selection):
            return NotImplemented
        mine = (self.families, self.only, self.without)
        return mine == (other.families, other.only, other.without)

    __hash__ = None  # type: ignore[assignment]  # it can be changed

    def __bool__(self) -> bool:
        return bool(self.families or self.only)


@functools.lru_cache(8)
def _together(families: tuple[Family, ...], sizes: tuple[int, ...]) -> activation.Choice:
    """All patches of some families, as long as none of them gets another one: every scope asks for them."""
    return activation.Choice([patch for family in families for patch in family.patches.values()])


def _patch(family: Family, name: str) -> Patch:
    patches = family.load()
    if name not in patches:
        raise ValueError(f"family {family.name!r} has no patch called {name!r}; it has: {', '.join(patches)}")
    return patches[name]
