"""Every declared patch is needed and sufficient: shown by the reproducer that it is shipped with."""

from __future__ import annotations

import subprocess
import sys

import pytest

from yobx import autopatch
from yobx.autopatch import control, families, versions

FAMILIES = ("torch", "transformers")


def declared():
    return [patch for name in FAMILIES for patch in families.get(name).load().values()]


def in_range(patch):
    return versions.conflict(patch.versions) is None


def exports_under(patches, info):
    with control.Scope(lambda: patches) as details:
        return info.reproducer().run(), details


def shown_in_a_new_process(patch):
    """An effect stays for the process, so the run without it must come first in one that has not seen it."""
    script = """if True:
        import sys
        from yobx.autopatch import control, families, versions
        patches = [p for n in ("torch", "transformers") for p in families.get(n).load().values()]
        patches = [p for p in patches if versions.conflict(p.versions) is None]
        one = next(p for p in patches if p.full_name == sys.argv[1])
        with control.Scope(lambda: [p for p in patches if p is not one and not p.effect]):
            without = one.info.reproducer().run()
        with control.Scope(lambda: patches):
            outcome = one.info.reproducer().run()
        assert not without.ok, "superfluous"
        assert outcome.ok, outcome.problems
    """
    done = subprocess.run([sys.executable, "-c", script, patch.full_name], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("patch", [p for p in declared() if p.info.reproducer], ids=lambda patch: patch.full_name)
def test_reproducer_fails_without_the_patch_and_is_general_with_it(patch):
    conflict = versions.conflict(patch.versions)
    if conflict is not None:
        pytest.skip(str(conflict))
    everything = [other for other in declared() if in_range(other)]
    group = patch.info.group
    rest = [other for other in everything if other is not patch and (group is None or other.info.group != group)]
    if patch.effect:
        shown_in_a_new_process(patch)
        return
    without, _ = exports_under(rest, patch.info)
    assert not without.ok, f"{patch.full_name} is superfluous on {versions.installed(patch.module)}"

    outcome, details = exports_under(everything, patch.info)
    assert outcome.ok, "\n".join(outcome.problems)
    if patch.info.reproducer().counted:
        assert details.find(patch.full_name).runs, f"{patch.full_name} never ran"


@pytest.mark.parametrize("patch", declared(), ids=lambda patch: patch.full_name)
def test_declaration_says_why_for_which_versions_and_what_makes_it_obsolete(patch):
    assert patch.info.why
    assert patch.info.obsolete
    assert patch.versions
    assert patch.info.reproducer is not None


@pytest.mark.parametrize("patch", [p for p in declared() if in_range(p)], ids=lambda patch: patch.full_name)
def test_target_is_there_and_fits_on_the_installed_versions(patch):
    import importlib

    importlib.import_module(patch.module)
    with control.Scope(lambda: [patch]):
        assert patch.state == "installed", patch.reason


@pytest.mark.parametrize("torch", ["2.9.1", "2.10.0", "2.11.0", "2.12.1", "2.13.0", "2.14.1", "2.15.0"])
@pytest.mark.parametrize("transformers", ["4.57.6", "5.0.0", "5.24.0"])
def test_no_two_patches_are_meant_for_one_place(monkeypatch, torch, transformers):
    """The later one would run instead of the other, whose cause would go unmended."""
    found = {"torch": torch, "transformers": transformers}
    monkeypatch.setattr(versions, "installed_version", found.get)
    of_place = {}
    for patch in declared():
        if in_range(patch):
            of_place.setdefault(patch.place, []).append(patch.full_name)
    assert not {place: names for place, names in of_place.items() if len(names) > 1}


def test_nothing_is_active_outside():
    assert not autopatch.is_active()
