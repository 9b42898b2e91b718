"""The snippets and commands of README and docs run as a reader would run them, each in a process of its own.

They are started together, as many at a time as there are cores; each test then tells what became of one. The
documentation's own build runs them too; this needs no Sphinx.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.rst"))]
# A directive, its options, an empty line, and what is indented under it.
RST_BLOCK = re.compile(
    r"^\.\. (code-block:: python|runpython::|console::)\n((?:    :.*\n)*)\n((?:(?:    .*)?\n)+)", re.MULTILINE
)
MD_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
# What a page may point to outside: reports of torch and transformers, and of tools whose faults are avoided here.
OUTSIDE = re.compile(
    r"https://github\.com/(pytorch/pytorch|huggingface/transformers|Samsung/TICO|gevent/gevent)/(issues|pull)/\d+|"
    r"https://docs\.pytorch\.org/.*|https://pytorch\.org/docs/.*"
)


def snippets():
    """Of every page, its snippets: (page, line, "python" or "bash", text, exit code)."""
    for path in PAGES:
        text = path.read_text(encoding="utf-8")
        blocks = RST_BLOCK if path.suffix == ".rst" else MD_BLOCK
        for block in blocks.finditer(text):
            line = text[: block.start()].count("\n") + 1
            if path.suffix == ".md":
                yield path, line, "python", block.group(1), 0
                continue
            kind = "bash" if block.group(1).startswith("console") else "python"
            code = re.search(r":exit: (\d+)", block.group(2))
            yield path, line, kind, textwrap.dedent(block.group(3)), int(code.group(1)) if code else 0


def run(text, kind, folder):
    """Run a snippet in a folder; what ``subprocess.run`` gives."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("YOBX_")}
    environment["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{environment.get('PATH', '')}"
    environment.setdefault("OMP_NUM_THREADS", "1")
    if kind == "bash":
        command = ["bash", "-c", text]
    else:
        (folder / "snippet.py").write_text(text, encoding="utf-8")
        command = [sys.executable, "snippet.py"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=environment)


@pytest.fixture(scope="module")
def outcomes(request, tmp_path_factory):
    """What became of every snippet that was asked for, in the order in which a page has its commands."""
    wanted = {item.callspec.params["snippet"] for item in request.session.items if "outcomes" in item.fixturenames}
    jobs: dict[tuple, list] = {}
    for page, line, kind, text, _ in snippets():
        asked = f"{page.name}:{line}" in wanted
        # Commands of a page share a folder and may need what an earlier one wrote.
        if kind == "bash" and any(name.startswith(f"{page.name}:") for name in wanted):
            jobs.setdefault((page, "commands"), []).append((line, kind, text))
        elif asked:
            jobs[page, line] = [(line, kind, text)]

    def work(job):
        (page, _), parts = job
        folder = tmp_path_factory.mktemp("docs")
        if parts[0][1] == "bash":
            shutil.copytree(DOCS / "examples", folder, dirs_exist_ok=True)
        return [(f"{page.name}:{line}", run(text, kind, folder)) for line, kind, text in parts]

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return dict(found for part in pool.map(work, jobs.items()) for found in part)


@pytest.mark.parametrize("snippet", [f"{page.name}:{line}" for page, line, *_ in snippets()])
def test_snippet_runs(snippet, outcomes):
    wanted = next(code for page, line, _, _, code in snippets() if f"{page.name}:{line}" == snippet)
    done = outcomes[snippet]
    assert done.returncode == wanted, f"{done.stdout}\n{done.stderr}"


def test_there_are_snippets():
    kinds = [kind for _, _, kind, _, _ in snippets()]
    assert kinds.count("python") >= 10
    assert kinds.count("bash") >= 10


@pytest.mark.parametrize("path", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"], ids=lambda path: path.name)
def test_links(path):
    """What a page points to is in the repository, or is a place outside that we know of."""
    text = path.read_text(encoding="utf-8")
    for link in (
        re.findall(r"\]\(([^)#]+)[^)]*\)", text)
        if path.suffix == ".md"
        else re.findall(r"literalinclude:: (\S+)", text)
    ):
        if "://" not in link:
            assert (path.parent / link).exists(), link
    for link in re.findall(r"https?://[^\s>`)\"']+", text):
        assert OUTSIDE.fullmatch(link), link


def test_labels_of_the_documentation():
    text = "\n".join(path.read_text(encoding="utf-8") for path in [*DOCS.rglob("*.rst"), *DOCS.rglob("*.py")])
    for label in ("l-howto-patches", "l-design-patches", "l-plot-patch-model-diff", "patches-{name}"):
        assert f".. _{label}:" in text
