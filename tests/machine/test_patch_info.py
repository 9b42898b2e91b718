"""``PatchInfo`` and ``PatchDetails``: making, applying, taking back, telling."""

from __future__ import annotations

import functools
import itertools
import json
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from yobx import autopatch
from yobx.autopatch import notices
from yobx.helpers.patch_helper import PatchDetails, PatchInfo
from yobx.torch import apply_patches_for_model

SOURCE = '''
def scale(x):
    """Twice."""
    return x * 2

def shift(x):
    return x + 1

class Model:
    def forward(self, x):
        return x * 2

    @staticmethod
    def static(x):
        return x * 2

number = 3
'''


def times_ten(x):
    return x * 10


def times_hundred(x):
    return x * 100


@pytest.fixture
def target(sandbox):
    return sandbox.load(SOURCE)


@pytest.fixture
def name(target):
    return target.__name__


def test_do_and_undo(target):
    original = target.scale
    patch = PatchInfo.make(times_ten, target, "scale", family="mine")
    assert (patch.name, patch.family, patch.refid) == ("times_ten", "mine", "patch-mine-times_ten")
    assert (patch.state, patch.original, patch.patch) == ("removed", original, times_ten)
    patch.do()
    assert (patch.state, target.scale(1), target.scale.__name__) == ("installed", 10, "times_ten")
    patch.undo()
    assert target.scale is original
    assert patch.state == "removed"
    patch.do()
    assert patch.runs == 1
    patch.undo()


def test_targets_given_by_name_and_as_objects(target, name):
    cases = [
        (target, "scale", times_ten, lambda: target.scale(1)),
        (name, "scale", times_ten, lambda: target.scale(1)),
        (target.Model, "forward", lambda self, x: x * 10, lambda: target.Model().forward(1)),
        (f"{name}:Model", "forward", lambda self, x: x * 10, lambda: target.Model().forward(1)),
        (target.Model, "static", times_ten, lambda: target.Model.static(1)),
    ]
    for owner, attribute, function, call in cases:
        patch = PatchInfo.make(function, owner, attribute)
        assert call() == 2
        patch.do()
        assert call() == 10
        patch.undo()
        assert call() == 2


def test_the_refid_is_made_of_family_and_qualified_name(target):
    class Holder:
        def forward(self, x):
            return x * 10

    patch = PatchInfo.make(Holder.forward, target.Model, "forward", family="torch")
    assert patch.refid == "patch-torch-Holder-forward"


def orders():
    """Every order of three pairs of ``do`` and ``undo`` in which each is done before it is undone."""
    for order in itertools.permutations(["do a", "do b", "do c", "undo a", "undo b", "undo c"]):
        if all(order.index(f"do {key}") < order.index(f"undo {key}") for key in "abc"):
            yield [step.split() for step in order]


def test_do_and_undo_interleave_in_any_order(target):
    """The one applied last runs; nobody's work is lost; at the end the very original stands there."""
    original = target.scale
    patches = {key: PatchInfo.make(function, target, "scale") for key, function in BODIES.items()}
    for order in orders():
        applied = []
        for action, key in order:
            getattr(patches[key], action)()
            if action == "do":
                applied.append(key)
            else:
                applied.remove(key)
            assert target.scale(1) == (BODIES[applied[-1]](1) if applied else 2), order
        assert target.scale is original


BODIES = {"a": times_ten, "b": times_hundred, "c": lambda x: x * 1000}


def test_undo_before_do_and_do_twice_say_what_to_do(target):
    patch = PatchInfo.make(times_ten, target, "scale")
    with pytest.raises(autopatch.PatchError, match=r"'times_ten' of .*:scale is not applied; call do\(\) first"):
        patch.undo()
    patch.do()
    with pytest.raises(autopatch.PatchError, match=r"'times_ten' of .*:scale is applied already; call undo\(\) first"):
        patch.do()
    assert target.scale(1) == 10
    patch.undo()
    with pytest.raises(autopatch.PatchError, match="not applied"):
        patch.undo()
    assert target.scale(1) == 2


def test_undo_in_another_thread_is_an_error_and_changes_nothing(target):
    patch = PatchInfo.make(times_ten, target, "scale")
    patch.do()
    with ThreadPoolExecutor(1) as pool, pytest.raises(RuntimeError, match="end it there"):
        pool.submit(patch.undo).result()
    assert target.scale(1) == 10
    patch.undo()
    assert target.scale(1) == 2


@pytest.mark.parametrize("thing", [3, None, "scale", [times_ten]])
def test_a_replacement_that_cannot_be_called_is_refused_where_it_is_made(target, thing):
    with pytest.raises(TypeError, match=r"the replacement of 'scale' is .* which cannot be called; give a function"):
        PatchInfo.make(thing, target, "scale")


def test_an_attribute_that_is_not_there_is_named_where_it_is_made(target, name):
    with pytest.raises(AttributeError, match=f"cannot patch {name}:nothing .*{name} has no 'nothing'"):
        PatchInfo.make(times_ten, target, "nothing")
    with pytest.raises(AttributeError, match=r"has no 'nothing'"):
        PatchInfo.make(times_ten, target.Model, "nothing")
    with pytest.raises(TypeError, match="3 is not callable, a function was expected"):
        PatchInfo.make(times_ten, target, "number")
    with pytest.raises(TypeError, match="is a class, a function was expected"):
        PatchInfo.make(times_ten, target, "Model")


@pytest.mark.parametrize("owner", ["", ":Model", "a b:"])
def test_a_name_that_is_no_target_is_refused(owner):
    if owner == "a b:":
        PatchInfo.make(times_ten, owner, "scale")
        return
    with pytest.raises(ValueError, match="is not a target"):
        PatchInfo.make(times_ten, owner, "scale")


def test_do_says_why_it_could_not_be_applied_and_leaves_nothing(target, name):
    original = target.scale
    with pytest.raises(
        autopatch.PatchError, match=r"'times_ten' of .*:nothing was not applied: missing: .* has no 'noth"
    ):
        PatchInfo.make(times_ten, name, "nothing").do()
    with pytest.raises(autopatch.PatchError, match=r"was not applied: failed: .*parameter x does not fit"):
        PatchInfo.make(lambda: None, name, "scale").do()
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        PatchInfo.make(times_ten, f"nowhere{name}", "scale").do()
    assert target.scale is original


def test_a_module_given_by_name_is_imported_by_do(sandbox):
    name = sandbox.write(SOURCE)
    patch = PatchInfo.make(times_ten, name, "scale")
    assert name not in sys.modules
    assert patch.original is None
    patch.do()
    assert sys.modules[name].scale(1) == 10
    patch.undo()


def test_a_diff_imports_the_module_that_it_needs_the_text_of(sandbox):
    name = sandbox.write(SOURCE)
    assert "+def times_ten" in PatchInfo.make(times_ten, name, "scale").make_diff()
    missing = PatchInfo.make(times_ten, f"nowhere{name}", "scale").make_diff()
    assert "no original to show" in missing


def test_dependencies_are_applied_with_a_patch_and_shown_in_its_diff(target):
    first = PatchInfo.make(times_ten, target, "scale")
    second = PatchInfo.make(lambda x: x - 1, target, "shift")
    first.add_dependency(second)
    first.add_dependency(second)
    second.add_dependency(first)
    assert first.depends_on == [second]
    first.do()
    assert (target.scale(1), target.shift(1)) == (10, 0)
    first.undo()
    assert (target.scale(1), target.shift(1)) == (2, 2)
    diff = first.make_diff()
    assert "-    return x * 2" in diff
    assert "-    return x + 1" in diff
    with apply_patches_for_model(extra_patches=[first]) as details:
        assert {info.name for info in details} == {"times_ten", "<lambda>"}


def test_a_dependency_that_cannot_be_applied_takes_the_patch_with_it(target, name):
    original = target.scale
    first = PatchInfo.make(times_ten, target, "scale")
    first.add_dependency(PatchInfo.make(times_ten, name, "nothing"))
    with pytest.raises(autopatch.PatchError, match="nothing was not applied"):
        first.do()
    assert target.scale is original
    with pytest.raises(autopatch.PatchError, match="not applied"):
        first.undo()


def test_a_diff_is_that_of_the_two_functions_in_every_state(target):
    patch = PatchInfo.make(times_ten, target, "scale", family="mine")
    before = patch.format_diff("raw")
    assert before.splitlines()[0].startswith("--- ")
    assert before.splitlines()[1].startswith("+++ ")
    assert "-    return x * 2" in before.splitlines()
    assert "+    return x * 10" in before.splitlines()
    patch.do()
    assert patch.format_diff() == before
    patch.undo()
    assert patch.format_diff() == before


def test_a_diff_without_a_source_says_so(target):
    patch = PatchInfo.make(eval("lambda x: x"), target, "scale")
    assert "no source to show: the replacement has none" in patch.make_diff()
    target.scale = functools.partial(len)
    assert PatchInfo.make(lambda *args, **kwargs: 0, target, "scale").make_diff()


def test_rst_has_an_anchor_and_an_indented_diff(target):
    patch = PatchInfo.make(times_ten, target, "scale", family="mine")
    lines = patch.format_diff("rst").splitlines()
    assert lines[0] == ".. _patch-mine-times_ten:"
    block = lines[lines.index(".. code-block:: diff") + 1 :]
    assert all(line == "" or line.startswith("    ") for line in block)
    title = lines.index("mine: times_ten")
    assert lines[title + 1] == "=" * len(lines[title])
    with pytest.raises(ValueError, match="'html'; it is one of 'raw', 'rst'"):
        patch.format_diff("html")


def test_details_are_a_list_of_patches(target):
    one, two = PatchInfo.make(times_ten, target, "scale", family="a"), PatchInfo.make(times_hundred, target, "scale")
    details = PatchDetails()
    assert (len(details), details.n_patches, details.find("times_ten")) == (0, 0, None)
    details.append(one)
    details.extend([two])
    assert list(details) == [one, two]
    assert details[0] is one
    assert details[-1] is two
    assert details.n_patches == len(details) == 2
    assert details.find("times_hundred") is two
    assert details.find("a:times_ten") is one
    assert details.find("nothing") is None
    assert [row["name"] for row in details.data()] == ["times_ten", "times_hundred"]
    json.dumps(details.data())


def test_extra_patches_go_over_built_in_and_enabled_ones_of_the_same_target(sandbox, target):
    sandbox.patch(f"{target.__name__}:scale", times_hundred)
    extra = PatchInfo.make(times_ten, target, "scale", family="custom")
    autopatch.enable(sandbox.family, scope="always")
    assert target.scale(1) == 100
    with apply_patches_for_model(extra_patches=[extra]):
        assert target.scale(1) == 10
    assert target.scale(1) == 100
    with autopatch.activate(sandbox.family):
        with apply_patches_for_model(extra_patches=[extra]):
            assert target.scale(1) == 10
            with autopatch.activate(sandbox.family):
                assert target.scale(1) == 100
        assert target.scale(1) == 100


def test_one_patch_in_two_scopes_and_applied_besides(target):
    patch = PatchInfo.make(times_ten, target, "scale")
    original = target.scale
    patch.do()
    with apply_patches_for_model(extra_patches=[patch, patch]) as details:
        assert details.n_patches == 1
        with apply_patches_for_model(extra_patches=iter([patch])):
            assert target.scale(1) == 10
    assert target.scale(1) == 10
    patch.undo()
    assert target.scale is original


def test_two_patches_of_two_names_of_one_function(target):
    """One is applied to the function where it lives, the other where somebody else imported it."""
    target.other = original = target.scale
    first, second = PatchInfo.make(times_ten, target, "scale"), PatchInfo.make(times_hundred, target, "other")
    for one, two in ((first, second), (second, first)):
        for last_in_first_out in (True, False):
            one.do()
            two.do()
            assert target.scale(1) == target.other(1) == two.patch(1)
            for patch in (two, one) if last_in_first_out else (one, two):
                patch.undo()
            assert target.scale is target.other is original


def test_a_scope_that_fails_halfway_leaves_nothing_applied(target, name):
    original, shift = target.scale, target.shift
    notices.settings.strict = True
    patches = [
        PatchInfo.make(times_ten, target, "scale"),
        PatchInfo.make(times_ten, name, "nothing"),
        PatchInfo.make(lambda x: x, target, "shift"),
    ]
    with pytest.raises(autopatch.PatchError, match="nothing"), apply_patches_for_model(extra_patches=patches):
        raise AssertionError("the block must not begin")
    assert target.scale is original
    assert target.shift is shift
    assert not autopatch.is_active()
    notices.settings.strict = False


def test_verbose_says_what_is_applied_on_stderr(target, capsys):
    patch = PatchInfo.make(times_ten, target, "scale", family="custom")
    with apply_patches_for_model(extra_patches=[patch], verbose=1, model=target.Model()):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Model" in captured.err
    assert f"custom:times_ten of {target.__name__}:scale" in captured.err
    with apply_patches_for_model(extra_patches=[patch]):
        pass
    assert capsys.readouterr() == ("", "")


def test_a_scope_is_a_decorator(target):
    patch = PatchInfo.make(times_ten, target, "scale")

    @apply_patches_for_model(extra_patches=[patch])
    def run():
        return target.scale(1)

    assert [run(), run()] == [10, 10]
    assert target.scale(1) == 2


def test_a_patch_that_raises_inside_an_activation_names_itself(sandbox, target):
    def broken(x):
        raise ZeroDivisionError("in the replacement")

    sandbox.patch(f"{target.__name__}:scale", broken)
    with autopatch.activate(sandbox.family), pytest.raises(ZeroDivisionError) as caught:
        target.scale(1)
    assert any(entry.name == "broken" for entry in caught.traceback)
