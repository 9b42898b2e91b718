"""Interpreter start and imports, in processes of their own; memory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks import profiles
from benchmarks.pairs import Figure, Sample, paired

ROOT = Path(__file__).resolve().parent.parent
BUILD = "import sys, hatchling.build; hatchling.build.build_wheel(sys.argv[1])"
# The peak of this very program: `ru_maxrss` would be that of the process which started it, where that was larger.
MEMORY = "import torch; print(next(line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')))"


# Without bytecode every process would compile what an installation has compiled.
IGNORED = ("YOBX_", "PYTHONDONTWRITEBYTECODE")


def _environment(patch: str | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(IGNORED)}
    return {**kept, "YOBX_PATCH": patch} if patch else kept


def _timed(python: str | Path, code: str, patch: str | None = None) -> Sample:
    environment = _environment(patch)

    def sample() -> float:
        start = time.perf_counter()
        subprocess.run([python, "-c", code], env=environment, check=True)
        return time.perf_counter() - start

    return sample


def _memory(patch: str | None) -> Sample:
    environment = _environment(patch)

    def sample() -> float:
        done = subprocess.run([sys.executable, "-c", MEMORY], env=environment, check=True, capture_output=True)
        return 1024 * float(done.stdout)

    return sample


def figures() -> Iterator[Figure]:
    """Start-up without and with the variable, imports, memory."""
    with tempfile.TemporaryDirectory() as folder:
        bare, installed = Path(folder, "bare"), Path(folder, "installed")
        for path in (bare, installed):
            # What pip brings to the start of an interpreter is in both.
            venv.create(path, with_pip=True)
        subprocess.run([sys.executable, "-c", BUILD, folder], cwd=ROOT, check=True, capture_output=True)
        wheel = next(Path(folder).glob("*.whl"))
        pip = [installed / "bin/python", "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel]
        subprocess.run(pip, check=True)
        yield paired(
            "python -c pass, installed, variable unset, against not installed",
            "ms",
            0.3,
            _timed(bare / "bin/python", "pass"),
            _timed(installed / "bin/python", "pass"),
            80,
        )
    both = "torch,transformers"
    python = sys.executable
    figure = paired("python -c pass, variable set", "ms", 15, _timed(python, "pass"), _timed(python, "pass", both), 40)
    yield figure.explained(partial(profiles.of_imports, python, "pass", _environment(None), _environment(both)))
    for code in ("import torch", "import torch, transformers"):
        figure = paired(f"{code}, variable set", "ratio", 1.05, _timed(python, code), _timed(python, code, both), 15)
        yield figure.explained(partial(profiles.of_imports, python, code, _environment(None), _environment(both)))
    yield paired("memory after import torch, variable set", "MB", 5, _memory(None), _memory(both), 7)
