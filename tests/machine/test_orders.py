"""Every order of import, enable, activate, suspend, export, call, reload and disable, for every kind of patch."""

from __future__ import annotations

import importlib
import itertools
import sys

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from dispatchers import is_dispatcher, waited_for
from yobx import autopatch
from yobx.autopatch import fixtures, scopes, slots
from yobx.helpers.patch_helper import patch as declare

SOURCE = """
def function(x):
    return "original"

class Base:
    def inherited(self, x):
        return "original"

class Model(Base):
    def method(self, x):
        return "original"

    @staticmethod
    def static(x):
        return "original"

    @classmethod
    def on_class(cls, x):
        return "original"

    @property
    def value(self):
        return "original"

TABLE = {"entry": lambda x: "original"}

def decorator(f):
    def wrapper(x):
        return "original" if f(x) else None
    return wrapper

class Decorated:
    @decorator
    def forward(x):
        return "unreached"

def make():
    def inner(x):
        return "original"
    return lambda x: inner(x)

cell = make()
"""

# By kind: the target, how it is called, and the options and replacement of a patch that says its own name.
KINDS = {
    "function": ("function", lambda m: m.function(0), {}, lambda name: lambda x: name),
    "around": (
        "function",
        lambda m: m.function(0),
        {"around": True},
        lambda name: lambda original, x: name if original(x) else None,
    ),
    "method": ("Model.method", lambda m: m.Model().method(0), {}, lambda name: lambda self, x: name),
    "inherited": ("Model.inherited", lambda m: m.Model().inherited(0), {}, lambda name: lambda self, x: name),
    "static": ("Model.static", lambda m: m.Model().static(0), {}, lambda name: lambda x: name),
    "on_class": ("Model.on_class", lambda m: m.Model.on_class(0), {}, lambda name: lambda cls, x: name),
    "value": ("Model.value", lambda m: m.Model().value, {}, lambda name: lambda self: name),
    "entry": ("TABLE[entry]", lambda m: m.TABLE["entry"](0), {}, lambda name: lambda x: name),
    "decorator": (
        "decorator",
        lambda m: m.Decorated.forward(0),
        {"decorator": True},
        lambda name: lambda f: lambda x: name,
    ),
    "slots": (
        "cell",
        lambda m: m.cell(0),
        {"slots": True},
        lambda name: lambda x: name,
    ),
}


def test_every_option_of_a_patch_is_in_the_matrix():
    """A new kind of patch is not forgotten here."""
    import inspect

    options = set(inspect.signature(declare).parameters)
    facts = {"target", "family", "why", "name", "versions", "see", "obsolete", "reproducer", "group", "verbatim"}
    covered = {option for _, _, chosen, _ in KINDS.values() for option in chosen} | {"also", "effect"}
    assert options - facts <= covered, "add the new kind to KINDS"


numbers = itertools.count()


class Orders(RuleBasedStateMachine):
    """What one thread does with two families on one target, and what it must see."""

    directory = None

    @initialize(kind=st.sampled_from(sorted(KINDS)))
    def begin(self, kind):
        number = next(numbers)
        path, self.call, options, make = KINDS[kind]
        self.name = f"ordered{number}"
        (self.directory / f"{self.name}.py").write_text(SOURCE)
        (self.directory / f"{self.name}_door.py").write_text("def export(function):\n    return function()\n")
        importlib.invalidate_caches()
        self.families = [f"first{number}", f"second{number}"]
        for family in self.families:
            chosen = dict(options)
            if "slots" in chosen:
                chosen["slots"] = lambda: [slots.CellSlot(sys.modules[self.name].cell.__closure__[0])]
            declare(f"{self.name}:{path}", family=family, why="a test", name="patch", **chosen)(make(family))
        self.module = None
        self.before = None
        self.stack = []
        self.enabled = []
        self.stand, scopes.stand = (
            scopes.stand,
            fixtures.Fixtures({f"{self.name}_door": {"export": scopes.make_door}}, "a test").stand,
        )

    def teardown(self):
        if not hasattr(self, "stack"):
            return
        while self.stack:
            self.stack.pop()[1].__exit__(None, None, None)
        autopatch.disable()
        scopes.stand = self.stand
        try:
            assert waited_for() == []
            if self.module is not None:
                assert self.call(self.module) == "original"
                assert not any(map(is_dispatcher, [*vars(self.module).values(), *vars(self.module.Model).values()]))
                assert "inherited" not in vars(self.module.Model)
                assert not is_dispatcher(self.module.TABLE["entry"])
                assert not is_dispatcher(self.module.cell.__closure__[0].cell_contents)
        finally:
            from yobx.autopatch import families

            for name in self.families:
                families._families.pop(name, None)
            for name in (self.name, f"{self.name}_door"):
                sys.modules.pop(name, None)

    def expected(self, exporting=False):
        """Who runs: of what is enabled the last asked for, beneath what is activated."""
        winner = "original"
        for wanted in ("always", "export") if exporting else ("always",):
            for scope, family in self.enabled:
                if scope == wanted:
                    winner = family
        for family, _ in self.stack:
            winner = family or "original"
        return winner

    @precondition(lambda self: self.module is None)
    @rule()
    def load(self):
        self.module = importlib.import_module(self.name)

    @precondition(lambda self: self.module is not None)
    @rule()
    def reload(self):
        importlib.reload(self.module)

    @rule(which=st.integers(0, 1), scope=st.sampled_from(["export", "always"]))
    def enable(self, which, scope):
        family = self.families[which]
        autopatch.enable(family, scope=scope)
        if (scope, family) not in self.enabled:
            # What was asked for already stays where it is.
            self.enabled.append((scope, family))

    @rule(which=st.integers(0, 1))
    def disable(self, which):
        autopatch.disable(self.families[which])
        self.enabled = [(scope, family) for scope, family in self.enabled if family != self.families[which]]

    @rule()
    def disable_all(self):
        autopatch.disable()
        self.enabled = []

    @precondition(lambda self: len(self.stack) < 4)
    @rule(which=st.integers(0, 1))
    def activate(self, which):
        scope = autopatch.activate(self.families[which])
        scope.__enter__()
        self.stack.append((self.families[which], scope))

    @precondition(lambda self: len(self.stack) < 4)
    @rule()
    def suspend(self):
        scope = autopatch.suspend()
        scope.__enter__()
        self.stack.append((None, scope))

    @precondition(lambda self: self.stack)
    @rule(data=st.data())
    def leave(self, data):
        index = data.draw(st.integers(0, len(self.stack) - 1))
        self.stack.pop(index)[1].__exit__(None, None, None)

    @precondition(lambda self: self.module is not None)
    @rule()
    def export(self):
        door = importlib.import_module(f"{self.name}_door")
        assert door.export(lambda: self.call(self.module)) == self.expected(exporting=True)

    @invariant()
    def the_right_body_runs(self):
        if getattr(self, "module", None) is not None:
            assert self.call(self.module) == self.expected()


def test_orders(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    Orders.directory = tmp_path
    from hypothesis.stateful import run_state_machine_as_test

    run_state_machine_as_test(
        Orders,
        settings=settings(
            max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck)
        ),
    )


def in_this_order(sandbox, family, name, steps):
    module = None
    for step in steps:
        if step == "import":
            module = importlib.import_module(name)
        elif step == "enable":
            autopatch.enable(family, scope="always")
        elif step == "disable":
            autopatch.disable(family)
        elif step == "activate":
            with autopatch.activate(family):
                if module is not None:
                    yield step, module, True
            continue
        if module is not None:
            yield step, module, None


@pytest.mark.parametrize("kind", KINDS)
def test_every_order_of_four_steps(sandbox, kind):
    path, call, options, make = KINDS[kind]
    steps = ["import", "enable", "activate", "disable"]
    for index, order in enumerate(itertools.permutations(steps)):
        name = sandbox.write(SOURCE, f"module{index}")
        family = f"{sandbox.family}k{index}"
        chosen = dict(options)
        if "slots" in chosen:
            chosen["slots"] = lambda name=name: [slots.CellSlot(sys.modules[name].cell.__closure__[0])]
        sandbox.patch(f"{name}:{path}", make("replacement"), name="patch", family=family, **chosen)
        enabled = False
        for step, module, inside in in_this_order(sandbox, family, name, order):
            done = order[: order.index(step) + 1]
            enabled = "enable" in done and ("disable" not in done or done.index("disable") < done.index("enable"))
            assert call(module) == ("replacement" if inside or enabled else "original"), (order, step)
        autopatch.disable()
        assert call(sys.modules[name]) == "original", order
