"""``yobx check --needed``: every reproducer on the installed versions, with its patch and without it."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import subprocess
import sys
import tempfile
import warnings
from typing import TYPE_CHECKING, Any

from yobx.autopatch import control, imports, versions
from yobx.commands.doctor import NOTE, OK, PROBLEM, Finding
from yobx.commands.words import chosen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yobx.helpers.patch_helper import PatchInfo


def findings(infos: list[PatchInfo]) -> Iterator[Finding]:
    """What each patch is worth here, in the order in which it is found out."""
    tried = []
    for info in infos:
        name = info.core.full_name
        conflict = versions.conflict(info.versions)
        if conflict is not None or not imports.installed(info.core.module.partition(".")[0]):
            yield Finding("skipped", name, OK, f"{conflict or 'its package is not installed'}")
        elif info.reproducer is None:
            yield Finding("needed", name, NOTE, "declares no reproducer")
        else:
            tried.append(info)
    # An effect stays for the process: its reproducer has to be the first.
    groups = [[info.core.full_name for info in tried if not info.core.effect]]
    groups += [[info.core.full_name] for info in tried if info.core.effect]
    for group in groups:
        for name, outcomes in _try_in_processes(group):
            yield _judge(name, outcomes)


def _judge(name: str, tried: dict[str, Any]) -> Finding:
    if "error" in tried:
        return Finding("needed", name, PROBLEM, "its reproducer could not be run", tuple(tried["error"]))
    without, under = tried["without"], tried["with"]
    if not under["ok"]:
        return Finding("needed", name, PROBLEM, f"no longer helps: {under['stage']} with it", tuple(under["problems"]))
    if without["ok"]:
        return Finding("needed", name, NOTE, "superfluous: its reproducer is general without it")
    return Finding("needed", name, OK, f"needed: without it {_in_words(without)}")


def _in_words(outcome: dict[str, Any]) -> str:
    first = (outcome["problems"] or ["?"])[0].splitlines()[0]
    what = "the export raises" if outcome["stage"] == "export" else "the program is narrow"
    return f"{what} ({first[:160]})"


def _try_in_processes(names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The outcomes by patch; in one process, and in another for those that remain when it breaks down."""
    while names:
        with tempfile.TemporaryFile("w+") as said:
            command = [sys.executable, "-m", __name__, *names]
            with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=said, text=True) as process:
                assert process.stdout is not None
                for line in process.stdout:
                    yield names.pop(0), json.loads(line)
            if names:
                said.seek(0)
                lines = said.read().splitlines()[-5:]
                yield names.pop(0), {"error": lines or [f"the process ended with {process.returncode}"]}


def try_one(name: str) -> dict[str, Any]:
    """The outcomes of a reproducer: under all patches that apply but this one and its group, then under all."""
    (info,) = chosen([name])
    everything = [other for other in chosen([]) if versions.conflict(other.versions) is None]
    rest = [other for other in everything if other is not info and (not info.group or other.group != info.group)]
    assert info.reproducer is not None
    importlib.import_module(info.core.module)
    outcomes = {}
    for key, active in (("without", rest), ("with", everything)):
        with control.Scope(lambda active=active: [other.core for other in active]):  # type: ignore[misc]  # a default binds it
            outcome = info.reproducer().run()
        outcomes[key] = {"ok": outcome.ok, "stage": outcome.stage, "problems": list(outcome.problems)}
    return outcomes


def main(names: list[str]) -> None:
    """Try some patches, and print a line for each."""
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    for name in names:
        with contextlib.redirect_stdout(io.StringIO()):
            told = try_one(name)
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
