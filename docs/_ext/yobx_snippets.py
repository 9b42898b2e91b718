"""``runpython`` for these pages: each snippet is a file of its own, run in a process of its own, as a reader runs it.

``sphinx_runpython`` sends the code to the interpreter's standard input, where no function has a source, and goes
on when it raises. Here a snippet that raises, or exits with anything but 0, fails the build.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

from docutils import nodes
from sphinx.errors import ExtensionError
from sphinx_runpython.runpython import sphinx_runpython_extension as upstream
from yobx_console import hide_places


def run_python_script(script: str, comment: str | None = None, **_: object) -> tuple[str, str, None]:
    """Run what ``RunPythonDirective`` made of a snippet; its output without that of the error stream."""
    text = textwrap.dedent(script.partition("\n")[2])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snippet.py"
        path.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, str(path)], capture_output=True, text=True, cwd=folder)
    if done.returncode:
        raise ExtensionError(f"a snippet failed:\n{comment}\n{text}\n{done.stdout}\n{done.stderr}")
    return hide_places(done.stdout), "", None


class RunPython(upstream.RunPythonDirective):
    """The directive, with our defaults."""

    def run(self) -> list[nodes.Node]:
        for option, value in (("process", ""), ("noblack", ""), ("sin", " "), ("sout", "It prints:")):
            self.options.setdefault(option, value)
        made = super().run()
        for node in made:
            for paragraph in list(node.findall(nodes.paragraph)):
                if not paragraph.astext().strip():
                    paragraph.parent.remove(paragraph)
        return made


def setup(app: object) -> dict[str, bool]:
    """Called by Sphinx, after ``sphinx_runpython.runpython``."""
    upstream.run_python_script = run_python_script
    app.add_directive("runpython", RunPython, override=True)  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
