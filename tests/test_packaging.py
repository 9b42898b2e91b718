"""What an installation brings and an uninstallation takes away, in an environment that holds nothing else."""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
BUILD = "import sys, hatchling.build as b; getattr(b, sys.argv[1])(sys.argv[2])"


def build(kind, folder):
    subprocess.run([sys.executable, "-c", BUILD, kind, str(folder)], cwd=ROOT, check=True, capture_output=True)
    return next(folder.glob("*.whl"))


@pytest.fixture(scope="module", params=["build_wheel", "build_editable"])
def environment(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    wheel = build(request.param, folder)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    return python


def run(python, *arguments, **variables):
    return subprocess.run([python, *arguments], capture_output=True, text=True, env=variables)


def test_variable_is_read_at_start(environment):
    done = run(environment, "-c", "import sys; print('yobx.autopatch' in sys.modules)", YOBX_PATCH="torch")
    assert done.stdout == "True\n", done.stderr


def test_without_the_variable_nothing_of_ours_is_imported(environment):
    code = "import sys; print([name for name in sys.modules if name.startswith('yobx')])"
    assert run(environment, "-c", code).stdout == "[]\n"


def test_start_up_imports_nothing_heavy(environment):
    code = "import sys; print(sorted({'wrapt', 'packaging', 'dataclasses', 'typing', 'inspect', 'torch',"
    code += " 'importlib.metadata'} & set(sys.modules)))"
    plain = run(environment, "-c", code).stdout
    assert run(environment, "-c", code, YOBX_PATCH="torch,transformers").stdout == plain == "[]\n"


def test_bad_value_without_torch_installed_is_one_line(environment):
    done = run(environment, "-c", "print('ran on')", YOBX_PATCH="trch")
    assert done.stdout == "ran on\n"
    (line,) = done.stderr.splitlines()
    assert "trch" in line and "torch, transformers" in line


def test_uninstalling_takes_the_pth_file_away(environment):
    site = next(environment.parent.parent.glob("lib/python*/site-packages"))
    assert list(site.glob("yobx*.pth"))
    run(environment, "-m", "pip", "uninstall", "-q", "-y", "yobx")
    assert not [path.name for path in site.iterdir() if "yobx" in path.name]
    done = run(environment, "-c", "print('ok')", YOBX_PATCH="torch")
    assert (done.stdout, done.stderr) == ("ok\n", "")


def test_wheel_holds_the_package_and_one_pth_line(tmp_path):
    with zipfile.ZipFile(build("build_wheel", tmp_path)) as wheel:
        names = wheel.namelist()
        lines = wheel.read("yobx_autopatch.pth").decode().splitlines()
    assert len(lines) == 1
    assert "yobx/py.typed" in names
    assert all(name.startswith(("yobx/", "yobx-", "yobx_autopatch.pth")) for name in names)
