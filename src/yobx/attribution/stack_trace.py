"""Patches found in a graph by its stack traces: for graphs that were traced by others.

A node is a patch's when one of the frames of ``node.meta["stack_trace"]`` lies in the source lines of its
replacement. It misses a patch that only shaped a node.
"""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yobx.helpers.patch_helper import PatchInfo


def _lines_of(info: PatchInfo) -> tuple[str, range] | None:
    try:
        lines, first = inspect.getsourcelines(info.patch)
        file = inspect.getsourcefile(info.patch)
    except (OSError, TypeError):
        return None
    return (file, range(first, first + len(lines))) if file else None


def involved(infos: Iterable[PatchInfo], graph: Any) -> list[tuple[PatchInfo, list[Any]]]:
    """The patches whose source lines appear in the nodes' stack traces, each with its nodes in the graph's order."""
    at_line: dict[tuple[str, str], dict[int, PatchInfo]] = {}
    for info in infos:
        file, lines = _lines_of(info) or ("", range(0))
        for line in lines:
            at_line.setdefault((file, str(line)), {})[info.core.number] = info
    files = sorted({re.escape(file) for file, _ in at_line})
    frame = re.compile(f'File "({"|".join(files)})", line (\\d+)')
    found: dict[int, tuple[PatchInfo, list[Any]]] = {}
    seen: dict[str, dict[int, PatchInfo]] = {}
    for node in graph.nodes if files else ():
        trace = (getattr(node, "meta", None) or {}).get("stack_trace")
        if not trace:
            continue
        here = seen.get(trace)
        if here is None:
            here = seen[trace] = {}
            for place in frame.findall(trace):
                here.update(at_line.get(place, ()))
        for number, info in here.items():
            found.setdefault(number, (info, []))[1].append(node)
    return list(found.values())
