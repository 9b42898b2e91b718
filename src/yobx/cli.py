"""The ``yobx`` command: run a script with patches, and show what they are."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import TYPE_CHECKING, Any

from yobx import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from yobx.helpers.patch_helper import PatchInfo


def _chosen(names: Sequence[str]) -> list[PatchInfo]:
    """The patches of some families, or single ones, in the order of their declaration."""
    from yobx.autopatch import families

    selection = families.Selection.parse(names or families.known())
    return [core.info for core in selection.patches()]


def _list(arguments: argparse.Namespace) -> int:
    from yobx.autopatch import families, versions

    infos = _chosen(arguments.names)
    rows: list[dict[str, Any]] = []
    for info in infos:
        conflict = versions.conflict(info.versions)
        fact = "skipped" if conflict else "applies"
        rows.append({**info.data(), "state": fact, "reason": str(conflict or ""), "runs": 0})
    if arguments.json:
        print(json.dumps(rows, indent=2))
        return 0
    for name, family in families.known().items():
        members = [row for row in rows if row["family"] == name]
        if not members:
            continue
        installed = versions.installed(family.package) if family.package else f"from {family.origin}"
        print(f"{name} ({installed})")
        for row in members:
            print(f"  {row['name']:<28} {row['state']:<8} {row['target']}")
            print(f"  {'':<28} {row['versions'] or '':<8} {row['why']}")
    return 0


def _diff(arguments: argparse.Namespace) -> int:
    import importlib

    from yobx.autopatch import versions

    shown = []
    for info in _chosen(arguments.names):
        if versions.conflict(info.versions) is None:
            importlib.import_module(info.core.module)
            shown.append(info)
    if arguments.json:
        print(json.dumps([{**info.data(), "diff": info.make_diff()} for info in shown], indent=2))
        return 0
    for info in shown:
        print(f"# {info.core.full_name}: {info.why}")
        print(info.make_diff())
        print()
    return 0


def _run(arguments: argparse.Namespace) -> int:
    environment = dict(os.environ, YOBX_PATCH=arguments.patch, YOBX_PATCH_SCOPE=arguments.scope)
    if not arguments.command:
        print("yobx run: name a script, or -m and a module", file=sys.stderr)
        return 2
    sys.stdout.flush()
    # The interpreter starts anew, as `python` would: nothing of this process shows in the script.
    return os.execve(sys.executable, [sys.executable, *arguments.command], environment)


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    top = argparse.ArgumentParser(
        prog="yobx", description="Patches that make torch.export work on real models: run with them, look at them."
    )
    top.add_argument("--version", action="version", version=f"yobx {__version__}")
    commands = top.add_subparsers(title="commands", required=True)

    run = commands.add_parser("run", help="run a script, or -m MODULE, as python would, with the patches enabled")
    run.add_argument("--patch", default="torch,transformers", help="families or patches (default: %(default)s)")
    run.add_argument("--scope", default="export", choices=["export", "always"], help="when they are active")
    run.add_argument("command", nargs=argparse.REMAINDER, metavar="SCRIPT|-m MODULE [args…]")
    run.set_defaults(call=_run)

    for name, call, text in (
        ("list", _list, "the patches: target, versions, whether they apply to what is installed, and why"),
        ("diff", _diff, "what each patch changes, as a unified diff from the original"),
    ):
        command = commands.add_parser(name, help=text, description=text)
        command.add_argument("names", nargs="*", help="families (torch) or patches (torch:expand); all by default")
        command.add_argument("--json", action="store_true", help="print JSON")
        command.set_defaults(call=call)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 when all is well, 2 for words it does not know."""
    parsed = parser().parse_args(arguments)
    try:
        return int(parsed.call(parsed))
    except ValueError as error:
        print(f"yobx: {error}", file=sys.stderr)
        return 2
