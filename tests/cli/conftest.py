"""The command as a user runs it, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.fixture
def yobx(tmp_path):
    """Run ``yobx …`` in an empty folder."""

    def run(*arguments, python=sys.executable, flags=(), cwd=tmp_path, input=None, **variables):
        environment = {n: v for n, v in os.environ.items() if not n.startswith(("YOBX_", "PYTHON"))}
        environment |= {"OMP_NUM_THREADS": "1", **variables}
        command = [python, *flags, "-m", "yobx", *map(str, arguments)]
        return subprocess.run(
            command, capture_output=True, text=True, env=environment, cwd=cwd, timeout=600, input=input
        )

    return run
