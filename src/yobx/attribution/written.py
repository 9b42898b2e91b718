"""``YOBX_PATCH_REPORT``: a report that grows with every export of a program that knows nothing of it."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yobx.attribution import data, involved, report
from yobx.autopatch import families, notices

if TYPE_CHECKING:
    from yobx.autopatch.activation import Activation
    from yobx.helpers.patch_helper import PatchInfo

SUFFIXES = {".txt": "raw", ".rst": "rst", ".html": "html", ".json": "json"}

_lock = threading.Lock()


class Growing:
    """The report of one process: at a path that no other process has, or for ``-`` as JSON on stderr at its end."""

    def __init__(self, wanted: str) -> None:
        self._format = SUFFIXES[Path(wanted).suffix] if wanted != "-" else "json"
        self.path = _claim(Path(wanted)) if wanted != "-" else None
        if self.path is None:
            atexit.register(lambda: print(self._text(), file=sys.stderr))
        self._programs: list[data.Program] = []
        self._infos: list[PatchInfo] = []

    def add(self, program: Any, entry: Activation, title: str) -> None:
        """Write the report anew, with one more program."""
        declared = (patch for family in families.known().values() for patch in family.patches.values())
        infos = [patch.info.seen_by(entry) for patch in declared]
        found = involved.involved(infos, program.graph)
        self._infos += [info for info, _ in found]
        self._programs.append(data.program(found, program.graph, f"{len(self._programs) + 1}: {title}"))
        if self.path is None:
            return
        # A reader, or a crash, never meets half a report.
        beside = self.path.with_name(f"{self.path.name}.{os.getpid()}.part")
        beside.write_text(self._text(), encoding="utf-8")
        beside.replace(self.path)
        notices.mention(f"report written to {self.path}")

    def _text(self) -> str:
        return report.text_of(data.report(self._programs, self._infos), self._format)


def _claim(path: Path) -> Path:
    """The path, or one with the process's number in its name when there is a file of another process."""
    for attempt in range(1000):
        number = f"{os.getpid()}" if attempt < 2 else f"{os.getpid()}-{attempt}"
        candidate = path if attempt == 0 else path.with_name(f"{path.stem}-{number}{path.suffix}")
        try:
            candidate.parent.mkdir(parents=True, exist_ok=True)
            with candidate.open("x"):
                return candidate
        except FileExistsError:
            continue
    raise FileExistsError(f"{path} and a thousand names beside it are taken")


_reports: dict[tuple[int, str], Growing] = {}


def add(wanted: str, result: Any, entry: Activation, title: str) -> None:
    """Add an exported program to this process's report; what goes wrong is said once, and breaks no export."""
    if not hasattr(result, "graph"):
        return
    try:
        with _lock:
            # A process that was forked from another has a report of its own.
            mine = (os.getpid(), wanted)
            if mine not in _reports:
                _reports[mine] = Growing(wanted)
            _reports[mine].add(result, entry, title)
    except Exception as error:
        notices.complain(f"no report in {wanted}: {type(error).__name__}: {error}", cause=error)
