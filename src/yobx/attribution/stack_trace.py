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

_FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def _lines_of(info: PatchInfo) -> tuple[str, range] | None:
    try:
        lines, first = inspect.getsourcelines(info.patch)
        file = inspect.getsourcefile(info.patch)
    except (OSError, TypeError):
        return None
    return (file, range(first, first + len(lines))) if file else None


def involved(infos: Iterable[PatchInfo], graph: Any) -> list[tuple[PatchInfo, list[Any]]]:
    """The patches whose source lines appear in the nodes' stack traces, each with its nodes in the graph's order."""
    by_file: dict[str, list[tuple[range, PatchInfo]]] = {}
    found: dict[int, tuple[PatchInfo, list[Any]]] = {}
    for info in infos:
        place = _lines_of(info)
        if place is not None:
            by_file.setdefault(place[0], []).append((place[1], info))
    for node in graph.nodes:
        trace = (getattr(node, "meta", None) or {}).get("stack_trace") or ""
        for file, line in _FRAME.findall(trace):
            for lines, info in by_file.get(file, ()):
                if int(line) in lines:
                    nodes = found.setdefault(info.core.number, (info, []))[1]
                    if not nodes or nodes[-1] is not node:
                        nodes.append(node)
    return list(found.values())
