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


def of_imports(python: str | Path, code: str, environment: dict[str, str]) -> str:
    """The imports of a program that take longest by themselves, in microseconds."""
    command = [python, "-X", "importtime", "-c", code]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found = [line.partition(":")[2].split("|") for line in done.stderr.splitlines() if line.startswith("import time:")]
    rows = sorted(((int(own), name.strip()) for own, _, name in found if own.strip().isdigit()), reverse=True)
    total = f"{sum(own for own, _ in rows):8}  all of {len(rows)} modules, Python {sys.version.split()[0]}"
    return "\n".join([total, *(f"{own:8}  {name}" for own, name in rows[:LINES])])
