"""``yobx check`` on an environment that is in order, and on ones that are not."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import venv
from importlib import metadata
from pathlib import Path

import pytest

from yobx.autopatch import versions
from yobx.commands import originals
from yobx.commands.words import chosen

ROOT = Path(__file__).resolve().parents[2]
BUILD = "import sys, hatchling.build as b; b.build_wheel(sys.argv[1])"


def findings(done):
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    assert told["schema"] == "yobx.check/1"
    return told["findings"]


def of(found, check, subject=None):
    return [one for one in found if one["check"] == check and subject in (None, one["subject"])]


def test_here_all_is_well(yobx):
    done = yobx("check", "--json")
    found = findings(done)
    assert [one for one in found if one["status"] == "problem"] == []
    assert done.returncode == 0
    (start,) = of(found, "start")
    assert start["status"] == "ok" and start["subject"].endswith("yobx_autopatch.pth")
    assert of(found, "target", "torch:infer_size")[0]["status"] == "ok"
    assert of(found, "version", "torch")[0]["message"] == metadata.version("torch")


def test_originals_of_the_installed_versions_are_recorded():
    known = originals.Known.read()
    recorded = {version for by_version in known.patches.values() for version in by_version}
    for info in chosen([]):
        if versions.conflict(info.versions) is None and originals.release(info) in recorded:
            if not info.core.effect:
                importlib.import_module(info.core.module)
            kind = originals.compare(info, known).kind
            assert kind in ("known", "sourceless"), (
                f"{info.core.full_name}: {kind}; record it: python -m yobx.commands.originals"
            )


@pytest.fixture
def edited(tmp_path):
    """A torch that is the installed one, but for a line of ``infer_size``: by links, a folder ahead on the path."""
    import torch

    home = Path(torch.__file__).parent
    copy = tmp_path / "edited" / "torch"
    (copy / "_subclasses").mkdir(parents=True)
    for folder in (".", "_subclasses"):
        for entry in (home / folder).iterdir():
            target = copy / folder / entry.name
            if not target.exists() and entry.name != "__pycache__":
                target.symlink_to(entry)
    file = copy / "_subclasses" / "fake_impls.py"
    text = file.read_text()
    assert text.count("    ndim = max(dimsA, dimsB)\n") == 1
    file.unlink()
    file.write_text(text.replace("    ndim = max(dimsA, dimsB)\n", "    ndim = max(dimsB, dimsA)  # mine\n"))
    return copy, text[: text.index("    ndim = max(dimsA, dimsB)\n")].count("\n") + 1


def test_a_target_that_was_edited_by_hand_is_shown_by_its_lines(yobx, edited):
    folder, line = edited
    done = yobx("check", "torch:infer_size", PYTHONPATH=str(folder.parent))
    assert done.returncode == 1, done.stdout + done.stderr
    assert f"torch:infer_size: its original was edited by hand: fake_impls.py:{line}\n" in done.stdout
    assert "-(1 line of the known original)" in done.stdout
    assert "+    ndim = max(dimsB, dimsA)  # mine" in done.stdout


def verdict(text, releases, here="2.13.0"):
    """What is said of an original with this text."""
    known = originals.Known()
    info = next(info for info in chosen(["torch:infer_size"]))
    for version, lines in releases.items():
        name = originals.fingerprint(lines)
        known.lines[name] = "".join(originals.digests(lines))
        known.patches.setdefault(info.core.full_name, {})[version] = name
    with pytest.MonkeyPatch.context() as change:
        change.setattr(originals, "original_of", lambda info: text)
        change.setattr(originals, "release", lambda info: here)
        return originals.compare(info, known)


def test_originals_of_versions_that_are_not_known_are_not_yet_verified():
    old, new = ["def f():", "    return 1"], ["def f():", "    return 2"]
    assert verdict(old, {"2.13.0": old}).kind == "known"
    same = verdict(old, {"2.9.1": new, "2.12.0": old})
    assert same.kind == "unverified" and "not yet verified" in same.message
    changed = verdict(new, {"2.12.0": old, "2.9.1": ["def f(): ..."]})
    assert changed.kind == "changed" and "2.12.0" in changed.message
    assert changed.diff[-3:] == (" def f():", "-(1 line of the known original)", "+    return 2")
    assert verdict(old, {}).kind == "unrecorded"
    assert verdict(None, {}).kind == "sourceless"


def test_a_target_that_is_missing_or_does_not_fit_or_is_somebody_elses(yobx, tmp_path):
    (tmp_path / "usercustomize_of_test.py").write_text(
        "import functools, torch._refs, torch._subclasses.fake_impls as impls, torch._prims as prims\n"
        "import torch.fx.experimental.symbolic_shapes as shapes\n"
        "def wrapper(*args, **kwargs):\n    return inner(*args, **kwargs)\n"
        "inner = impls.infer_size\n"
        "impls.infer_size = functools.wraps(inner)(wrapper)\n"
        "impls.infer_size.__wrapped__ = inner\n"
        "del torch._refs._maybe_broadcast\n"
        "shapes._guard_or = lambda a, default, more: default\n"
        "holds = functools.partial(prims._broadcast_in_dim_meta)\n"
    )
    code = "import usercustomize_of_test, sys; from yobx.cli import main; sys.exit(main())"
    names = ["infer_size", "maybe_broadcast", "guard_or", "broadcast_in_dim"]
    environment = {n: v for n, v in os.environ.items() if not n.startswith(("YOBX_", "PYTHON"))}
    done = subprocess.run(
        [sys.executable, "-c", code, "check", "--json", *names],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 1, done.stderr
    found = findings(done)
    (missing,) = of(found, "target", "torch:maybe_broadcast")
    assert missing["status"] == "problem" and "missing" in missing["message"]
    (misfit,) = of(found, "target", "torch:guard_or")
    assert misfit["status"] == "problem" and "more" in misfit["message"]
    (clash,) = of(found, "clash")
    assert clash["subject"] == "torch:infer_size" and "usercustomize_of_test.py" in clash["message"]
    (held,) = of(found, "captured", "torch:broadcast_in_dim")
    assert held["status"] == "note" and any("functools.partial" in line for line in held["details"])


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A Python with yobx and nothing that it depends on, and a way to give it some of that."""
    folder = tmp_path_factory.mktemp("bare")
    subprocess.run([sys.executable, "-c", BUILD, str(folder)], cwd=ROOT, check=True, capture_output=True)
    venv.create(folder / "venv", with_pip=True)
    python = folder / "venv" / "bin" / "python"
    wheel = next(folder.glob("*.whl"))
    subprocess.run([python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", wheel], check=True)
    return python


def give(python, *packages):
    site = next(python.parent.parent.glob("lib/python*/site-packages"))
    for package in packages:
        for file in metadata.files(package):
            top = file.parts[0]
            if top != ".." and top != "__pycache__" and not (site / top).exists():
                (site / top).symlink_to(Path(str(file.locate())).parents[len(file.parts) - 1] / top)
    return site


def test_without_what_it_depends_on_without_torch_and_with_a_broken_pth(yobx, bare):
    done = yobx("check", "--json", python=bare)
    found = findings(done)
    assert done.returncode == 1
    assert of(found, "version", "torch")[0]["status"] == "problem"
    assert of(found, "version", "transformers")[0]["status"] == "note"
    assert "install what yobx depends on" in of(found, "target")[0]["message"]

    site = give(bare, "packaging", "wrapt")
    done = yobx("check", "--json", python=bare)
    found = findings(done)
    assert done.returncode == 1
    assert of(found, "version", "packaging")[0]["status"] == "ok"
    assert of(found, "start")[0]["status"] == "ok"
    assert of(found, "skipped", "torch:infer_size")[0]["message"] == "torch is not installed"
    listed = yobx("list", "--json", python=bare)
    assert {row["state"] for row in json.loads(listed.stdout)} == {"absent"}
    shown = yobx("diff", "infer_size", python=bare)
    assert shown.returncode == 0 and "torch is not installed" in shown.stdout

    pth = site / "yobx_autopatch.pth"
    line = pth.read_text()
    for text in ("import os; os.envir", ""):
        pth.write_text(text)
        (start,) = of(findings(yobx("check", "--json", python=bare)), "start")
        assert start["status"] == "problem" and "install yobx again" in start["message"]
        refused = yobx("run", "script.py", python=bare)
        assert refused.returncode == 1 and "yobx check" in refused.stderr
    pth.unlink()
    (start,) = of(findings(yobx("check", "--json", python=bare)), "start")
    assert start["status"] == "problem" and "not found" in start["message"]
    pth.write_text(line)


def test_another_distribution_with_a_package_of_our_name(yobx, bare):
    site = give(bare, "packaging", "wrapt")
    other = site / "boxer-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: boxer\nVersion: 1.0\n")
    (other / "top_level.txt").write_text("yobx\n")
    (other / "RECORD").write_text("yobx/__init__.py,,\n")
    (namesake,) = of(findings(yobx("check", "--json", python=bare)), "namesake")
    assert namesake["status"] == "problem" and "boxer 1.0" in namesake["message"]


def test_the_files_that_commands_read_are_installed(bare):
    code = """if True:
        from importlib import resources
        for package, name in (("commands", "originals.json"), ("attribution", "report.html")):
            assert resources.files(f"yobx.{package}").joinpath(name).is_file(), name
    """
    subprocess.run([bare, "-c", code], check=True)


def test_a_process_that_breaks_down_is_told_and_the_rest_goes_on(monkeypatch, tmp_path):
    from yobx.commands import needed

    (tmp_path / "breaks.py").write_text(
        "import os, sys\n"
        "for name in sys.argv[1:]:\n"
        "    if name == 'bad':\n        sys.stderr.write('it broke\\n')\n        os._exit(3)\n"
        "    print('{}', flush=True)\n"
    )
    monkeypatch.setattr(needed, "__name__", "breaks")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    tried = list(needed._try_in_processes(["a", "bad", "b", "c"]))
    assert tried == [("a", {}), ("bad", {"error": ["it broke"]}), ("b", {}), ("c", {})]


def test_needed_runs_the_reproducers(yobx):
    done = yobx("check", "--needed", "--json", "torch:infer_size")
    (one,) = findings(done)
    assert done.returncode == 0, one
    assert one["status"] == "ok" and one["message"].startswith("needed: without it ")


@pytest.mark.parametrize(
    ("without", "under", "status", "word"),
    [(False, True, "ok", "needed"), (True, True, "note", "superfluous"), (True, False, "problem", "no longer helps")],
)
def test_needed_tells_the_three_apart(without, under, status, word):
    from yobx.commands import needed

    outcome = {
        key: {"ok": ok, "stage": "narrow", "problems": ["x: bad"]}
        for key, ok in (("without", without), ("with", under))
    }
    finding = needed._judge("torch:x", outcome)
    assert finding.status == status and word in finding.message
