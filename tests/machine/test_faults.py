"""An error at any step of coming or going: all or nothing, and the next attempt works."""

from __future__ import annotations

import contextlib
import importlib
import sys

import pytest

from yobx import autopatch
from yobx.autopatch import activation, claims, occupants, process, slots
from yobx.helpers.patch_helper import PatchInfo
from yobx.torch import apply_patches_for_model

SOURCE = """
def scale(x):
    return x * 2

def shift(x):
    return x + 1

class Base:
    def method(self, x):
        return x * 2

class Model(Base):
    def forward(self, x):
        return x * 2

TABLE = {"scale": scale, "shift": shift}
"""


@pytest.fixture
def target(sandbox):
    module = sandbox.load(SOURCE)
    sandbox.load(f"from {module.__name__} import scale, shift\n", "user")
    for path in ("scale", "Model.forward", "Model.method", "TABLE[shift]", "shift"):
        sandbox.patch(f"{module.__name__}:{path}", lambda *args, **kwargs: "replacement", name=path)
    return module


def places(module):
    return [
        vars(module)["scale"],
        vars(module)["shift"],
        vars(module.Model)["forward"],
        vars(module.Model).get("method"),
        dict(module.TABLE),
        vars(sys.modules[module.__name__.replace("target", "user")])["scale"],
    ]


def bodies(module):
    return [module.scale(1), module.shift(1), module.Model().forward(1), module.Model().method(1)]


class Fault:
    """Raises at the n-th call of any of some functions."""

    def __init__(self, monkeypatch, places, error):
        self.left = None
        self.error = error
        for owner, name in places:
            monkeypatch.setattr(owner, name, self.around(getattr(owner, name)))

    def around(self, function):
        def faulty(*args, **kwargs):
            if self.left is not None:
                if self.left == 0:
                    self.left = None
                    raise self.error("injected")
                self.left -= 1
            return function(*args, **kwargs)

        return faulty


STEPS = [
    (slots.AttributeSlot, "set"),
    (slots.ItemSlot, "set"),
    (occupants.Occupant, "enter"),
    (occupants, "claim"),
    (occupants, "prepare"),
    (activation, "push"),
    (slots, "find"),
]


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError, ZeroDivisionError])
def test_a_scope_that_is_interrupted_at_any_step_of_its_beginning_leaves_nothing(sandbox, target, monkeypatch, error):
    before = places(target)
    fault = Fault(monkeypatch, STEPS, error)
    for step in range(200):
        fault.left, finished = step, False
        with contextlib.suppress(error), autopatch.activate(sandbox.family):
            finished, fault.left = fault.left is not None, None
        assert fault.left is None
        assert places(target) == before, step
        assert bodies(target) == [2, 2, 2, 2]
        assert activation.state.stack == []
        assert claims.wanted == {}
        with autopatch.activate(sandbox.family) as details:
            assert bodies(target) == ["replacement"] * 4, step
            assert {info.state for info in details} == {"installed"}
        if finished:
            break
    else:
        raise AssertionError("it never came through")
    assert step > 10


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_enable_that_is_interrupted_at_any_step_leaves_nothing(sandbox, target, monkeypatch, error):
    before = places(target)
    fault = Fault(monkeypatch, [step for step in STEPS if step[1] != "push"], error)
    for step in range(200):
        fault.left = step
        try:
            autopatch.enable(sandbox.family, scope="always")
        except error:
            assert process._held == [], step
            assert process._enabled == [], step
            assert places(target) == before, step
        finished = fault.left is not None
        fault.left = None
        autopatch.disable()
        assert places(target) == before, step
        autopatch.enable(sandbox.family, scope="always")
        assert bodies(target) == ["replacement"] * 4, step
        autopatch.disable()
        if finished:
            break
    else:
        raise AssertionError("it never came through")


def test_the_hook_that_is_interrupted_fails_the_import_which_can_be_retried(sandbox, monkeypatch):
    name = sandbox.write(SOURCE, "late")
    sandbox.patch(f"{name}:scale", lambda x: "replacement", name="scale")
    autopatch.enable(sandbox.family)
    fault = Fault(monkeypatch, STEPS[:4], KeyboardInterrupt)
    fault.left = 0
    with pytest.raises(KeyboardInterrupt):
        importlib.import_module(name)
    assert name not in sys.modules
    module = importlib.import_module(name)
    with autopatch.activate(sandbox.family):
        assert module.scale(1) == "replacement"


def test_a_place_that_cannot_be_written_fails_its_patch_and_nothing_else(sandbox, target, capsys):
    class Frozen(dict):
        def __setitem__(self, key, value):
            raise TypeError("read-only")

    target.FROZEN = Frozen(scale=target.scale)
    original = target.scale
    sandbox.patch(
        f"{target.__name__}:scale",
        lambda x: "both",
        name="both",
        family=f"{sandbox.family}b",
        also=(f"{target.__name__}:FROZEN[scale]",),
    )
    with autopatch.activate(f"{sandbox.family}b") as details:
        assert target.scale is original
        assert details.find("both").state == "failed"
    assert "TypeError: read-only" in capsys.readouterr().err
    with autopatch.activate(sandbox.family):
        assert target.scale(1) == "replacement"


def test_a_place_that_cannot_be_given_back_keeps_no_other_from_it(sandbox, target):
    class Once(dict):
        written = 0

        def __setitem__(self, key, value):
            self.written += 1
            if self.written > 1:
                raise TypeError("written once")
            super().__setitem__(key, value)

    target.ONCE = Once(scale=lambda x: x)
    sandbox.patch(f"{target.__name__}:ONCE[scale]", lambda x: "once", name="once")
    before = places(target)
    with pytest.raises(TypeError, match="written once"), autopatch.activate(sandbox.family):
        assert target.ONCE["scale"](1) == "once"
    assert places(target) == before
    assert claims.wanted == {}
    assert not autopatch.is_active()
    assert target.ONCE["scale"](1) == 1


def test_a_patch_that_was_interrupted_at_its_place_is_installed_in_full_the_next_time():
    class InterruptedOnce(type):
        left = 1

        def __setattr__(cls, name, value):
            if InterruptedOnce.left:
                InterruptedOnce.left -= 1
                raise KeyboardInterrupt
            super().__setattr__(name, value)

    class Owner(metaclass=InterruptedOnce):
        def forward(self):
            return "original"

    def replaced(self):
        return "replacement"

    patch = PatchInfo.make(replaced, Owner, "forward")
    with pytest.raises(KeyboardInterrupt), apply_patches_for_model(extra_patches=[patch]):
        pass
    assert Owner().forward() == "original"
    with apply_patches_for_model(extra_patches=[patch]) as details:
        assert Owner().forward() == "replacement"
        assert Owner.forward.__name__ == "replaced"
        assert (details[0].state, details[0].core.reason) == ("installed", "stands in 1 place")


def test_a_builtin_class_cannot_be_patched_and_says_so(sandbox, capsys):
    patch = PatchInfo.make(lambda self, x: None, list, "append")
    with pytest.raises(autopatch.PatchError, match="was not applied: failed: TypeError: cannot set 'append'"):
        patch.do()
    with apply_patches_for_model(extra_patches=[patch]) as details:
        numbers = []
        numbers.append(1)
        assert numbers == [1]
        assert details[0].state == "failed"


def test_a_scope_whose_patch_fails_under_strict_applies_none(sandbox, target):
    from yobx.autopatch import notices

    sandbox.patch(f"{target.__name__}:nothing", lambda: None, name="nothing")
    before = places(target)
    notices.settings.strict = True
    with pytest.raises(autopatch.PatchError, match="nothing missing"), autopatch.activate(sandbox.family):
        raise AssertionError("the block must not begin")
    with pytest.raises(autopatch.PatchError, match="nothing missing"):
        autopatch.enable(sandbox.family)
    assert places(target) == before
    assert len(autopatch.details()) == 0
    notices.settings.strict = False
    with autopatch.activate(f"{sandbox.family},-{sandbox.family}:nothing"):
        assert bodies(target) == ["replacement"] * 4


def test_a_stopped_generator_in_a_scope_is_closed_when_it_is_collected(sandbox, target):
    def steps():
        with autopatch.activate(sandbox.family):
            yield
            raise AssertionError("it is not resumed")

    generator = steps()
    next(generator)
    assert bodies(target) == ["replacement"] * 4
    with pytest.raises(KeyboardInterrupt):
        generator.throw(KeyboardInterrupt)
    assert bodies(target) == [2, 2, 2, 2]
