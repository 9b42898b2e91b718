"""What a report tells, as plain values: the JSON form of a report, from which the others are made.

The classes below are its schema, which ``Report["schema"]`` names with its version. A field may be added to it; one
that is removed, or changes its meaning, makes it another version.
"""

from __future__ import annotations

import platform
from typing import TYPE_CHECKING, Any, TypedDict

from yobx import __version__
from yobx.attribution.involved import graphs_of, marks_of
from yobx.autopatch import versions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yobx.helpers.patch_helper import PatchInfo

    Involved = Sequence[tuple[PatchInfo, list[Any]]]

SCHEMA = "yobx.report/1"


class Touched(TypedDict):
    """A node that a patch emitted or shaped."""

    graph: int  # the place of its graph in Program["graphs"]
    name: str
    target: str
    value: str  # dtype and shape of what it gives, such as float32[s0, 8]
    how: str  # "emitted", "shaped", or "traced" when only its stack trace tells


class PatchFacts(TypedDict):
    """One patch; ``id`` names it in a report."""

    id: str
    name: str
    family: str
    target: str
    refid: str
    installed: str  # the package of the target and its installed version
    versions: str  # the versions it is for; empty for any
    state: str
    reason: str
    why: str
    see: str
    obsolete: str
    diff: str


class PatchPart(TypedDict):
    """What one patch did in one program."""

    patch: str  # PatchFacts["id"]
    runs: int | None  # null where nobody counted: in strict mode, or when another process traced the program
    nodes: list[Touched]


class Node(TypedDict):
    """One node of a graph; ``patches`` has the ids of those that touched it."""

    name: str
    op: str
    target: str
    inputs: list[str]
    value: str
    patches: list[str]


class Graph(TypedDict):
    """A graph; the first of a program is the outermost, others are branches."""

    name: str
    nodes: list[Node]


class Program(TypedDict):
    """One exported program, or one graph."""

    title: str
    involved: list[PatchPart]
    graphs: list[Graph]


class Report(TypedDict):
    """A whole report."""

    schema: str
    made_by: dict[str, str]  # versions of yobx, python, torch, transformers
    patches: list[PatchFacts]
    programs: list[Program]


def identity(info: PatchInfo) -> str:
    """What names a patch in a report: two patches may share a name, when they share a replacement."""
    return f"{info.core.full_name} of {info.target}"


def report(programs: Sequence[Program], infos: Sequence[PatchInfo]) -> Report:
    """A report of some programs, with the facts of the patches that occur in them."""
    known = {identity(info): info for info in reversed(infos)}
    ids = dict.fromkeys(part["patch"] for program in programs for part in program["involved"])
    made_by = {"yobx": __version__, "python": platform.python_version()}
    for package in ("torch", "transformers"):
        made_by[package] = versions.installed_version(package) or "not installed"
    return Report(schema=SCHEMA, made_by=made_by, patches=[facts(known[key]) for key in ids], programs=list(programs))


def facts(info: PatchInfo) -> PatchFacts:
    """The facts of one patch."""
    return PatchFacts(
        id=identity(info),
        name=info.name,
        family=info.family,
        target=info.target,
        refid=info.refid,
        installed=versions.installed(info.core.module),
        versions=info.versions or "",
        state=info.state,
        reason=info.reason,
        why=info.why,
        see=info.see,
        obsolete=info.obsolete,
        diff=info.make_diff(),
    )


def program(patches: Involved, graph: Any = None, title: str = "graph") -> Program:
    """What ``patches_involved_in_graph`` found, and the graphs that the nodes are of.

    Args:
        graph: the outermost graph; when it is not given, only those are told of that have a touched node.
    """
    graphs: list[Any] = list(graphs_of(graph)) if graph is not None else []
    for _, nodes in patches:
        for node in nodes:
            own = getattr(node, "graph", None)
            if own is not None and all(own is not other for other in graphs):
                graphs.append(own)
    places = {id(one): index for index, one in enumerate(graphs)}
    by_node: dict[int, list[str]] = {}
    parts = []
    for info, nodes in patches:
        for node in nodes:
            by_node.setdefault(id(node), []).append(identity(info))
        touched = [_touched(info, node, places.get(id(getattr(node, "graph", None)), 0)) for node in nodes]
        parts.append(PatchPart(patch=identity(info), runs=info.runs or None, nodes=touched))
    told = [Graph(name=_name(one, i), nodes=[_node(n, by_node) for n in one.nodes]) for i, one in enumerate(graphs)]
    return Program(title=title, involved=parts, graphs=told)


def _touched(info: PatchInfo, node: Any, graph: int) -> Touched:
    ways = [how for how, refid, target in marks_of(node) if (refid, target) == (info.refid, info.target)]
    return Touched(
        graph=graph, name=node.name, target=target_of(node), value=value_of(node), how=" and ".join(ways) or "traced"
    )


def _node(node: Any, by_node: dict[int, list[str]]) -> Node:
    return Node(
        name=node.name,
        op=getattr(node, "op", "call_function"),
        target=target_of(node),
        inputs=[other.name for other in getattr(node, "all_input_nodes", ())],
        value=value_of(node),
        patches=by_node.get(id(node), []),
    )


def _name(graph: Any, index: int) -> str:
    if index == 0:
        return "main"
    owner = getattr(graph, "owning_module", None)
    return f"branch {index}" if owner is None else f"branch {index} ({type(owner).__name__})"


def target_of(node: Any) -> str:
    """What a node calls, in short: ``aten.add.Tensor``."""
    target = getattr(node, "target", "")
    plain = type(target).__name__ in ("function", "builtin_function_or_method")
    return str(getattr(target, "__name__", target)) if plain else str(target)


def value_of(node: Any) -> str:
    """What a node gives, in short: ``float32[s0, 8]``; empty when the graph does not say."""
    meta = getattr(node, "meta", None) or {}
    return describe(meta.get("val", meta.get("example_value")))


def describe(value: Any) -> str:
    """A tensor by dtype and shape, anything else by its text."""
    if value is None:
        return ""
    if isinstance(value, (list, tuple)):
        return f"({', '.join(map(describe, value))})"
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    if shape is not None and dtype is not None:
        return f"{str(dtype).removeprefix('torch.')}[{', '.join(map(str, shape))}]"
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
