"""Scripts that never mention yobx, and bad input, each in a process of its own."""

from __future__ import annotations

import os
import zipapp
from pathlib import Path

import pytest

# Exports TinyBroadcastAddModel's module and says whether the program is general.
SCRIPT = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, y):
        return x + y

def general():
    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    shapes = [((3, 7), (3, 1)), ((3, 5), (3, 5)), ((3, 1), (3, 7))]
    shapes += [((1, 5), (4, 5)), ((4, 1), (1, 6)), ((2, 0), (2, 1))]
    model = Model()
    program = torch.export.export(
        model, (torch.randn(2, 5), torch.randn(2, 1)), dynamic_shapes=(dynamic, dict(dynamic))
    ).module()
    for one, two in shapes:
        x, y = torch.randn(one), torch.randn(two)
        try:
            if not torch.equal(program(x, y), model(x, y)):
                return False
        except Exception:
            return False
    try:
        program(torch.randn(3, 5), torch.randn(3, 4))
    except Exception:
        return True
    return False

def main():
    try:
        print("general" if general() else "narrow")
    except Exception as error:
        print("fails", type(error).__name__)
"""
RUN = SCRIPT + "\nmain()\n"


@pytest.mark.parametrize(
    ("flags", "env", "expected"),
    [
        ([], {"YOBX_PATCH": "torch"}, True),
        (["-I"], {"YOBX_PATCH": "torch"}, False),
        ([], {"YOBX_PATCH": "trch"}, False),
    ],
    ids=lambda value: str(value),
)
def test_a_script_that_does_not_mention_yobx(run_python, flags, env, expected):
    done = run_python(RUN, flags=flags, env=env, check=True)
    assert (done.stdout.strip() == "general") is expected
    assert ("yobx" in done.stderr) == (env.get("YOBX_PATCH") == "trch")


def test_a_zipapp(run_python, tmp_path):
    env = {"YOBX_PATCH": "torch"}
    source = tmp_path / "application"
    source.mkdir()
    (source / "exporting.py").write_text(SCRIPT)
    (source / "__main__.py").write_text("import exporting\nexporting.main()\n")
    zipapp.create_archive(source, tmp_path / "application.pyz")
    done = run_python("", command=[str(tmp_path / "application.pyz")], env=env, check=True)
    assert done.stdout == "general\n"


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_workers_that_export(run_python, tmp_path, method):
    (tmp_path / "exporting.py").write_text(SCRIPT)
    code = """
        import multiprocessing, sys, exporting
        from concurrent.futures import ThreadPoolExecutor

        if __name__ == "__main__":
            with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
                print(pool.apply(exporting.general))
            with ThreadPoolExecutor(2) as threads:
                print([future.result() for future in [threads.submit(exporting.general)]])
    """
    env = {"YOBX_PATCH": "torch"}
    assert run_python(code, method, env=env, check=True).stdout.split() == ["True", "[True]"]


def test_verbose_names_every_patch_of_the_family_once(run_python):
    code = "import torch, torch.export\nfrom yobx import autopatch\n" + (
        "import importlib\n"
        "for info in autopatch.details():\n"
        "    if info.state == 'pending':\n"
        "        importlib.import_module(info.core.module)\n"
        "print(*[info.core.full_name + ' ' + info.state for info in autopatch.details()], sep=chr(10))\n"
    )
    done = run_python(code, env={"YOBX_PATCH": "torch", "YOBX_PATCH_VERBOSE": "1"}, check=True)
    said = [line.split(": ")[1] for line in done.stderr.splitlines() if line.startswith("yobx: torch:")]
    assert sorted(said) == sorted(done.stdout.split("\n")[:-1])


def test_every_patch_of_this_version_is_installed_or_skipped_under_strict(run_python):
    code = """
        import importlib
        from yobx import autopatch
        import torch, torch.export, torch.onnx
        for info in autopatch.details():
            importlib.import_module(info.core.module)
        print({info.state for info in autopatch.details()} <= {"installed", "skipped"})
    """
    done = run_python(code, env={"YOBX_PATCH": "torch", "YOBX_PATCH_STRICT": "1"}, check=True)
    assert done.stdout == "True\n"


BAD = """
from yobx.helpers.patch_helper import patch

def raises():
    raise ZeroDivisionError("while torch is imported")

@patch("torch._refs:expand", family="bad", why="a test", slots=raises)
def broken(*args): ...

@patch("torch._refs:no_such_function", family="bad", why="a test")
def lost(*args): ...

@patch("torch._refs:_broadcast_shapes", family="bad", why="a test")
def narrow(shape): ...
"""


@pytest.fixture
def bad_family(tmp_path):
    place = tmp_path / "bad"
    (place / "bad-1.0.dist-info").mkdir(parents=True)
    (place / "bad-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: bad\nVersion: 1.0\n")
    (place / "bad-1.0.dist-info" / "entry_points.txt").write_text("[yobx.patches]\nbad = bad_patches\n")
    (place / "bad_patches.py").write_text(BAD)
    return {"PYTHONPATH": str(place), "YOBX_PATCH": "bad"}


def test_patches_that_cannot_stand_while_torch_is_imported(run_python, bad_family):
    done = run_python("import torch, torch._refs; print(torch.ones(1) + 1)", env=bad_family, check=True)
    assert done.stdout == "tensor([2.])\n"
    said = [line for line in done.stderr.splitlines() if line.startswith("yobx: ")]
    assert len(said) == 3
    assert any("bad:broken failed: torch._refs:expand (torch " in line and "ZeroDivisionError" in line for line in said)
    assert any("bad:lost missing" in line and "has no 'no_such_function'" in line for line in said)
    assert any("bad:narrow failed" in line and "parameter *_shapes does not fit" in line for line in said)


def test_patches_that_cannot_stand_are_an_error_under_strict(run_python, bad_family):
    done = run_python("import torch, torch._refs; print('ran')", env=bad_family | {"YOBX_PATCH_STRICT": "1"})
    assert (done.returncode, done.stdout) == (1, "")
    assert "PatchError: bad:" in done.stderr


@pytest.fixture
def without_torch(tmp_path):
    """The flags and variables of a Python that has yobx and what it needs, but neither torch nor transformers."""
    import packaging
    import wrapt

    import yobx

    place = tmp_path / "bare"
    place.mkdir()
    for module in (yobx, wrapt, packaging):
        os.symlink(Path(module.__file__).parent, place / module.__name__)
    return {"flags": ["-S"], "env": {"PYTHONPATH": str(place)}}


def test_without_torch_everything_can_be_asked_for_and_says_what_is_missing(run_python, without_torch):
    code = """
        from yobx import autopatch
        from yobx.torch import apply_patches_for_model
        autopatch.enable()
        print({info.state for info in autopatch.details()}, {info.reason for info in autopatch.details()})
        with apply_patches_for_model(patch_torch=True, patch_transformers=True) as details:
            print(len(details) > 10)
        details[0].make_diff()
        try:
            import torch
        except ModuleNotFoundError as error:
            print(error)
    """
    done = run_python(code, check=True, **without_torch)
    states, general, error = done.stdout.splitlines()
    assert states.startswith("{'pending'}")
    assert "torch is not installed" in states
    assert (general, error) == ("True", "No module named 'torch'")
    (line,) = done.stderr.splitlines()
    assert line == "yobx: torch and transformers asked for, but not installed: nothing to patch there"


def test_without_transformers_only_that_is_said(run_python, without_torch, tmp_path):
    stub = tmp_path / "bare" / "torch"
    stub.mkdir()
    (stub / "__init__.py").write_text("__version__ = '2.13.0'\n")
    code = "from yobx import autopatch; autopatch.enable(); import torch; print(len(autopatch.details()) > 10)"
    done = run_python(code, check=True, **without_torch)
    assert done.stdout == "True\n"
    (line,) = [line for line in done.stderr.splitlines() if "asked for" in line]
    assert line.startswith("yobx: transformers asked for, but not installed")


def test_asking_for_transformers_under_strict_without_it_is_an_error(run_python, without_torch):
    code = """
        from yobx.autopatch import startup, PatchError
        startup.main()
    """
    env = without_torch["env"] | {"YOBX_PATCH": "transformers", "YOBX_PATCH_STRICT": "1"}
    done = run_python(code, flags=without_torch["flags"], env=env)
    assert done.returncode == 2
    assert "transformers asked for, but not installed" in done.stderr
