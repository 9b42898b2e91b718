"""What is not an export gives the same bits with the patches enabled as without."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import yobx

SCRIPT = Path(__file__).with_name("what_a_model_gives.py")
SOURCES = Path(yobx.__file__).parent.parent


def given(**variables):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("YOBX_")}
    # A configuration holds sets, whose order in a pickle is another one in every process.
    environment |= {"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", **variables}
    done = subprocess.run([sys.executable, str(SCRIPT)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_eager_generate_training_compile_pickle_and_save_give_the_same_bits():
    assert given(YOBX_PATCH="torch,transformers") == given()
