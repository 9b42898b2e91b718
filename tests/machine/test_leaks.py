"""A thousand times on and off: no object more than before."""

from __future__ import annotations

import gc
import importlib
import sys
import tracemalloc
import weakref

import pytest

from yobx import autopatch
from yobx.autopatch import fixtures, groups, occupants
from yobx.helpers.patch_helper import PatchInfo
from yobx.torch import apply_patches_for_model

SOURCE = """
def scale(x):
    return x * 2

class Base:
    def method(self, x):
        return x * 2

class Model(Base):
    @property
    def value(self):
        return 1

TABLE = {"scale": scale}
"""


@pytest.fixture
def target(sandbox):
    module = sandbox.load(SOURCE)
    sandbox.load(f"from {module.__name__} import scale\n", "user")
    for path in ("scale", "Model.method", "TABLE[scale]"):
        sandbox.patch(f"{module.__name__}:{path}", lambda *args, **kwargs: "ours", name=path)
    sandbox.patch(f"{module.__name__}:Model.value", lambda self: "ours", name="value")
    sandbox.patch(f"{module.__name__}:nothing", lambda: None, name="nothing")
    sandbox.patch(f"{module.__name__}:scale", lambda x: x, name="old", versions="wrapt<1")
    return module


@pytest.fixture
def door(sandbox, monkeypatch):
    """A door that is there without torch."""
    from yobx.autopatch import scopes

    module = sandbox.load("def export(function):\n    return function()\n", "exporting")
    doors = fixtures.Fixtures({module.__name__: {"export": scopes.make_door}}, "a test")
    monkeypatch.setattr(scopes, "stand", doors.stand)
    return module


def objects_and_memory():
    gc.collect()
    return len(gc.get_objects()), tracemalloc.get_traced_memory()[0]


def grows(action, times):
    """How many objects and bytes ``times`` more of an action leave, once what is kept for good has been made."""
    for _ in range(20):
        action()
    tracemalloc.start()
    try:
        objects, memory = objects_and_memory()
        for _ in range(times):
            action()
        more_objects, more_memory = objects_and_memory()
    finally:
        tracemalloc.stop()
    return more_objects - objects, more_memory - memory


def check(action, times=200):
    objects, memory = grows(action, times)
    assert objects < times // 20, f"{objects} objects in {times} times"
    # What is noted of every loaded module is made anew now and then.
    assert memory < times * 200 + 50_000 + 100 * len(sys.modules), f"{memory} bytes in {times} times"


def test_enable_and_disable(sandbox, target, door):
    def cycle():
        autopatch.enable(sandbox.family)
        autopatch.disable()

    check(cycle, 1000)


def test_scopes(sandbox, target, door):
    def cycle():
        with autopatch.activate(sandbox.family), autopatch.suspend():
            pass

    check(cycle)


def test_scopes_while_enabled(sandbox, target, door):
    autopatch.enable(sandbox.family)

    def cycle():
        with autopatch.activate(sandbox.family) as details:
            target.scale(1)
        details.find("scale")
        door.export(lambda: target.scale(1))

    check(cycle)


def test_scopes_that_fail(sandbox, target):
    def cycle():
        try:
            with autopatch.activate(sandbox.family):
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass

    check(cycle)


def test_new_patches_of_one_place_every_time(target):
    """A pipeline makes its own patch for every export."""

    def cycle():
        patch = PatchInfo.make(lambda x: x, target, "scale", family="custom")
        with apply_patches_for_model(extra_patches=[patch]):
            assert target.scale(1) == 1

    check(cycle)


def test_a_patch_that_is_no_longer_used_goes_away_with_its_replacement(target):
    def replacement(x):
        return x

    patch = PatchInfo.make(replacement, target, "scale", family="custom")
    patch.do()
    patch.undo()
    seen = weakref.ref(replacement)
    del patch, replacement
    gc.collect()
    assert seen() is None


def test_reloads(sandbox, target):
    autopatch.enable(sandbox.family)
    # Python itself keeps some text of every reload: only what is made of it is counted.
    objects, _ = grows(lambda: importlib.reload(target), 60)
    assert objects < 6


def test_modules_that_come_and_go_are_not_kept(sandbox):
    name = sandbox.write(SOURCE)
    sandbox.patch(f"{name}:scale", lambda x: x, name="scale")
    seen = []
    for _ in range(5):
        with autopatch.activate(sandbox.family):
            module = importlib.import_module(name)
            assert module.scale(1) == 1
            seen.append(weakref.ref(module))
        del sys.modules[name], module
    gc.collect()
    alive = [reference for reference in seen if reference() is not None]
    assert len(alive) <= 1, f"{len(alive)} of {len(seen)} are kept"


def test_classes_that_come_and_go_are_not_kept():
    def make():
        class Local:
            def forward(self, x):
                return x * 2

        patch = PatchInfo.make(lambda self, x: x * 10, Local, "forward", family="custom")
        with apply_patches_for_model(extra_patches=[patch]):
            assert Local().forward(1) == 10
        return weakref.ref(Local)

    seen = [make() for _ in range(5)]
    gc.collect()
    alive = [reference for reference in seen if reference() is not None]
    assert len(alive) <= 1, f"{len(alive)} of {len(seen)} are kept"


def test_nothing_is_noted_of_a_scope_that_has_ended(sandbox, target):
    with autopatch.activate(sandbox.family):
        assert groups.known
    assert groups.known == {}
    assert groups._shown == []
    assert [occupant.placed for occupant in occupants._table.values() if occupant.entries] == []
