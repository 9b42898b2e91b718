"""A picture of a graph: what patches touched in their colours, and what lies between them folded away."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from yobx.attribution import data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yobx.helpers.patch_helper import PatchInfo

COLOURS = ("#8fd3b8", "#f4b184", "#b7a6ee", "#f3a3bd", "#8fc4ec", "#c6dd86", "#ecd37c", "#dca6e4", "#86d6d6", "#ee9d92")


class GraphvizMissing(RuntimeError):
    """The program ``dot``, which makes pictures of graphs, is not installed."""


def draw(patches: Sequence[tuple[PatchInfo, list[Any]]], graph: Any, file: str | Path) -> Path:
    """Write a picture of a graph.

    Args:
        patches: what ``patches_involved_in_graph`` gave.
        graph: the graph; its branches are drawn in frames of their own.
        file: the name tells the format: ``.svg``, ``.png``, ``.pdf``, or ``.dot`` for the text that graphviz reads.

    Raises:
        GraphvizMissing: when graphviz is not installed and the format needs it.
        ValueError: for a name without a suffix.
        RuntimeError: when graphviz does not know the format.
    """
    path = Path(file)
    if not path.suffix:
        raise ValueError(f"{str(path)!r} has no suffix; name a format: .svg, .png, .pdf or .dot")
    text = dot_of(patches, graph)
    if path.suffix == ".dot":
        path.write_text(text, encoding="utf-8")
        return path
    program = shutil.which("dot")
    if program is None:
        raise GraphvizMissing(
            f"cannot draw {path}: graphviz is not installed (no program 'dot' on PATH); install it with your system's "
            "package manager (apt install graphviz, brew install graphviz), or write a .dot file"
        )
    command = [program, f"-T{path.suffix[1:]}", "-o", str(path)]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"graphviz could not draw {path}: {done.stderr.strip()}")
    return path


def dot_of(patches: Sequence[tuple[PatchInfo, list[Any]]], graph: Any) -> str:
    """The picture as text for graphviz."""
    colours = {data.identity(info): COLOURS[i % len(COLOURS)] for i, (info, _) in enumerate(patches)}
    program = data.program(patches, graph)
    lines = [
        "digraph patched {",
        'graph [fontname="Helvetica", rankdir=TB, nodesep=0.25, ranksep=0.3, style="rounded", color="#b8b4aa"];',
        'node [fontname="Helvetica", fontsize=11, shape=box, style="rounded,filled"];',
        'node [fillcolor="#ffffff", color="#8a8f94"];',
        'edge [color="#8a8f94", arrowsize=0.6];',
    ]
    for place, found in enumerate(program["graphs"]):
        lines += _one_graph(place, found, colours)
    lines += _legend(program, {data.identity(info): info for info, _ in patches}, colours)
    return "\n".join([*lines, "}"])


def _one_graph(place: int, graph: data.Graph, colours: dict[str, str]) -> list[str]:
    groups = fold(graph["nodes"])
    group_of = {node["name"]: index for index, group in enumerate(groups) for node in group}
    body, edges = [], []
    for index, group in enumerate(groups):
        first = group[0]
        if len(group) > 1:
            label = f"{len(group)} untouched nodes"
            body.append(f'"{place}.{index}" [label={_quote(label)}, shape=ellipse, style=dashed, fontcolor="#6a7178"];')
        else:
            what = first["target"] if first["op"] == "call_function" else first["op"]
            label = "\n".join(filter(None, (first["name"], what, first["value"])))
            fill = ":".join(dict.fromkeys(colours[patch] for patch in first["patches"]))
            style = f', fillcolor="{fill}", penwidth=1.6, color="#3a3f44"' if fill else ""
            body.append(f'"{place}.{index}" [label={_quote(label)}{style}];')
        for node in group:
            for other in node["inputs"]:
                before = group_of.get(other)
                edge = f'"{place}.{before}" -> "{place}.{index}";'
                if before is not None and before != index and edge not in edges:
                    edges.append(edge)
    if place == 0:
        return body + edges
    return [f"subgraph cluster_{place} {{", f"label={_quote(graph['name'])};", *body, *edges, "}"]


def fold(nodes: Sequence[data.Node]) -> list[list[data.Node]]:
    """The nodes in groups of one, or of many untouched ones that feed each other and no touched node directly.

    What a touched node reads, and what reads it, is shown; a group may be entered and left, never gone around in a
    circle: only nodes that follow one another in the graph are put together.
    """
    touched = {node["name"] for node in nodes if node["patches"]}
    near = set(touched)
    for node in nodes:
        if node["name"] in touched:
            near.update(node["inputs"])
        elif touched.intersection(node["inputs"]):
            near.add(node["name"])
    groups: list[list[data.Node]] = []
    run: list[data.Node] = []
    for node in nodes:
        if node["name"] in near or node["op"] == "output":
            if run:
                groups.append(run)
            groups.append([node])
            run = []
        else:
            run.append(node)
    if run:
        groups.append(run)
    return groups


def _legend(program: data.Program, infos: dict[str, PatchInfo], colours: dict[str, str]) -> list[str]:
    if not program["involved"]:
        return ['legend [label="no patch is involved", shape=plaintext, style=""];']
    lines = ["subgraph cluster_legend {", 'label="patches";']
    for index, part in enumerate(program["involved"]):
        label = f"{infos[part['patch']].core.full_name}: {len(part['nodes'])}"
        lines.append(f'"legend.{index}" [label={_quote(label)}, fillcolor="{colours[part["patch"]]}"];')
    return [*lines, "}"]


def _quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
