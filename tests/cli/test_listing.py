"""``yobx list``, ``diff``, ``report`` and the command's own words."""

from __future__ import annotations

import json

import pytest


def test_help_says_where_to_start(yobx):
    done = yobx("--help")
    assert done.returncode == 0
    for word in ("run", "list", "diff", "check", "report", "yobx run your_script.py", "Exit codes"):
        assert word in done.stdout
    assert yobx().returncode == 2
    assert yobx("--version").stdout.startswith("yobx ")


def test_list_names_families_and_patches_and_imports_no_torch(yobx):
    done = yobx("list", "--json", flags=("-X", "importtime"))
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "yobx.commands.listing" in imported
    assert not {"torch", "transformers", "numpy"} & imported
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    one = rows["infer_size"]
    assert (one["family"], one["target"]) == ("torch", "torch._subclasses.fake_impls:infer_size")
    assert one["state"] == "applies" and one["versions"] and one["why"]
    assert {row["state"] for row in rows.values()} <= {"applies", "skipped", "absent"}
    text = yobx("list", "torch").stdout
    assert "infer_size" in text and "rope" not in text
    assert "\033" not in text
    assert "\033[1m" in yobx("list", "torch", FORCE_COLOR="1").stdout


def test_diff_of_one_patch_by_either_name(yobx):
    full, bare = yobx("diff", "torch:infer_size"), yobx("diff", "infer_size")
    assert full.returncode == 0 and full.stdout == bare.stdout
    assert "--- torch._subclasses.fake_impls:infer_size (original)" in full.stdout
    assert "broadcast_size" in full.stdout
    assert "\n@@" in full.stdout
    (row,) = json.loads(yobx("diff", "infer_size", "--json").stdout)
    assert row["diff"] in full.stdout


@pytest.mark.parametrize("command", ["list", "diff", "check"])
def test_a_name_that_is_none(yobx, command):
    done = yobx(command, "nothing_of_that_name")
    assert done.returncode == 2
    assert "nothing_of_that_name" in done.stderr and "torch, transformers" in done.stderr


def test_report_of_a_saved_program(yobx, tmp_path):
    script = (
        "import torch\n"
        "class Add(torch.nn.Module):\n    def forward(self, x, y):\n        return x + y\n"
        "D = torch.export.Dim.DYNAMIC\n"
        "pair = torch.randn(3, 4), torch.randn(1, 4)\n"
        "program = torch.export.export(Add(), pair, dynamic_shapes=({0: D}, {0: D}))\n"
        "torch.export.save(program, 'add.pt2')\n"
    )
    (tmp_path / "script.py").write_text(script)
    assert yobx("run", "script.py").returncode == 0
    told = yobx("report", "add.pt2")
    assert told.returncode == 0, told.stderr
    assert "[torch] infer_size" in told.stdout and "add (shaped)" in told.stdout
    assert "@@" in told.stdout
    # How often it ran, and whether it is installed, was true of the process that traced the program
    assert "removed" not in told.stdout and "times" not in told.stdout
    found = json.loads(yobx("report", "add.pt2", "--json").stdout)
    assert found["programs"][0]["involved"]
    assert yobx("report", "add.pt2", "-o", "out.html").stdout == ""
    assert (tmp_path / "out.html").read_text().startswith("<!doctype html>")
    for file, word in (("none.pt2", "no file"), ("script.py", "no program")):
        wrong = yobx("report", file)
        assert wrong.returncode == 1 and word in wrong.stderr
