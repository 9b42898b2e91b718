"""Running a script as a user would, in a process of its own, and reading what it prints as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap

PRELUDE = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch
from yobx import autopatch
from yobx.torch import apply_patches_for_model
D = torch.export.Dim.DYNAMIC

def found(details, program):
    pairs = details.patches_involved_in_graph(program.graph)
    return {info.name: [node.name for node in nodes] for info, nodes in pairs}

def targets(program):
    from yobx.attribution.involved import graphs_of
    nodes = [n for g in graphs_of(program.graph) for n in g.nodes if n.op == "call_function"]
    return sorted(str(node.target) for node in nodes)

def touched(details, program):
    pairs = details.patches_involved_in_graph(program.graph)
    return sorted({id(n): str(n.target) for _, nodes in pairs for n in nodes}.values())
"""


def run_json(code, *arguments, cwd, **variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("YOBX_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(code), *map(str, arguments)],
        capture_output=True,
        text=True,
        env={**environment, "OMP_NUM_THREADS": "1", **variables},
        cwd=cwd,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout.splitlines()[-1])


def without(longer, shorter):
    """What is in one list beyond another, as often as it is."""
    rest = list(longer)
    for item in shorter:
        if item in rest:
            rest.remove(item)
    return sorted(rest)
