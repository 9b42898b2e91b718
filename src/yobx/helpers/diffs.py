"""What a patch changes, from the text of the original and of what runs instead."""

from __future__ import annotations

import difflib
import importlib
import re
import textwrap
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from yobx.autopatch import versions
from yobx.helpers.sources import from_def, source_of

if TYPE_CHECKING:
    from yobx.helpers.patch_helper import PatchInfo


def lines_of(info: PatchInfo) -> list[str]:
    """The lines of a unified diff of one patch, without those that it depends on; else why there is none."""
    core = info.core
    if core.effect:
        return [f"+++ {info.name}: run once when {core.module} is loaded", *(source_of(info.patch) or [])]
    if not core.loaded():
        # The text of a function that is not loaded is not known; an optional package may not be there at all.
        with suppress(ImportError):
            importlib.import_module(core.module)
    original = info.original
    title = (f"{info.target} (original)", f"{info.family}:{info.name} (replacement)")
    if original is None:
        return [
            f"--- {title[0]}",
            f"+++ {title[1]}",
            f"no original to show: it is not in {core.module} as it is installed here",
        ]
    old, new = source_of(original), _new_source(info, original)
    if old is None or new is None:
        which = "original" if old is None else "replacement"
        shown = [f"+{line}" for line in from_def(new or [])]
        return [f"--- {title[0]}", f"+++ {title[1]}", f"no source to show: the {which} has none", *shown]
    return list(difflib.unified_diff(from_def(old), from_def(new), *title, lineterm=""))


def _new_source(info: PatchInfo, original: Any) -> list[str] | None:
    """The text that runs instead of the original, be it the replacement's or what the replacement makes of it."""
    write = getattr(info.patch, "new_source", None)
    # An original of other versions than it is for need not have the passages that it replaces.
    if write is None or source_of(original) is None or versions.conflict(info.versions) is not None:
        return source_of(info.patch)
    lines = write(original).splitlines()
    for helper in getattr(info.patch, "helpers", ()):
        lines += ["", "", *(source_of(helper) or [])]
    return lines


def section(info: PatchInfo) -> str:
    """A reStructuredText section with an anchor: why there is a patch, and its diff."""
    title = f"{info.family}: {info.name}"
    facts = [
        info.why,
        f"See {info.see}." if info.see else "",
        f"Obsolete {info.obsolete}." if info.obsolete else "",
    ]
    return "\n".join(
        [
            f".. _{info.refid}:",
            "",
            title,
            "=" * len(title),
            "",
            *(line for fact in facts if fact for line in (_escaped(fact), "")),
            ".. code-block:: diff",
            "",
            textwrap.indent(info.make_diff(), "    "),
            "",
        ]
    )


def _escaped(text: str) -> str:
    """A sentence without meaning for reStructuredText: ``**kwargs`` would begin a strong emphasis."""
    return re.sub(r"([*`|\\]|\b_)", r"\\\1", text)
