"""A replacement has to take every call that the original takes; judged against Python itself."""

from __future__ import annotations

import inspect
import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from yobx import autopatch
from yobx.autopatch import signatures
from yobx.autopatch.patches import Patch
from yobx.helpers.patch_helper import PatchInfo


def function(parameters):
    return eval(f"lambda {parameters}: None")


def judge(theirs, ours, around=False):
    patch = Patch("m:f", function(ours), family="f", name="f", around=around)
    return signatures.mismatch(patch, function(theirs))


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("x", "x"),
        ("x, y", "x, y"),
        ("x, y=1", "x, y=2"),
        ("x", "x, y=None"),
        ("x", "*args, **kwargs"),
        ("x, *args", "x, *args"),
        ("x, *, y", "x, *, y"),
        ("x, *, y", "x, **kwargs"),
        ("x, *, y", "x, y"),
        ("x, y", "x, *args, **kwargs"),
        ("x, /", "y"),
        ("x, /", "*args"),
        ("*shapes", "*_shapes"),
        ("self, x", "this, x"),
        ("cls, x", "klass, x"),
        ("**kwargs", "**named"),
    ],
)
def test_a_replacement_that_fits(theirs, ours):
    assert judge(theirs, ours) is None


@pytest.mark.parametrize(
    ("theirs", "ours", "what"),
    [
        ("x", "", "x"),
        ("x", "y", "x"),
        ("x, y", "y, x", "x"),
        ("x, y", "x", "y"),
        ("x, y=1", "x, y", "y=1 (which has no default there)"),
        ("x", "x, y", "y (which the original has not)"),
        ("x", "x, *, y", "y (which the original has not)"),
        ("x, *args", "x", "*args"),
        ("x, **kwargs", "x", "**kwargs"),
        ("x, *, y", "x", "y"),
        ("x", "x, /", "x"),
        ("x, y", "x, *args", "y"),
        ("x, y", "x, *, y", "y"),
    ],
)
def test_a_replacement_that_does_not_fit_and_the_parameter_that_is_named(theirs, ours, what):
    found = judge(theirs, ours)
    assert found is not None
    assert found.parameter == what
    assert "cannot stand in for m:f" in str(found)


def test_around_leaves_the_first_parameter_to_the_original():
    assert judge("x", "original, x", around=True) is None
    assert judge("x", "original, *args, **kwargs", around=True) is None
    assert judge("x", "original, y", around=True) is not None


def test_a_builtin_without_a_signature_is_not_judged():
    patch = Patch("m:f", lambda: None, family="f", name="f")
    assert signatures.mismatch(patch, type) is None or inspect.signature(type)


names = st.lists(st.sampled_from("abcd"), unique=True, max_size=3)


@st.composite
def parameter_lists(draw):
    """A parameter list such as ``a, /, b=0, *args, c, **kwargs``."""
    chosen = draw(names)
    cuts = sorted(draw(st.lists(st.integers(0, len(chosen)), min_size=2, max_size=2)))
    positional, either, keyword = chosen[: cuts[0]], chosen[cuts[0] : cuts[1]], chosen[cuts[1] :]
    first_default = draw(st.integers(0, cuts[1]))
    texts = [f"{name}=0" if index >= first_default else name for index, name in enumerate(positional + either)]
    keyword = [f"{name}=0" if draw(st.booleans()) else name for name in keyword]
    many, named = draw(st.booleans()), draw(st.booleans())
    parts = texts[: len(positional)] + (["/"] if positional else []) + texts[len(positional) :]
    parts += ["*args"] if many else ["*"] if keyword else []
    return ", ".join(parts + keyword + (["**kwargs"] if named else []))


def calls():
    for count in range(5):
        for by_name in itertools.chain.from_iterable(itertools.combinations("abcde", n) for n in range(4)):
            yield (0,) * count, dict.fromkeys(by_name, 0)


@settings(max_examples=300, deadline=None)
@given(parameter_lists(), parameter_lists())
def test_what_is_found_to_fit_takes_every_call_of_the_original(theirs, ours):
    # Of a wrapper's `*args, **kwargs` nothing is known.
    if judge(theirs, ours) is not None or theirs == "*args, **kwargs":
        return
    original, replacement = function(theirs), function(ours)
    for args, kwargs in calls():
        try:
            original(*args, **kwargs)
        except TypeError:
            continue
        replacement(*args, **kwargs)


@settings(max_examples=100, deadline=None)
@given(parameter_lists())
def test_a_function_can_stand_in_for_itself_and_variadics_for_any(parameters):
    assert judge(parameters, parameters) is None
    assert judge(parameters, "*args, **kwargs") is None


def test_a_patch_that_does_not_fit_fails_and_the_original_stays(sandbox, capsys):
    target = sandbox.load("def scale(x, factor):\n    return x * factor\n")
    original = target.scale
    sandbox.patch(f"{target.__name__}:scale", lambda x: x, name="narrow")
    with autopatch.activate(sandbox.family) as details:
        assert target.scale is original
    info = details.find("narrow")
    assert info.state == "failed"
    assert f"cannot stand in for {target.__name__}:scale(x, factor): parameter factor does not fit" in info.reason
    assert capsys.readouterr().err.count("\n") == 1


def test_make_says_at_once_that_a_replacement_does_not_fit(sandbox):
    target = sandbox.load("class Model:\n    def forward(self, x, y):\n        return x\n")
    with pytest.raises(TypeError, match=r"cannot stand in for .*Model\.forward\(self, x, y\): parameter y"):
        PatchInfo.make(lambda self, x: x, target.Model, "forward")
