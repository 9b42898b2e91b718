"""The ``console`` directive: a command that is executed when the pages are built, and what it prints.

::

    .. console::
        :exit: 1
        :stderr:
        :last: 2

        python gate.py

The commands run in a copy of ``docs/examples`` that all commands of a page share, in bash. ``:exit:`` is the exit code
that the last one must have (0 by default): with another one the build fails. ``:stderr:`` shows the error stream too,
``:first:`` and ``:last:`` only so many lines of what is printed.
"""

from __future__ import annotations

import re
import shutil
import site
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst import Directive, directives
from sphinx.errors import ExtensionError

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
_places: dict[str, tempfile.TemporaryDirectory[str]] = {}


def place_of(page: str) -> str:
    """The folder in which the commands of a page run, with the examples in it."""
    if page not in _places:
        _places[page] = tempfile.TemporaryDirectory()
        shutil.copytree(EXAMPLES, _places[page].name, dirs_exist_ok=True)
    return _places[page].name


def hide_places(text: str) -> str:
    """The text without the folders of this machine."""
    packages = {sysconfig.get_path("purelib"), *site.getsitepackages()}
    for folder in sorted(packages, key=len, reverse=True):
        text = text.replace(f"{folder}/", "")
    text = text.replace(f"{EXAMPLES}/", "").replace(f"{EXAMPLES.parent.parent}/", "")
    for prefix in {sys.prefix, sys.base_prefix}:
        text = text.replace(f"{prefix}/", "")
    return re.sub(r"/tmp/[\w./-]*/", "", text)


class Console(Directive):
    """Runs its content and shows it with what it printed."""

    has_content = True
    option_spec: ClassVar = {
        "exit": directives.nonnegative_int,
        "stderr": directives.flag,
        "first": directives.positive_int,
        "last": directives.positive_int,
    }

    def run(self) -> list[nodes.Node]:
        commands = "\n".join(self.content)
        wanted = self.options.get("exit", 0)
        done = subprocess.run(
            ["bash", "-c", commands],
            cwd=place_of(str(self.state.document.current_source)),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if "stderr" in self.options else subprocess.PIPE,
            text=True,
        )
        if done.returncode != wanted:
            raise ExtensionError(
                f"{self.state.document.current_source}:{self.lineno}: exit code {done.returncode}, not {wanted}, of\n"
                f"{commands}\n{done.stdout}\n{done.stderr or ''}"
            )
        lines = hide_places(done.stdout).rstrip().splitlines()
        first, last = self.options.get("first", 0), self.options.get("last", 0)
        if first + last and len(lines) > first + last:
            lines = [*lines[:first], "…", *lines[len(lines) - last :]]
        shown = [f"$ {command}" for command in self.content if command.strip()] + lines
        text = "\n".join(shown)
        block = nodes.literal_block(text, text)
        block["language"] = "text"
        return [block]


def setup(app: object) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("console", Console)  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}
