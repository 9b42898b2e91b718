"""What is asked for: names, exclusions, and what is said of a wrong one."""

from __future__ import annotations

import sys
import types

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchers import waited_for
from yobx import autopatch
from yobx.autopatch import families, notices


@pytest.fixture
def three(sandbox):
    """A family of patches a, b and c."""
    target = sandbox.load("".join(f"def {name}(x):\n    return '{name}'\n" for name in "abc"))
    for name in "abc":
        sandbox.patch(f"{target.__name__}:{name}", lambda x, name=name: name.upper(), name=name)
    return target


def active(target):
    return "".join(getattr(target, name)(0) for name in "abc")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["F"], "ABC"),
        (["F:a"], "Abc"),
        (["F:a,F:c"], "AbC"),
        (["F:a", "F:c"], "AbC"),
        (["F,-F:b"], "AbC"),
        (["-F:b,F"], "AbC"),
        ([" F , - F:b "], None),
        (["F:a,-F:a"], "abc"),
        (["F,-F"], "abc"),
        (["F,F"], "ABC"),
        (["F,,"], "ABC"),
        (["0"], "abc"),
        ([""], "abc"),
        (["F,0"], "ABC"),
    ],
)
def test_what_a_selection_activates(sandbox, three, words, expected):
    words = [word.replace("F", sandbox.family) for word in words]
    if expected is None:
        with pytest.raises(ValueError, match="no family"):
            autopatch.activate(*words)
        return
    with autopatch.activate(*words):
        assert active(three) == expected
    assert active(three) == "abc"


@pytest.mark.parametrize("call", [autopatch.enable, autopatch.activate, autopatch.is_active, autopatch.disable])
def test_an_unknown_family_is_an_error_that_lists_the_valid_ones(call):
    with pytest.raises(ValueError, match=r"no family of patches is called 'trch'; there are: torch, transformers"):
        call("trch")
    assert waited_for() == []


@pytest.mark.parametrize("call", [autopatch.enable, autopatch.activate, autopatch.is_active])
@pytest.mark.parametrize("prefix", ["", "-"])
def test_an_unknown_patch_is_an_error_that_lists_the_valid_ones(sandbox, three, call, prefix):
    with pytest.raises(ValueError, match=f"'{sandbox.family}' has no patch called 'd'; it has: a, b, c"):
        call(f"{prefix}{sandbox.family}:d")


def test_one_bad_word_enables_nothing(sandbox, three):
    with pytest.raises(ValueError, match="trch"):
        autopatch.enable(sandbox.family, "trch", scope="always")
    assert active(three) == "abc"
    assert len(autopatch.details()) == 0


def test_an_unknown_scope_is_an_error_that_lists_the_valid_ones(sandbox, three):
    with pytest.raises(ValueError, match="scope is 'export '; it is one of 'export', 'always'"):
        autopatch.enable(sandbox.family, scope="export ")


def test_enable_is_idempotent_and_adds(sandbox, three):
    for _ in range(3):
        autopatch.enable(f"{sandbox.family}:a", scope="always")
    assert active(three) == "Abc"
    autopatch.enable(f"{sandbox.family}:b", scope="always")
    assert active(three) == "ABc"
    assert [info.name for info in autopatch.details()] == ["a", "b"]
    autopatch.disable()
    assert active(three) == "abc"


def test_disable_takes_back_a_family_and_leaves_the_others(sandbox, three):
    other = f"{sandbox.family}b"
    sandbox.patch(f"{three.__name__}:c", lambda x: "other", name="c", family=other)
    autopatch.enable(sandbox.family, f"{sandbox.family}:a", scope="always")
    autopatch.enable(other, scope="always")
    autopatch.disable(sandbox.family)
    assert active(three) == "abother"
    autopatch.disable(other)
    assert active(three) == "abc"
    autopatch.disable(other)
    autopatch.disable()


def test_disable_inside_a_scope_leaves_the_scope_its_patches(sandbox, three):
    autopatch.enable(sandbox.family, scope="always")
    with autopatch.activate(f"{sandbox.family}:a"):
        autopatch.disable()
        assert active(three) == "Abc"
    assert active(three) == "abc"


def test_enable_nothing_does_nothing(sandbox):
    for nothing in ("0", "", "0,"):
        autopatch.enable(nothing)
        assert waited_for() == []
        assert len(autopatch.details()) == 0


def test_is_active_tells_of_this_thread_and_of_single_patches(sandbox, three):
    autopatch.enable(sandbox.family)
    assert not autopatch.is_active()
    assert not autopatch.is_active(sandbox.family)
    with autopatch.activate(f"{sandbox.family}:a"):
        assert autopatch.is_active()
        assert autopatch.is_active(sandbox.family)
        assert autopatch.is_active(f"{sandbox.family}:a")
        assert not autopatch.is_active(f"{sandbox.family}:b")
        assert not autopatch.is_active("torch")


def test_a_family_that_is_enabled_gets_patches_registered_later(sandbox, three):
    from yobx.helpers.patch_helper import PatchInfo

    autopatch.enable(sandbox.family, scope="always")
    three.d = lambda x: "d"
    autopatch.register(PatchInfo.make(lambda x: "D", three.__name__, "d", family=sandbox.family))
    assert three.d(0) == "D"


def test_a_second_patch_of_the_same_name_is_refused(sandbox, three):
    from yobx.helpers.patch_helper import PatchInfo

    def a(x):
        return "another"

    info = PatchInfo.make(a, three.__name__, "b", family=sandbox.family)
    with pytest.raises(ValueError, match=f"'{sandbox.family}' has a patch called 'a' already, on {three.__name__}:a"):
        autopatch.register(info)
    autopatch.enable(sandbox.family, scope="always")
    assert active(three) == "ABC"


def test_registering_the_same_patch_twice_changes_nothing(sandbox, three):
    info = families.get(sandbox.family).patches["a"].info
    autopatch.register([info, info])
    autopatch.register(iter([info]))
    assert list(families.get(sandbox.family).patches) == ["a", "b", "c"]


def test_a_patch_that_is_out_of_range_lets_the_other_of_its_target_run(sandbox, three):
    other = f"{sandbox.family}v"
    sandbox.patch(f"{three.__name__}:a", lambda x: "for this", name="this", family=other, versions="wrapt>=1")
    sandbox.patch(f"{three.__name__}:a", lambda x: "for others", name="others", family=other, versions="wrapt>=99")
    with autopatch.activate(other) as details:
        assert three.a(0) == "for this"
    assert details.find("others").state == "skipped"
    assert "meant for wrapt>=99" in details.find("others").reason


def test_an_out_of_range_patch_of_a_later_family_does_not_switch_off_the_built_in_one(sandbox, three):
    other = f"{sandbox.family}v"
    sandbox.patch(f"{three.__name__}:a", lambda x: "for others", name="others", family=other, versions="wrapt>=99")
    with autopatch.activate(sandbox.family, other):
        assert three.a(0) == "A"
    with autopatch.activate(sandbox.family), autopatch.activate(other):
        assert three.a(0) == "A"


def test_families_of_installed_distributions_are_found_by_name_only_when_needed(sandbox, monkeypatch):
    target = sandbox.load("def f(x):\n    return x\n")
    plugin = sandbox.write(
        f"""
        from yobx.helpers.patch_helper import patch

        @patch("{target.__name__}:f", family="plugin{sandbox.number}", why="a test")
        def f(x):
            return "plugin"
        """,
        "plugin",
    )
    name = f"plugin{sandbox.number}"
    sandbox.families.add(name)
    distribution = types.SimpleNamespace(name="a-distribution")
    entries = [
        types.SimpleNamespace(name=name, value=plugin, dist=distribution),
        types.SimpleNamespace(name="torch", value="elsewhere", dist=distribution),
    ]
    asked = []

    def entry_points(group):
        asked.append(group)
        return entries

    from importlib import metadata

    monkeypatch.setattr(metadata, "entry_points", entry_points)
    monkeypatch.setattr(families, "_discovered", False)
    families.get("torch")
    assert asked == []
    with autopatch.activate(name):
        assert target.f(1) == "plugin"
    assert asked == ["yobx.patches"]
    assert families.get("torch").origin == "yobx"
    assert families.known()[name].origin == "a-distribution"
    assert plugin in sys.modules


def test_a_distributions_family_cannot_take_a_built_in_name(monkeypatch, capsys):
    from importlib import metadata

    entry = types.SimpleNamespace(name="torch", value="elsewhere", dist=types.SimpleNamespace(name="intruder"))
    monkeypatch.setattr(metadata, "entry_points", lambda group: [entry])
    monkeypatch.setattr(families, "_discovered", False)
    families.known()
    assert "family 'torch' of intruder is ignored" in capsys.readouterr().err
    assert families.get("torch").source == "yobx.torch.in_torch"


def test_a_family_whose_declarations_raise_says_so_and_enables_nothing(sandbox, monkeypatch):
    broken = sandbox.write("raise ZeroDivisionError('in a catalogue')\n", "catalogue")
    monkeypatch.setitem(families._families, sandbox.family, families.Family(sandbox.family, broken))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError, match="in a catalogue"):
            autopatch.enable(sandbox.family)
    assert len(autopatch.details()) == 0


def test_a_package_that_is_not_installed_is_said_once(sandbox, monkeypatch, capsys):
    family = families.Family(sandbox.family, None, f"nowhere{sandbox.number}")
    monkeypatch.setitem(families._families, sandbox.family, family)
    monkeypatch.setattr(families, "BUILT_IN", (*families.BUILT_IN, sandbox.family))
    for _ in range(2):
        autopatch.enable(sandbox.family)
    (line,) = capsys.readouterr().err.splitlines()
    assert f"nowhere{sandbox.number} asked for, but not installed" in line
    autopatch.disable()
    notices.settings.strict = True
    with pytest.raises(autopatch.PatchError, match="not installed"):
        autopatch.enable(sandbox.family)
    notices.settings.strict = False
    assert len(autopatch.details()) == 0


words = st.sampled_from(["F", "F:a", "F:b", "F:c", "-F:a", "-F:b", "-F", "0", ""])


@given(st.lists(words, max_size=6))
def test_exclusions_hold_wherever_they_are_written(asked):
    family = families.Family("generated", None)
    families._families["generated"] = family
    try:
        from yobx.autopatch.patches import Patch

        for name in "abc":
            families.declare(Patch(f"nowhere:{name}", len, family="generated", name=name))
        selection = families.Selection.parse([",".join(asked).replace("F", "generated")])
        chosen = {patch.name for patch in selection.patches()}
    finally:
        del families._families["generated"]
    wanted = set("abc") if "F" in asked else {word[2:] for word in asked if word.startswith("F:")}
    refused = set("abc") if "-F" in asked else {word[3:] for word in asked if word.startswith("-F:")}
    assert chosen == wanted - refused


def test_the_built_in_families_are_declared_without_torch_and_transformers(run_python):
    code = """
        import sys
        from yobx import autopatch
        from yobx.autopatch import families
        assert len(families.get("torch").load()) > 3
        assert len(families.get("transformers").load()) > 3
        autopatch.enable()
        assert [info.state for info in autopatch.details()].count("pending") == len(autopatch.details())
        print("torch" in sys.modules, "transformers" in sys.modules)
    """
    assert run_python(code, check=True).stdout.split() == ["False", "False"]
