"""Many threads: no wrong body ever runs, nothing leaks from one to another, nothing stays installed."""

from __future__ import annotations

import importlib
import random
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from dispatchers import is_dispatcher
from yobx import autopatch
from yobx.autopatch import activation, families, process

SOURCE = """
def scale(x):
    return x * 2

def shift(x):
    return "original"

class Model:
    def forward(self, x):
        return "original"
"""


@pytest.fixture(autouse=True)
def threads_change_places_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(interval)


@pytest.fixture
def families_of_one_target(sandbox):
    """Families ``…0`` to ``…3`` with a patch of the same function each, which says who it is."""
    module = sandbox.load(SOURCE)
    names = [f"{sandbox.family}{index}" for index in range(4)]
    for name in names:
        sandbox.patch(f"{module.__name__}:shift", lambda x, name=name: name, name="shift", family=name)
        sandbox.patch(f"{module.__name__}:Model.forward", lambda self, x, name=name: name, name="forward", family=name)
    return module, names


def together(*functions):
    """Run functions in threads that start at one moment; what one of them raises is raised here."""
    barrier = threading.Barrier(len(functions))

    def run(function):
        barrier.wait(60)
        return function()

    with ThreadPoolExecutor(len(functions)) as pool:
        return [future.result() for future in [pool.submit(run, function) for function in functions]]


def test_threads_that_activate_suspend_and_fail_at_random(sandbox, families_of_one_target):
    module, names = families_of_one_target
    original, method = module.shift, vars(module.Model)["forward"]

    def walk(seed):
        choose = random.Random(seed)
        model = module.Model()

        def check(expected):
            assert module.shift(0) == expected
            assert model.forward(0) == expected

        def step(expected, depth):
            check(expected)
            if depth == 0:
                return
            what = choose.choice([*names, "suspend", "fail"])
            try:
                if what == "suspend":
                    with autopatch.suspend():
                        step("original", depth - 1)
                elif what == "fail":
                    with autopatch.activate(names[0]):
                        check(names[0])
                        raise ZeroDivisionError
                else:
                    with autopatch.activate(what):
                        step(what, depth - 1)
                        check(what)
            except ZeroDivisionError:
                pass
            check(expected)

        for _ in range(25):
            step("original", 4)
        assert activation.state.stack == []

    together(*(lambda seed=seed: walk(seed) for seed in range(16)))
    assert module.shift is original
    assert vars(module.Model)["forward"] is method


def test_threads_that_enter_the_same_scope_for_the_first_time_together(sandbox):
    for round in range(30):
        module = sandbox.load(SOURCE, f"first{round}")
        family = f"{sandbox.family}x{round}"
        sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10, name="scale", family=family)
        original = module.scale

        def enter(module=module, family=family):
            for _ in range(3):
                with autopatch.activate(family):
                    assert [module.scale(1) for _ in range(20)] == [10] * 20
            return module.scale(1)

        assert together(*[enter] * 6) == [2] * 6
        assert module.scale is original


def test_one_thread_leaves_while_another_runs_a_patch_of_the_same_target(sandbox, families_of_one_target):
    module, names = families_of_one_target
    stop = threading.Event()

    def come_and_go():
        for _ in range(300):
            with autopatch.activate(names[1]):
                pass
        stop.set()

    def stay():
        with autopatch.activate(names[0]):
            while not stop.is_set():
                assert module.shift(0) == names[0]

    together(come_and_go, stay, stay)


def test_a_patch_that_leaves_while_the_dispatcher_chooses_hides_no_other(sandbox, families_of_one_target):
    module, names = families_of_one_target
    entered, leave, armed = threading.Event(), threading.Event(), threading.Event()

    class Leaving(int):
        """A patch's number that is being looked at when its thread leaves the scope."""

        def __hash__(self):
            if armed.is_set():
                armed.clear()
                leave.set()
                thread.join()
            return super().__hash__()

        __eq__ = int.__eq__

    def stay():
        with autopatch.activate(names[1]):
            entered.set()
            leave.wait(60)

    patch = families.get(names[1]).patches["shift"]
    patch.number = Leaving(patch.number)
    thread = threading.Thread(target=stay)
    with autopatch.activate(names[0]):
        thread.start()
        assert entered.wait(60)
        armed.set()
        assert module.shift(0) == names[0]
        assert not thread.is_alive()


def test_threads_that_enable_and_disable_different_families_do_not_undo_each_other(sandbox, families_of_one_target):
    _, names = families_of_one_target

    def own(name):
        for _ in range(40):
            autopatch.enable(name)
            assert any(info.family == name for info in autopatch.details())
            assert name in {patch.family for patch in activation.default.exporting.patches}
            autopatch.disable(name)
            assert name not in {patch.family for patch in process._held}

    together(*(lambda name=name: own(name) for name in names))
    assert process._enabled == []
    assert activation.default.exporting.patches == ()


def test_enable_in_many_threads_at_once_enables_once(sandbox, families_of_one_target):
    module, names = families_of_one_target
    together(*[lambda: autopatch.enable(names[0], scope="always")] * 12)
    assert len(process._enabled) == 1
    assert module.shift(0) == names[0]
    together(*[autopatch.disable] * 12)
    assert not is_dispatcher(module.shift)


def test_scopes_come_and_go_while_another_thread_enables_and_disables(sandbox, families_of_one_target):
    module, names = families_of_one_target
    stop = threading.Event()

    def switch():
        for _ in range(60):
            autopatch.enable(*names)
            autopatch.disable()
        stop.set()

    def scopes():
        while not stop.is_set():
            with autopatch.activate(names[2]):
                assert module.shift(0) == names[2]
                assert module.Model().forward(0) == names[2]
            assert module.shift(0) == "original"

    together(switch, scopes, scopes)
    assert not is_dispatcher(module.shift)


def test_imports_and_scopes_at_the_same_time(sandbox):
    names = [sandbox.write(SOURCE, f"module{index}") for index in range(20)]
    for name in names:
        sandbox.patch(f"{name}:scale", lambda x: x * 10, name=name)
    stop = threading.Event()

    def load():
        for name in names:
            importlib.import_module(name)
        stop.set()

    def scopes():
        while not stop.is_set():
            with autopatch.activate(sandbox.family):
                pass
        with autopatch.activate(sandbox.family) as details:
            assert {info.state for info in details} == {"installed"}
            assert {sys.modules[name].scale(1) for name in names} == {10}

    together(load, scopes, scopes)
    assert not any(is_dispatcher(sys.modules[name].scale) for name in names)


def test_declarations_are_read_once_by_threads_that_ask_together(sandbox, monkeypatch):
    module = sandbox.load(SOURCE)
    for round in range(10):
        family = f"{sandbox.family}y{round}"
        catalogue = sandbox.write(
            f"""
            from yobx.helpers.patch_helper import patch

            @patch("{module.__name__}:scale", family="{family}", why="a test")
            def scale(x):
                return x * 10
            """,
            f"catalogue{round}",
        )
        monkeypatch.setitem(families._families, family, families.Family(family, catalogue))

        def use(family=family):
            with autopatch.activate(family):
                return module.scale(1)

        assert together(*[use] * 6) == [10] * 6


def test_a_thread_that_dies_inside_a_scope_keeps_only_its_patch_installed(sandbox, families_of_one_target):
    """What it entered, nobody can leave for it; the others still run what is theirs."""
    module, names = families_of_one_target
    scope = autopatch.activate(names[0])
    together(scope.__enter__)
    assert module.shift(0) == "original"
    with autopatch.activate(names[1]):
        assert module.shift(0) == names[1]
    assert module.shift(0) == "original"
    # For the sake of the next test.
    scope._group.close()
