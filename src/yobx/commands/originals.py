"""The originals that each patch was written for: by version, so that a change of one is noticed and shown.

``originals.json`` holds, for every patch, the fingerprint of its original by version of the package, and for every
fingerprint a digest of each line: enough to tell which lines of an installed original are new, without a copy of it.
``python -m yobx.commands.originals`` adds those of the installed versions to it.
"""

from __future__ import annotations

import difflib
import hashlib
import importlib
import json
import sys
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yobx.autopatch import versions
from yobx.helpers.sources import source_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yobx.helpers.patch_helper import PatchInfo

FILE = "originals.json"


def fingerprint(lines: Iterable[str]) -> str:
    """A short name for a text, whatever its line ends and trailing blanks."""
    text = "\n".join(line.rstrip() for line in lines)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


DIGITS = 6


def digests(lines: Iterable[str]) -> list[str]:
    """A short digest of each line."""
    return [hashlib.sha256(line.rstrip().encode()).hexdigest()[:DIGITS] for line in lines]


def release(info: PatchInfo) -> str:
    """The installed release of the package that owns the target; empty when there is none."""
    found = versions.installed_version(info.core.module.partition(".")[0])
    return versions.release(found) if found else ""


@dataclass
class Known:
    """What is recorded: the digests of an original's lines, one after the other, by its fingerprint."""

    lines: dict[str, str] = field(default_factory=dict)
    patches: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def read(cls) -> Known:
        """The record that is shipped; an empty one when it is not there."""
        file = resources.files("yobx.commands").joinpath(FILE)
        if not file.is_file():
            return cls()
        return cls(**json.loads(file.read_text(encoding="utf-8")))

    def add(self, info: PatchInfo) -> bool:
        """Record the installed original of a patch; whether it has a source."""
        lines = original_of(info)
        if lines is None:
            return False
        name = fingerprint(lines)
        self.lines[name] = "".join(digests(lines))
        self.patches.setdefault(info.core.full_name, {})[release(info)] = name
        return True

    def last(self, full_name: str) -> tuple[str, list[str]] | None:
        """The newest version known for a patch, with the digests of its original's lines."""
        known = self.patches.get(full_name)
        if not known:
            return None
        newest = max(known, key=_in_order)
        return newest, self.digests_of(known[newest])

    def digests_of(self, name: str) -> list[str]:
        """The digests of the lines of the original with a fingerprint."""
        joined = self.lines[name]
        return [joined[start : start + DIGITS] for start in range(0, len(joined), DIGITS)]

    def prune(self) -> None:
        """Forget the originals that no patch names."""
        used = {name for known in self.patches.values() for name in known.values()}
        self.lines = {name: self.lines[name] for name in sorted(used)}


def _in_order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def original_of(info: PatchInfo) -> list[str] | None:
    """The text of the function that a patch replaces; ``None`` for one without, or no Python of its package."""
    original = info.original
    if info.core.effect or original is None or str(getattr(original, "__module__", "")).startswith("yobx."):
        return None
    return source_of(original)


@dataclass(frozen=True)
class Verdict:
    """How an installed original compares with what is known.

    Attributes:
        kind: ``"known"``; ``"unverified"``: this version is not recorded, but the text is that of another;
            ``"changed"``: it differs from the last known text of another version; ``"edited"``: it differs from what
            this very version had; ``"sourceless"``; ``"unrecorded"``: nothing is known of the patch.
    """

    kind: str
    message: str
    diff: tuple[str, ...] = ()


def compare(info: PatchInfo, known: Known) -> Verdict:
    """Compare the original that is installed with the ones that are known."""
    lines = original_of(info)
    if lines is None:
        return Verdict("sourceless", "its original has no Python source to compare")
    here, name = release(info), info.core.full_name
    package = info.core.module.partition(".")[0]
    record = known.patches.get(name, {})
    if record.get(here) == fingerprint(lines):
        return Verdict("known", f"its original is that of {package} {here}")
    last = known.last(name)
    if last is None:
        return Verdict("unrecorded", "not yet verified: no original is recorded for it")
    if here in record:
        released = known.digests_of(record[here])
        diff = _diff(released, lines, f"{package} {here}, as released", "installed")
        where = ", ".join(_changed(released, lines, info))
        return Verdict("edited", f"its original was edited by hand: {where}", tuple(diff))
    if fingerprint(lines) in record.values():
        return Verdict("unverified", f"not yet verified with {package} {here}, whose original is that of {last[0]}")
    diff = _diff(last[1], lines, f"{package} {last[0]}, the last known", f"{package} {here}, installed")
    message = f"not yet verified: its original changed between {package} {last[0]} and {here}"
    return Verdict("changed", message, tuple(diff))


def _diff(old: list[str], new: list[str], before: str, after: str) -> list[str]:
    """A unified diff from digests to lines: what was removed is counted, its text is not known."""
    shown = [f"--- {before}", f"+++ {after}"]
    matcher = difflib.SequenceMatcher(None, old, digests(new), autojunk=False)
    for group in matcher.get_grouped_opcodes(2):
        first, last = group[0], group[-1]
        shown.append(f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@")
        for kind, start, end, new_start, new_end in group:
            if kind in ("replace", "delete"):
                shown.append(f"-({end - start} line{'s' if end - start > 1 else ''} of the known original)")
            sign = " " if kind == "equal" else "+"
            shown += [f"{sign}{line}" for line in new[new_start:new_end]]
    return shown


def _changed(old: list[str], new: list[str], info: PatchInfo) -> Iterable[str]:
    """Where the installed text differs, as lines of its file."""
    import inspect

    original: Any = inspect.unwrap(info.original) if info.original else None
    file = Path(inspect.getsourcefile(original) or "?").name
    first = inspect.getsourcelines(original)[1]
    for kind, _, _, start, end in difflib.SequenceMatcher(None, old, digests(new), autojunk=False).get_opcodes():
        if kind != "equal":
            last = max(start, end - 1)
            yield f"{file}:{first + start}" + (f"-{first + last}" if last > start else "")


def record() -> int:
    """Add the originals of the installed versions to the file in the source tree."""
    from yobx.commands.words import chosen

    file = Path(__file__).with_name(FILE)
    known = Known.read()
    recorded = 0
    declared = {info.core.full_name for info in chosen([])}
    known.patches = {name: by_version for name, by_version in known.patches.items() if name in declared}
    for info in chosen([]):
        if versions.conflict(info.versions) is not None:
            continue
        try:
            importlib.import_module(info.core.module)
        except ImportError:
            continue
        recorded += known.add(info)
    known.prune()
    patches = {}
    for name, by_version in sorted(known.patches.items()):
        patches[name] = dict(sorted(by_version.items(), key=lambda one: _in_order(one[0])))
    file.write_text(json.dumps({"patches": patches, "lines": known.lines}, indent=1) + "\n", encoding="utf-8")
    print(f"{recorded} originals recorded in {file}")
    return 0


if __name__ == "__main__":
    sys.exit(record())
