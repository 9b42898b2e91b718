"""What the commands share: names of patches, colours, exit codes."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from yobx.autopatch import families

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from yobx.helpers.patch_helper import PatchInfo

WELL, WRONG, MISUSED = 0, 1, 2

EXIT_CODES = "Exit codes: 0 all is well, 1 something is wrong, 2 a word that is not understood."


def chosen(names: Sequence[str]) -> list[PatchInfo]:
    """The patches of some families, or single ones by full or bare name; all of them when none is named.

    Raises:
        ValueError: for a name that is none.
    """
    known = families.known()
    words = [word for name in names for word in name.split(",")] or list(known)
    selection = families.Selection.parse([_full_name(word, known) for word in words])
    return [core.info for core in selection.patches()]


def _full_name(word: str, known: dict[str, Any]) -> str:
    if ":" in word or word.removeprefix("-") in known or word in ("all", "", "0"):
        return word
    sign, name = ("-", word[1:]) if word.startswith("-") else ("", word)
    found = [f"{sign}{family}:{name}" for family in known if name in known[family].load()]
    return found[0] if len(found) == 1 else word


def print_json(value: Any) -> None:
    """Print a value as JSON."""
    print(json.dumps(value, indent=2))


_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Paint:
    """Colours, on a terminal that wants them."""

    def __init__(self) -> None:
        asked = os.environ.get("FORCE_COLOR", "") not in ("", "0")
        plain = os.environ.get("NO_COLOR", "") != "" or os.environ.get("TERM") == "dumb"
        self.on = asked or (sys.stdout.isatty() and not plain)

    def __call__(self, text: str, colour: str) -> str:
        """A text in a colour, or as it is."""
        return f"\033[{_CODES[colour]}m{text}\033[0m" if self.on and text else text


def diff_lines(paint: Paint, lines: Iterable[str]) -> Iterable[str]:
    """The lines of a unified diff in their colours."""
    for line in lines:
        if line.startswith(("---", "+++")):
            yield paint(line, "bold")
        elif line.startswith("@@"):
            yield paint(line, "cyan")
        elif line.startswith("+"):
            yield paint(line, "green")
        elif line.startswith("-"):
            yield paint(line, "red")
        else:
            yield line
