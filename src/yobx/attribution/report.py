"""Reports of the patches that are involved in a graph: as text, reStructuredText, JSON or one HTML file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from yobx.attribution import data

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yobx.helpers.patch_helper import PatchInfo

FORMATS = ("raw", "rst", "html", "json")


def report(patches: Sequence[tuple[PatchInfo, list[Any]]], format: str = "raw", graph: Any = None) -> str:
    """Each patch with its facts, its nodes and its diff.

    Args:
        patches: what ``patches_involved_in_graph`` gave.
        format: one of ``"raw"``, ``"rst"``, ``"html"``, ``"json"``.
        graph: the graph, for a report that shows its untouched nodes too; the HTML knows it by the touched ones.

    Raises:
        ValueError: for another format.
    """
    check(format)
    return text_of(data.report([data.program(patches, graph)], [info for info, _ in patches]), format)


def check(format: str) -> None:
    """Raise for an unknown format.

    Raises:
        ValueError: lists the known ones.
    """
    if format not in FORMATS:
        raise ValueError(f"format is {format!r}; it is one of {', '.join(map(repr, FORMATS))}")


def text_of(found: data.Report, format: str) -> str:
    """A report in one of the formats."""
    if format == "json":
        return json.dumps(found, indent=1)
    if format == "html":
        from yobx.attribution.html import page

        return page(found)
    if not any(program["involved"] for program in found["programs"]):
        return "No patch is involved.\n"
    facts = {patch["id"]: patch for patch in found["patches"]}
    sections = []
    for program in found["programs"]:
        if len(found["programs"]) > 1:
            sections.append(_heading(program["title"], "=", format))
        for part in program["involved"]:
            sections.append((_rst if format == "rst" else _raw)(facts[part["patch"]], part))
    return "\n".join(sections)


def _facts(patch: data.PatchFacts, part: data.PatchPart) -> dict[str, str]:
    runs = part["runs"]
    found = {
        "target": patch["target"],
        "installed": f"{patch['installed']} (meant for {patch['versions'] or 'any version'})",
        "state": patch["state"] if runs else "",
        "why": patch["why"],
        "see": patch["see"],
        "obsolete": patch["obsolete"],
        "ran": "" if runs is None else "once" if runs == 1 else f"{runs} times",
    }
    return {name: fact for name, fact in found.items() if fact}


def _nodes(part: data.PatchPart) -> list[str]:
    return [f"{node['name']} ({node['how']}): {node['target']} -> {node['value'] or '?'}" for node in part["nodes"]]


def _heading(title: str, underline: str, format: str) -> str:
    return f"{title}\n{underline * len(title)}\n"


def _raw(patch: data.PatchFacts, part: data.PatchPart) -> str:
    lines = [f"{name:>9}  {fact}" for name, fact in _facts(patch, part).items()]
    lines += [f"{'nodes' if index == 0 else '':>9}  {node}" for index, node in enumerate(_nodes(part))]
    return "\n".join([f"[{patch['family']}] {patch['name']}", *lines, patch["diff"], ""])


def _rst(patch: data.PatchFacts, part: data.PatchPart) -> str:
    lines = [f".. _{patch['refid']}:", "", _heading(f"{patch['family']}: {patch['name']}", "-", "rst")]
    for name, fact in _facts(patch, part).items():
        lines.append(f":{name}: {f'``{fact}``' if name == 'target' else fact}")
    lines += ["", "Nodes:", "", *(f"* ``{node}``" for node in _nodes(part)), "", ".. code-block:: diff", ""]
    return "\n".join([*lines, *(f"    {line}".rstrip() for line in patch["diff"].splitlines()), ""])
