"""Why a figure misses its bar: where the time of it goes, in a few lines."""

from __future__ import annotations

import cProfile
import io
import pstats
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

LINES = 12


def of_calls(function: Callable[[], Any], number: int) -> str:
    """The functions that take most of the time of ``number`` calls."""
    profile = cProfile.Profile()
    with profile:
        for _ in range(number):
            function()
    text = io.StringIO()
    pstats.Stats(profile, stream=text).sort_stats("tottime").print_stats(LINES)
    rows = text.getvalue().partition("ncalls")[2].splitlines()[1:]
    head = "   ncalls  tottime  percall  cumtime  percall filename:lineno(function)"
    # No more of a path than says which module it is.
    return "\n".join([head, *(re.sub(r"\S*/([\w.-]+/\w+\.py)", r"\1", row) for row in rows if row.strip())])


COLLECTIONS = """
import gc, time
begun, spent = 0.0, [[0, 0.0], [0, 0.0], [0, 0.0]]
def note(phase, info, clock=time.perf_counter):
    global begun
    if phase == "start":
        begun = clock()
    else:
        kind = spent[info["generation"]]
        kind[0] += 1
        kind[1] += clock() - begun
gc.callbacks.append(note)
{code}
gc.callbacks.remove(note)
print(*(f"{{number}} in {{1000 * seconds:.0f}} ms" for number, seconds in spent), sep=", ")
"""


def of_imports(python: str | Path, code: str, plain: dict[str, str], patched: dict[str, str]) -> str:
    """What a program imports only with the variable set, by package, and what the garbage collector did in both.

    A full collection takes longer than all that is imported more. It comes when the objects allocated reach a number,
    so that a few more of them may bring it into the time that is measured; else it comes soon after it.
    """
    before, after = _own_times(python, code, plain), _own_times(python, code, patched)
    packages: dict[str, list[int]] = {}
    for name in after.keys() - before.keys():
        packages.setdefault(name.partition(".")[0], []).append(after[name])
    rows = sorted(((sum(times), len(times), name) for name, times in packages.items()), reverse=True)[:LINES]
    return "\n".join(
        [
            f"      us  modules loaded only with the variable set, Python {sys.version.split()[0]}",
            *(f"{own:8}  {number} of {name}" for own, number, name in rows),
            "garbage collections, youngest to full",
            f"   plain  {_printed(python, COLLECTIONS.format(code=code), plain)}",
            f" patched  {_printed(python, COLLECTIONS.format(code=code), patched)}",
        ]
    )


def _own_times(python: str | Path, code: str, environment: dict[str, str]) -> dict[str, int]:
    """The microseconds that each module of a program takes by itself to be imported."""
    command = [python, "-X", "importtime", "-c", code]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found = [line.partition(":")[2].split("|") for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {name.strip(): int(own) for own, _, name in found if own.strip().isdigit()}


def _printed(python: str | Path, code: str, environment: dict[str, str]) -> str:
    return subprocess.run(
        [python, "-c", code], env=environment, check=True, capture_output=True, text=True
    ).stdout.strip()
