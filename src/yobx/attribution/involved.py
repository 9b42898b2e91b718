"""Patches found in a graph by the marks on its nodes, and by stack traces where nobody marked it."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from yobx.attribution import stack_trace
from yobx.attribution.unknown import UnknownPatch
from yobx.autopatch import families, marks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from yobx.helpers.patch_helper import PatchInfo

# Reads of a size, which torch makes when somebody first asks, and marks like the node that asked.
_READS = ("sym_size", "sym_stride", "sym_storage_offset", "sym_numel")


def graphs_of(graph: Any) -> Iterator[Any]:
    """A graph and those of its branches, each once, the outer one first."""
    seen: set[int] = set()
    waiting = [graph]
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        owner = getattr(one, "owning_module", None)
        for node in one.nodes if owner is not None else ():
            if node.op == "get_attr":
                inner = getattr(_attribute(owner, node.target), "graph", None)
                if inner is not None and hasattr(inner, "nodes"):
                    waiting.append(inner)


def _attribute(owner: Any, path: str) -> Any:
    for name in path.split("."):
        owner = getattr(owner, name, None)
    return owner


def marks_of(node: Any) -> list[list[str]]:
    """The marks of one node, each ``[how, refid, target]``; only of those nodes that compute something."""
    if getattr(node, "op", "call_function") != "call_function":
        return []
    found = _raw_marks(node)
    if not found:
        return []
    target = getattr(node, "target", None)
    if target is operator.getitem:
        # A part of a shaped result: torch copies the mark to it when it traces the program again.
        return [mark for mark in found if mark[0] == marks.EMITTED]
    name, overload, _ = str(getattr(target, "__name__", "")).partition(".")
    return [] if overload and name in _READS else found


def _raw_marks(node: Any) -> list[list[str]]:
    return ((getattr(node, "meta", None) or {}).get("custom") or {}).get(marks.KEY) or []


def _name(node: Any) -> str:
    return str(getattr(getattr(node, "target", None), "__name__", ""))


def _marked(graph: Any) -> list[tuple[Any, list[list[str]]]]:
    """The nodes of one graph that have marks, with them.

    Torch puts a check before a conversion when all nodes have been made, without marks (2.9) or with those of the node
    that is checked: it is who emitted the conversion that emitted the check.
    """
    pairs = []
    before = None
    for node in graph.nodes:
        found = marks_of(node)
        if before is not None:
            converts = _name(node).startswith(("to.", "_to_copy.")) and node.args[:1] == before.args[:1]
            its_marks = [mark for mark in found if mark[0] == marks.EMITTED] if converts else marks_of(before)
            if its_marks:
                pairs.append((before, its_marks))
            before = None
        if _name(node) == "_assert_tensor_metadata.default":
            before = node
        elif found:
            pairs.append((node, found))
    return pairs


def involved(infos: Iterable[PatchInfo], graph: Any) -> list[tuple[PatchInfo, list[Any]]]:
    """The patches that emitted or shaped nodes, each with its nodes, both in the graph's order."""
    infos = list(infos)
    found: dict[tuple[str, str], list[Any]] = {}
    marked = False
    for one in graphs_of(graph):
        for node, its_marks in _marked(one):
            for _, refid, target in its_marks:
                nodes = found.setdefault((refid, target), [])
                if not nodes or nodes[-1] is not node:
                    nodes.append(node)
        marked = marked or bool(found)
    if marked or marks.traced_here(graph):
        book = Book(infos)
        return [(book.look_up(*key), nodes) for key, nodes in found.items()]
    return stack_trace.involved(infos, graph)


class Book:
    """Patches by what a mark says of them: those at hand first, then every family that is installed here."""

    def __init__(self, infos: Iterable[PatchInfo]) -> None:
        self._known: dict[tuple[str, str], PatchInfo] = {}
        self._add(infos)
        self._complete = False

    def _add(self, infos: Iterable[PatchInfo]) -> None:
        for info in infos:
            self._known.setdefault((info.refid, info.target), info)

    def look_up(self, refid: str, target: str) -> PatchInfo:
        """The patch of a mark; a stand-in when no family declares it here."""
        if (refid, target) not in self._known and not self._complete:
            self._complete = True
            for family in families.known().values():
                self._add(patch.info for patch in family.load().values())
        if (refid, target) not in self._known:
            self._known[refid, target] = UnknownPatch(refid, target)
        return self._known[refid, target]
