"""A readable summary of the patches that are involved in a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yobx.helpers.patch_helper import PatchInfo


def report(patches: Sequence[tuple[PatchInfo, list[Any]]], format: str = "raw") -> str:
    """Each patch with its facts, its nodes and its diff.

    Raises:
        ValueError: for a format other than ``"raw"`` and ``"rst"``.
    """
    if format not in ("raw", "rst"):
        raise ValueError(f"format is {format!r}; it is one of 'raw', 'rst'")
    if not patches:
        return "No patch is involved.\n"
    parts = []
    for info, nodes in patches:
        names = ", ".join(node.name for node in nodes)
        if format == "rst":
            parts.append(f"{info.format_diff('rst')}\n{len(nodes)} nodes: {names}\n")
            continue
        facts = {
            "target": f"{info.target} ({info.versions or 'any version'})",
            "why": info.why,
            "see": info.see,
            "obsolete": info.obsolete,
            "ran": f"{info.runs} times",
            "nodes": f"{len(nodes)}: {names}",
        }
        lines = [f"{name:>9}  {fact}" for name, fact in facts.items() if fact]
        parts.append("\n".join([f"[{info.family}] {info.name}", *lines, info.format_diff("raw"), ""]))
    return "\n".join(parts)
