"""``yobx run`` beside ``python``: the same output, the same end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

SHOW = """
import os, sys
print(sys.argv, __file__, __name__, sys.path[0], __spec__ is None, sys.flags.optimize)
print(sorted(name for name in globals() if not name.startswith("__")))
"""

SPAWN = """
import multiprocessing, os
def work(number):
    return number * 2, os.environ.get("YOBX_PATCH")
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print([pair[0] for pair in pool.map(work, [1, 2])])
"""

SCRIPTS = {
    "arguments": (SHOW, 0),
    "raises": ("def f():\n    raise ValueError('broken')\nf()\n", 1),
    "exits": ("import sys\nsys.exit(7)\n", 7),
    "exits with a word": ("import sys\nsys.exit('because')\n", 1),
    "no syntax": ("def f(:\n", 1),
    "spawns": (SPAWN, 0),
    "reads": ("print(input(), input())\n", 0),
}


def python(*arguments, cwd, input=None):
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("YOBX_", "PYTHON"))}
    command = [sys.executable, *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, input=input, env=environment)


@pytest.mark.parametrize("name", SCRIPTS)
def test_as_python_would(yobx, tmp_path, name):
    text, code = SCRIPTS[name]
    (tmp_path / "script.py").write_text(text)
    arguments = ("script.py", "--json", "-m", "two words", "--patch")
    plain = python(*arguments, cwd=tmp_path, input="a\nb\n")
    ours = yobx("run", *arguments, input="a\nb\n")
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)
    assert ours.returncode == code


def test_a_module_as_python_would(yobx, tmp_path):
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__init__.py").touch()
    (tmp_path / "package" / "__main__.py").write_text(SHOW)
    plain = python("-m", "package", "--help", cwd=tmp_path)
    ours = yobx("run", "--patch", "torch", "-m", "package", "--help")
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_a_script_that_is_not_there(yobx, tmp_path):
    plain = python("none.py", cwd=tmp_path)
    ours = yobx("run", "none.py")
    assert (ours.returncode, ours.stdout, ours.stderr) == (plain.returncode, plain.stdout, plain.stderr)


def test_the_patches_are_asked_for_in_the_script_and_in_processes_that_it_starts(yobx, tmp_path):
    (tmp_path / "script.py").write_text(SPAWN.replace("pair[0]", "pair"))
    done = yobx("run", "--patch=torch", "script.py")
    assert done.stdout == "[(2, 'torch'), (4, 'torch')]\n", done.stderr


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_as_python_would_be(tmp_path, number):
    (tmp_path / "script.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    ends = []
    for command in ([sys.executable], [sys.executable, "-m", "yobx", "run"]):
        process = subprocess.Popen(
            [*command, "script.py"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.1)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        ends.append((process.returncode, said))
    assert ends[0] == ends[1]
    assert ends[0][0] == -number


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--patch", "trch", "s.py"], ["trch", "torch, transformers"]),
        (["--patch", "torch:nothing", "s.py"], ["nothing", "infer_size"]),
        (["--report", "report.pdf", "s.py"], ["report.pdf", ".html"]),
        (["--scope", "never", "s.py"], ["never", "always"]),
        (["--json", "--report", "report.html", "s.py"], ["--json", ".json"]),
        ([], ["name a script"]),
    ],
)
def test_words_that_are_not_understood(yobx, arguments, words):
    done = yobx("run", *arguments)
    assert done.returncode == 2
    for word in words:
        assert word in done.stderr


def test_report_is_written_and_the_next_process_writes_beside_it(yobx, tmp_path):
    (tmp_path / "script.py").write_text(
        "import os, torch\n"
        "class Add(torch.nn.Module):\n    def forward(self, x, y):\n        return x + y\n"
        "pair = torch.randn(3, 4), torch.randn(1, 4)\n"
        "D = torch.export.Dim.DYNAMIC\n"
        "os.makedirs('elsewhere', exist_ok=True)\nos.chdir('elsewhere')\n"
        "torch.export.export(Add(), pair, dynamic_shapes=({0: D}, {0: D})).run_decompositions()\n"
        "torch.export.export(torch.nn.Linear(4, 3), (torch.randn(2, 4),), dynamic_shapes=({0: D},))\n"
    )
    for _ in range(2):
        done = yobx("run", "--patch", "torch", "--report", "report.json", "script.py")
        assert done.returncode == 0, done.stderr
        assert done.stdout == ""
    first, second = sorted(tmp_path.glob("report*.json"), key=lambda path: len(path.name))
    assert first.name == "report.json"
    told = json.loads(first.read_text())
    assert told["programs"] == json.loads(second.read_text())["programs"]
    assert told["schema"] == "yobx.report/1"
    titles = [program["title"] for program in told["programs"]]
    assert titles == ["1: export of Add", "2: run_decompositions of ExportedProgram", "3: export of Linear"]
    added, decomposed, linear = told["programs"]
    for program in (added, decomposed):
        parts = {part["patch"]: part for part in program["involved"]}
        part = parts["torch:infer_size of torch._subclasses.fake_impls:infer_size"]
        assert [(node["name"], node["how"]) for node in part["nodes"]] == [("add", "shaped")]
        assert part["runs"] > 0
        assert part["nodes"][0]["value"].startswith("float32[")
    assert linear["involved"] == []
    facts = {patch["id"]: patch for patch in told["patches"]}
    one = facts["torch:infer_size of torch._subclasses.fake_impls:infer_size"]
    assert one["state"] == "installed" and one["why"] and one["diff"].startswith("---")


def test_json_on_stderr_when_the_script_ends(yobx, tmp_path):
    (tmp_path / "script.py").write_text(
        "import torch\n"
        "D = torch.export.Dim.DYNAMIC\n"
        "torch.export.export(torch.nn.Linear(4, 3), (torch.randn(2, 4),), dynamic_shapes=({0: D},))\n"
        "print('mine')\n"
    )
    done = yobx("run", "--json", "script.py")
    assert done.returncode == 0 and done.stdout == "mine\n"
    told = json.loads(done.stderr[done.stderr.index("{") :])
    assert [program["title"] for program in told["programs"]] == ["1: export of Linear"]
    assert list(tmp_path.iterdir()) == [tmp_path / "script.py"]
