"""Which body runs, told by its results: in every mode, before, inside and after an activation, in one process."""

from __future__ import annotations

import importlib
import threading

import pytest
import torch

from yobx import autopatch

SOURCE = """
import torch

def scale(x):
    return x * 2

@torch.compile(backend="eager")
def compiled(x):
    return x * 2

class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2

TABLE = {"scale": scale}
TABLE["scale"] = lambda x: x * 2

def decorate(function):
    def wrapper(self, x):
        return function(self, x) * 2
    return wrapper

class Decorated(torch.nn.Module):
    @decorate
    def forward(self, x):
        return x
"""

# path of the target, how a module calls it, its replacement, options of the patch
TARGETS = {
    "function": ("scale", lambda m, x: m.scale(x), lambda x: x * 10, {}),
    "compiled function": ("compiled", lambda m, x: m.compiled(x), lambda x: x * 10, {}),
    "method": ("Model.forward", lambda m, x: m.Model()(x), lambda self, x: x * 10, {}),
    "registry entry": ("TABLE[scale]", lambda m, x: m.TABLE["scale"](x), lambda x: x * 10, {}),
    "around": ("scale", lambda m, x: m.scale(x), lambda original, x: original(x) * 5, {"around": True}),
    "decorator": (
        "decorate",
        lambda m, x: m.Decorated()(x),
        lambda function: lambda self, x: function(self, x) * 10,
        {"decorator": True},
    ),
}
MODES = ["eager", "strict", "non-strict", "compile", "fullgraph"]


@pytest.fixture(params=TARGETS)
def target(request, sandbox):
    path, call, function, options = TARGETS[request.param]
    name = sandbox.write(SOURCE)
    sandbox.patch(f"{name}:{path}", function, name="tens", **options)
    return name, call


def user_of(module, call):
    class User(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = module.Model()
            self.decorated = module.Decorated()

        def forward(self, x):
            return call(self.stand_in, x) + 1

    user = User()

    class StandIn:
        """The module, with its classes' objects made before: making one is nothing that a graph should hold."""

        scale = staticmethod(lambda x: module.scale(x))
        compiled = staticmethod(lambda x: module.compiled(x))
        TABLE = module.TABLE
        Model = staticmethod(lambda: user.model)
        Decorated = staticmethod(lambda: user.decorated)

    user.stand_in = StandIn
    return user


class Runner:
    """Runs a module in one mode and tells which body ran."""

    def __init__(self, mode, user):
        self.mode = mode
        self.user = user
        if mode in ("compile", "fullgraph"):
            self.compiled = torch.compile(user, backend="eager", fullgraph=mode == "fullgraph")

    def __call__(self):
        x = torch.ones(3)
        if self.mode in ("strict", "non-strict"):
            program = torch.export.export(self.user, (x,), strict=self.mode == "strict").module()
        else:
            program = getattr(self, "compiled", self.user)
        return {3.0: "original", 11.0: "replacement"}[program(x)[0].item()]


def in_another_thread(function):
    result = []

    def run():
        try:
            result.append(function())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return result[0]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("when", ["before import", "after import"])
def test_before_inside_and_after_an_activation(sandbox, target, mode, when):
    name, call = target
    if when == "after import":
        importlib.import_module(name)
    autopatch.enable(sandbox.family)
    run = Runner(mode, user_of(importlib.import_module(name), call))
    by_default = "replacement" if mode in ("strict", "non-strict") else "original"
    for _ in range(2):
        assert run() == by_default
        with autopatch.activate(sandbox.family):
            assert run() == "replacement"
            with autopatch.suspend():
                assert run() == "original"
            assert run() == "replacement"
    assert run() == by_default
    autopatch.disable()
    assert run() == "original"
    with autopatch.activate(sandbox.family):
        assert run() == "replacement"
    assert run() == "original"


@pytest.mark.parametrize("mode", MODES)
def test_another_thread_runs_the_original_during_an_activation(sandbox, target, mode):
    name, call = target
    run = Runner(mode, user_of(importlib.import_module(name), call))
    with autopatch.activate(sandbox.family):
        assert run() == "replacement"
        assert in_another_thread(run) == "original"
        assert run() == "replacement"


@pytest.mark.parametrize("mode", MODES)
def test_scope_always_is_active_in_every_mode_and_thread(sandbox, target, mode):
    name, call = target
    autopatch.enable(sandbox.family, scope="always")
    run = Runner(mode, user_of(importlib.import_module(name), call))
    assert run() == "replacement"
    assert in_another_thread(run) == "replacement"
    with autopatch.suspend():
        assert run() == "original"
    autopatch.disable()
    assert run() == "original"


@pytest.mark.parametrize("fullgraph", [False, True])
def test_an_idle_dispatcher_costs_no_recompilation(sandbox, fullgraph):
    module = importlib.import_module(sandbox.write(SOURCE))
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="tens")
    autopatch.enable(sandbox.family)
    counter = torch._dynamo.testing.CompileCounter()
    function = torch.compile(lambda x: module.scale(x) + 1, backend=counter, fullgraph=fullgraph)
    for _ in range(12):
        function(torch.ones(3))
    assert counter.frame_count == 1
    for _ in range(6):
        with autopatch.activate(sandbox.family) as details:
            function(torch.ones(3))
            # What Dynamo runs is not counted: a count would be a state that it guards on.
            assert details.find("tens").runs == 0
        function(torch.ones(3))
    assert counter.frame_count == 2


def test_a_replacement_inside_a_branch_of_cond(sandbox):
    module = importlib.import_module(sandbox.write(SOURCE))
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="tens")

    class Branches(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: module.scale(x), lambda x: x - 1, (x,))

    for strict in (True, False):
        with autopatch.activate(sandbox.family):
            program = torch.export.export(Branches(), (torch.ones(3),), strict=strict).module()
        assert program(torch.ones(3))[0].item() == 10
        assert program(-torch.ones(3))[0].item() == -2
        plain = torch.export.export(Branches(), (torch.ones(3),), strict=strict).module()
        assert plain(torch.ones(3))[0].item() == 2


def test_a_name_of_export_taken_before_enable_is_covered(sandbox):
    from torch.export import export

    module = importlib.import_module(sandbox.write(SOURCE))
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="tens")

    class User(torch.nn.Module):
        def forward(self, x):
            return module.scale(x)

    autopatch.enable(sandbox.family)
    for take in (export, torch.export.draft_export):
        assert take(User(), (torch.ones(3),)).module()(torch.ones(3))[0].item() == 10
    autopatch.disable()
    assert export(User(), (torch.ones(3),)).module()(torch.ones(3))[0].item() == 2


def test_an_export_that_fails_closes_its_door(sandbox):
    module = importlib.import_module(sandbox.write(SOURCE))
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="tens")

    class Fails(torch.nn.Module):
        def forward(self, x):
            assert autopatch.is_active(sandbox.family)
            raise ZeroDivisionError

    autopatch.enable(sandbox.family)
    for strict in (True, False):
        with pytest.raises(Exception, match="" if strict else "^$"):
            torch.export.export(Fails(), (torch.ones(3),), strict=strict)
        assert not autopatch.is_active()
        assert module.scale(torch.ones(1)).item() == 2


def test_an_export_inside_an_export_keeps_the_outer_one_active(sandbox):
    module = importlib.import_module(sandbox.write(SOURCE))
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="tens")
    autopatch.enable(sandbox.family)

    class Inner(torch.nn.Module):
        def forward(self, x):
            return module.scale(x)

    class Outer(torch.nn.Module):
        def forward(self, x):
            inner.append(torch.export.export(Inner(), (torch.ones(2),), strict=False).module()(torch.ones(2))[0].item())
            return module.scale(x)

    inner = []
    program = torch.export.export(Outer(), (torch.ones(3),), strict=False).module()
    assert program(torch.ones(3))[0].item() == 10
    assert inner and set(inner) == {10.0}
    assert not autopatch.is_active()
