"""Programs of the prefill and of a decode step write what ``model.generate`` writes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import yobx

SCRIPT = Path(__file__).with_name("generate_with_programs.py")
SOURCES = Path(yobx.__file__).parent.parent
MODELS = ["llama", "mistral", "gemma3_text", "qwen3_moe", "gpt_oss", "phi3", "mamba2", "bart"]


@pytest.mark.parametrize("model_type", MODELS)
def test_programs_write_the_tokens_of_generate(model_type):
    variables = {"YOBX_PATCH": "torch,transformers", "PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT), model_type], capture_output=True, text=True, env={**os.environ, **variables}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    # A model that repeats itself would show little.
    assert int(done.stdout.split()[0]) > 4
