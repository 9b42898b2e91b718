"""transformers' own exporter exports under the patches what it exports alone, and what it does not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import yobx

SCRIPT = Path(__file__).with_name("export_with_dynamo_exporter.py")
SOURCES = Path(yobx.__file__).parent.parent


def outcomes(**variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("YOBX_")}
    environment |= {"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1", **variables}
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif(find_spec("transformers.exporters") is None, reason="transformers 5 has an exporter")
def test_exporter_of_transformers_is_general_under_the_patches():
    found = outcomes(YOBX_PATCH="torch,transformers")
    assert set(found.values()) == {"general"}, found
