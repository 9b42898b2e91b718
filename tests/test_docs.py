"""The snippets of README and docs are programs that run, each in a process of its own, as a reader would run it."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
RST_BLOCK = re.compile(r"^\.\. code-block:: python\n\n((?:(?:    .*)?\n)+)", re.MULTILINE)
MD_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


def snippets():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.rst"))]:
        text = path.read_text()
        for block in (RST_BLOCK if path.suffix == ".rst" else MD_BLOCK).finditer(text):
            line = text[: block.start()].count("\n") + 1
            yield pytest.param(textwrap.dedent(block.group(1)), id=f"{path.name}:{line}")


@pytest.mark.parametrize("snippet", list(snippets()))
def test_snippet_runs(snippet, tmp_path):
    script = tmp_path / "snippet.py"
    script.write_text(snippet)
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_both_pages_have_snippets():
    assert len(list(snippets())) >= 7
