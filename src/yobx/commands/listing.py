"""``yobx list`` and ``yobx diff``: what the patches are, and what they change."""

from __future__ import annotations

import argparse
import importlib
import textwrap
from typing import TYPE_CHECKING, Any

from yobx.autopatch import families, imports, versions
from yobx.commands import words

if TYPE_CHECKING:
    from yobx.helpers.patch_helper import PatchInfo

LIST = "The patches: target, versions, whether they apply to what is installed, and why. Imports no torch."
DIFF = "What each patch changes: a unified diff from the function that is installed to its replacement."


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the commands."""
    for name, call, text in (("list", show_list, LIST), ("diff", show_diff, DIFF)):
        parser = commands.add_parser(name, help=text, description=text, epilog=words.EXIT_CODES)
        parser.add_argument(
            "names", nargs="*", metavar="NAME", help="families (torch) or patches (torch:expand, expand); default: all"
        )
        parser.add_argument("--json", action="store_true", help="print JSON")
        parser.set_defaults(call=call)


def row(info: PatchInfo) -> dict[str, Any]:
    """What there is to know of a patch without loading its target."""
    package = info.core.module.partition(".")[0]
    conflict = versions.conflict(info.versions)
    if not imports.installed(package):
        state, reason = "absent", f"{package} is not installed"
    elif conflict is not None:
        state, reason = "skipped", f"{conflict}"
    else:
        state, reason = "applies", f"{versions.installed(info.core.module)} is in its range"
    return {**info.data(), "state": state, "reason": reason, "group": info.group}


def show_list(arguments: argparse.Namespace) -> int:
    """Print the patches by family."""
    rows = [row(info) for info in words.chosen(arguments.names)]
    if arguments.json:
        words.print_json(rows)
        return words.WELL
    paint = words.Paint()
    colours = {"applies": "green", "skipped": "yellow", "absent": "dim"}
    for name, family in families.known().items():
        members = [one for one in rows if one["family"] == name]
        if not members:
            continue
        installed = versions.installed(family.package) if family.package else f"from {family.origin}"
        applying = sum(one["state"] == "applies" for one in members)
        print(f"{paint(name, 'bold')} ({installed}): {applying} of {len(members)} patches apply")
        for one in members:
            state = paint(f"{one['state']:<8}", colours[one["state"]])
            print(f"\n  {paint(one['name'], 'bold'):<30} {state} {one['target']}")
            note = f"{one['versions'] or 'any version'}: {one['reason']}"
            print(f"  {'':<30} {paint(note, 'dim')}")
            print(textwrap.indent(textwrap.fill(one["why"], 85), " " * 33))
        print()
    return words.WELL


def show_diff(arguments: argparse.Namespace) -> int:
    """Print the diffs of the patches that apply; only the modules of their targets are imported."""
    paint = words.Paint()
    shown = []
    for info in words.chosen(arguments.names):
        state = row(info)
        if state["state"] != "applies":
            diff = f"no original to show: {state['reason']}"
            if not arguments.names:
                continue
        else:
            try:
                importlib.import_module(info.core.module)
                diff = info.make_diff()
            except ImportError as error:
                diff = f"no original to show: {info.core.module} cannot be imported: {error}"
        shown.append({**state, "diff": diff})
        if not arguments.json:
            print(paint(f"# {info.core.full_name}: {info.why}", "bold"))
            print("\n".join(words.diff_lines(paint, diff.splitlines())), end="\n\n")
    if arguments.json:
        words.print_json(shown)
    return words.WELL
