"""The main job, as the README's first line runs it: an unchanged script, plain and under ``YOBX_PATCH``."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parent.parent / "docs" / "examples" / "export_llm.py"

BROADCAST = """
import sys
import torch

class Add(torch.nn.Module):
    def forward(self, x, y):
        return x + y

dim = torch.export.Dim.DYNAMIC
both = {0: dim, 1: dim}
program = torch.export.export(
    Add(), (), kwargs=dict(x=torch.randn(2, 5), y=torch.randn(2, 1)), dynamic_shapes=dict(x=both, y=both),
    strict="strict" in sys.argv,
).module()
wide, tall = [((3, 7), (3, 1)), ((3, 5), (3, 5)), ((3, 1), (3, 7))], [((1, 5), (4, 5)), ((4, 1), (1, 6))]
for a, b in [*wide, *tall, ((2, 0), (2, 1))]:
    x, y = torch.randn(a), torch.randn(b)
    assert torch.equal(program(x=x, y=y), x + y), (a, b)
try:
    program(x=torch.randn(3, 5), y=torch.randn(3, 4))
except Exception:
    print("general")
"""


def run(*arguments, patch=None):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("YOBX_")}
    if patch:
        environment["YOBX_PATCH"] = patch
    return subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, env=environment)


def test_plain_the_script_fails_with_the_export_error():
    done = run(SCRIPT)
    assert done.returncode != 0
    assert "torch/export" in done.stderr or "transformers/" in done.stderr


@pytest.mark.parametrize("model", ["llama", "qwen2", "qwen3", "gemma3_text", "mistral", "gpt2"])
def test_patched_prefill_and_decode_are_general(model):
    done = run(SCRIPT, "--model", model, patch="torch,transformers")
    assert done.returncode == 0, done.stdout + done.stderr


def test_patched_programs_run_in_onnxruntime():
    done = run(SCRIPT, "--onnx", patch="torch,transformers")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("mode", ["strict", "non-strict"])
def test_broadcast_of_unrelated_sizes_is_general(tmp_path, mode):
    script = tmp_path / "broadcast.py"
    script.write_text(BROADCAST)
    plain = run(script, mode)
    assert plain.returncode != 0, "plain torch exports it generally: the patches are superfluous"
    done = run(script, mode, patch="torch")
    assert done.stdout == "general\n", done.stderr
