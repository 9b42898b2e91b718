"""Programs of the prefill and of a decode step write what ``model.generate`` writes."""

from __future__ import annotations

from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("generate_with_programs.py")
MODELS = ["llama", "mistral", "gemma3_text", "qwen3_moe", "gpt_oss", "phi3", "mamba2", "bart"]


@pytest.mark.parametrize("model_type", MODELS)
def test_programs_write_the_tokens_of_generate(run_python, model_type):
    done = run_python("", model_type, command=[str(SCRIPT)], env={"YOBX_PATCH": "torch,transformers"}, check=True)
    # A model that repeats itself would show little.
    assert int(done.stdout.split()[0]) > 4
