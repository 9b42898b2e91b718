"""``yobx check --needed``: every reproducer on the installed versions, with its patch and without it."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

from yobx.autopatch import control, imports, versions
from yobx.commands.doctor import NOTE, OK, PROBLEM, Finding
from yobx.commands.words import chosen

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yobx.helpers.patch_helper import PatchInfo


def findings(infos: list[PatchInfo]) -> Iterator[Finding]:
    """What each patch is worth here; every one is tried in a process of its own, which it may bring down."""
    for info in infos:
        name = info.core.full_name
        conflict = versions.conflict(info.versions)
        if conflict is not None or not imports.installed(info.core.module.partition(".")[0]):
            yield Finding("needed", name, OK, f"skipped: {conflict or 'its package is not installed'}")
        elif info.reproducer is None:
            yield Finding("needed", name, NOTE, "declares no reproducer")
        else:
            yield _judge(name, _try_in_a_process(name))


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


def _try_in_a_process(name: str) -> dict[str, Any]:
    # An effect, and what a failed export leaves behind, stay for the process.
    done = subprocess.run([sys.executable, "-m", __name__, name], capture_output=True, text=True)
    lines = done.stdout.splitlines()
    if done.returncode or not lines:
        return {"error": done.stderr.splitlines()[-5:] or [f"the process ended with {done.returncode}"]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def try_one(name: str) -> dict[str, Any]:
    """The outcomes of a reproducer: under all patches that apply but this one and its group, then under all."""
    (info,) = chosen([name])
    everything = [other for other in chosen([]) if versions.conflict(other.versions) is None]
    rest = [other for other in everything if other is not info and (not info.group or other.group != info.group)]
    assert info.reproducer is not None
    importlib.import_module(info.core.module)
    outcomes = {}
    for key, active in (("without", rest), ("with", everything)):
        with control.Scope(lambda active=active: [other.core for other in active]):  # type: ignore[misc]
            outcome = info.reproducer().run()
        outcomes[key] = {"ok": outcome.ok, "stage": outcome.stage, "problems": list(outcome.problems)}
    return outcomes


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(io.StringIO()):
        told = try_one(sys.argv[1])
    print(json.dumps(told))
