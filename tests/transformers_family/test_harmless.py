"""What is not an export gives the same bits with the patches enabled as without."""

from __future__ import annotations

import json
from pathlib import Path

SCRIPT = Path(__file__).with_name("what_a_model_gives.py")


def test_eager_generate_training_compile_pickle_and_save_give_the_same_bits(run_python):
    def given(**variables):
        # A configuration holds sets, whose order in a pickle is another one in every process.
        environment = {"PYTHONHASHSEED": "0", **variables}
        return json.loads(run_python("", command=[str(SCRIPT)], env=environment, check=True).stdout.splitlines()[-1])

    assert given(YOBX_PATCH="torch,transformers") == given()
