"""Version ranges, by release segment."""

from __future__ import annotations

import sys
import types

import pytest

from yobx import autopatch
from yobx.autopatch import versions


@pytest.fixture
def package(monkeypatch):
    """A package that claims a version."""

    def claim(version, name="claimed"):
        module = types.ModuleType(name)
        module.__version__ = version
        monkeypatch.setitem(sys.modules, name, module)

    return claim


@pytest.mark.parametrize(
    ("installed", "requirement", "fits"),
    [
        ("2.13.0", "claimed>=2.9", True),
        ("2.13.0+cpu", "claimed>=2.13", True),
        ("2.13.0+cpu", "claimed==2.13.0", True),
        ("2.13.0+cpu", "claimed<=2.13", True),
        ("2.13.0+cu126", "claimed>2.13", False),
        ("2.16.0.dev20260101+cpu", "claimed>=2.16", True),
        ("2.16.0.dev20260101+cpu", "claimed<2.16", False),
        ("2.16.0rc1", "claimed>=2.16", True),
        ("2.16.0a0+git1234", "claimed<2.16", False),
        ("2.9.1", "claimed>=2.9,<2.14", True),
        ("2.14.0", "claimed>=2.9,<2.14", False),
        ("2.10.0", "claimed>=2.9", True),
        ("5.24.0", "claimed>=5.0", True),
        ("4.57.6", "claimed>=5.0", False),
        ("4.57.6.post1", "claimed>=4.57.6", True),
    ],
)
def test_ranges_compare_the_release(package, installed, requirement, fits):
    package(installed)
    conflict = versions.conflict(requirement)
    assert (conflict is None) == fits
    if not fits:
        assert str(conflict) == f"meant for {requirement}, {installed} installed"


@pytest.mark.parametrize("requirement", ["claimed 2.13", "claimed>=2.9;os_name=='nt'", "claimed>>2"])
def test_what_is_no_range_is_an_error(package, requirement):
    package("2.13.0")
    with pytest.raises(ValueError, match=r"claimed|specifier"):
        versions.conflict(requirement)


def test_no_requirement_is_always_met():
    assert versions.conflict(None) is None


def test_a_package_that_is_not_installed_is_a_conflict():
    conflict = versions.conflict("nowhere-at-all>=1")
    assert str(conflict) == "meant for nowhere-at-all>=1, not installed"
    assert versions.installed("nowhere_at_all.module") == "nowhere_at_all not installed"


def test_the_version_is_read_from_the_metadata_while_the_package_is_not_loaded(run_python):
    code = """
        import sys
        from yobx.autopatch import versions
        print(versions.installed_version("wrapt"), "wrapt" in sys.modules)
    """
    version, loaded = run_python(code, check=True).stdout.split()
    assert version != "None"
    assert loaded == "False"


def test_a_patch_out_of_range_is_skipped_with_its_reason_and_says_nothing(sandbox, capsys):
    target = sandbox.load("def f(x):\n    return x\n")
    sandbox.patch(f"{target.__name__}:f", lambda x: -x, name="f", versions="wrapt>=99")
    with autopatch.activate(sandbox.family) as details:
        assert target.f(1) == 1
    (info,) = details
    assert info.state == "skipped"
    assert info.reason.startswith("meant for wrapt>=99, ")
    assert capsys.readouterr().err == ""


def test_a_requirement_that_cannot_be_read_fails_the_patch_and_nothing_else(sandbox, capsys):
    target = sandbox.load("def f(x):\n    return x\n")
    sandbox.patch(f"{target.__name__}:f", lambda x: -x, name="bad", versions="torch => two")
    sandbox.patch(f"{target.__name__}:f", lambda x: x * 10, name="good")
    with autopatch.activate(sandbox.family) as details:
        assert target.f(1) == 10
        assert [info.state for info in details] == ["failed", "installed"]
    (line,) = capsys.readouterr().err.splitlines()
    assert "bad failed" in line


def test_a_package_with_a_version_that_cannot_be_read_fails_the_patch_and_nothing_else(sandbox, package, capsys):
    package("unknown")
    target = sandbox.load("def f(x):\n    return x\n")
    sandbox.patch(f"{target.__name__}:f", lambda x: -x, name="odd", versions="claimed>=1")
    with autopatch.activate(sandbox.family) as details:
        assert target.f(1) == 1
    assert details.find("odd").state == "failed"
