"""Which body a thread runs: nesting, order, threads, exceptions, generators."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from yobx import autopatch
from yobx.autopatch import activation

SOURCE = """
def scale(x):
    return x * 2
"""


def times_ten(x):
    return x * 10


def times_hundred(x):
    return x * 100


@pytest.fixture
def target(sandbox):
    module = sandbox.load(SOURCE)
    sandbox.patch(f"{module.__name__}:scale", times_ten)
    return module


def run_in_thread(function):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function).result()


def test_the_original_runs_before_and_after_a_scope_and_the_replacement_inside(sandbox, target):
    assert target.scale(1) == 2
    with autopatch.activate(sandbox.family):
        assert target.scale(1) == 10
    assert target.scale(1) == 2


def test_enable_alone_leaves_the_original_in_charge(sandbox, target):
    autopatch.enable(sandbox.family)
    assert target.scale(1) == 2
    assert not autopatch.is_active()


def test_scope_always_is_active_in_every_thread(sandbox, target):
    autopatch.enable(sandbox.family, scope="always")
    assert target.scale(1) == 10
    assert run_in_thread(lambda: target.scale(1)) == 10
    with autopatch.suspend():
        assert target.scale(1) == 2
        assert run_in_thread(lambda: target.scale(1)) == 10
    autopatch.disable()
    assert target.scale(1) == 2


def test_scope_always_reaches_a_thread_that_has_an_activation_of_its_own(sandbox, target):
    other = sandbox.load("def shift(x):\n    return x + 1\n", "other")
    sandbox.patch(f"{other.__name__}:shift", lambda x: x - 1, name="shift", family=f"{sandbox.family}b")
    autopatch.enable(sandbox.family, scope="always")
    with autopatch.activate(f"{sandbox.family}b"):
        assert target.scale(1) == 10
        assert other.shift(1) == 0


def test_another_thread_sees_nothing_of_an_activation(sandbox, target):
    with autopatch.activate(sandbox.family):
        assert run_in_thread(lambda: target.scale(1)) == 2
        assert run_in_thread(autopatch.is_active) is False


def test_suspend_inside_an_activation_and_an_activation_inside_suspend(sandbox, target):
    with autopatch.activate(sandbox.family):
        with autopatch.suspend():
            assert target.scale(1) == 2
            assert not autopatch.is_active()
            with autopatch.activate(sandbox.family):
                assert target.scale(1) == 10
            assert target.scale(1) == 2
        assert target.scale(1) == 10


def test_scopes_are_closed_by_exceptions_too(sandbox, target):
    with pytest.raises(ZeroDivisionError), autopatch.activate(sandbox.family):
        target.scale(1 / 0)
    assert target.scale(1) == 2
    with autopatch.activate(sandbox.family):
        with pytest.raises(ZeroDivisionError), autopatch.suspend():
            target.scale(1 / 0)
        assert target.scale(1) == 10


def test_a_scope_is_a_decorator_that_nests_and_recurses(sandbox, target):
    @autopatch.activate(sandbox.family)
    def tens(depth):
        return [target.scale(1), *(tens(depth - 1) if depth else twos())]

    @autopatch.suspend()
    def twos():
        return [target.scale(1)]

    assert tens(2) == [10, 10, 10, 2]
    assert target.scale(1) == 2


def test_a_scope_is_no_decorator_of_what_runs_after_its_call(sandbox, target):
    async def coroutine(): ...

    def generator():
        yield

    async def both():
        yield

    for function in (coroutine, generator, both):
        with pytest.raises(TypeError, match=f"{function.__name__} is a generator or a coroutine function"):
            autopatch.activate(sandbox.family)(function)


def test_an_open_scope_cannot_be_entered_again_and_a_closed_one_can(sandbox, target):
    scope = autopatch.activate(sandbox.family)
    with scope:
        with pytest.raises(RuntimeError, match="open already"), scope:
            pass
        assert target.scale(1) == 10
    with scope:
        assert target.scale(1) == 10
    assert target.scale(1) == 2


def test_of_two_patches_of_one_target_the_one_activated_last_runs(sandbox, target):
    second = f"{sandbox.family}b"
    sandbox.patch(f"{target.__name__}:scale", times_hundred, family=second)
    with autopatch.activate(sandbox.family), autopatch.activate(second):
        assert target.scale(1) == 100
        assert autopatch.is_active(second)
        assert not autopatch.is_active(sandbox.family)
    with autopatch.activate(second), autopatch.activate(sandbox.family):
        assert target.scale(1) == 10
    autopatch.enable(second, scope="always")
    with autopatch.activate(sandbox.family):
        assert target.scale(1) == 10
    assert target.scale(1) == 100


def test_the_last_activated_runs_even_when_it_was_enabled_first(sandbox, target):
    second = f"{sandbox.family}b"
    sandbox.patch(f"{target.__name__}:scale", times_hundred, family=second)
    for order in ([sandbox.family, second], [second, sandbox.family]):
        autopatch.enable(*order)
        with autopatch.activate(sandbox.family):
            assert target.scale(1) == 10
            with autopatch.activate(second):
                assert target.scale(1) == 100
            assert target.scale(1) == 10
        autopatch.disable()


def test_scopes_may_end_in_another_order_than_they_began(sandbox, target):
    second = f"{sandbox.family}b"
    sandbox.patch(f"{target.__name__}:scale", times_hundred, family=second)
    first, last = autopatch.activate(sandbox.family), autopatch.activate(second)
    first.__enter__()
    last.__enter__()
    first.__exit__(None, None, None)
    assert target.scale(1) == 100
    last.__exit__(None, None, None)
    assert target.scale(1) == 2


def test_ending_a_scope_in_another_thread_is_an_error_and_its_own_thread_can_still_end_it(sandbox, target):
    scope = autopatch.activate(sandbox.family)
    scope.__enter__()
    with pytest.raises(RuntimeError, match="belongs to the thread that made it"):
        run_in_thread(lambda: scope.__exit__(None, None, None))
    assert target.scale(1) == 10
    scope.__exit__(None, None, None)
    assert target.scale(1) == 2


def test_a_generator_keeps_its_scope_until_it_is_closed(sandbox, target):
    def steps():
        with autopatch.activate(sandbox.family):
            yield target.scale(1)
            yield target.scale(1)

    generator = steps()
    assert next(generator) == 10
    # It is this thread's scope: the caller sees it while the generator is suspended inside.
    assert target.scale(1) == 10
    generator.close()
    assert target.scale(1) == 2
    generator = steps()
    next(generator)
    del generator
    assert target.scale(1) == 2


def test_two_generators_that_interleave_leave_nothing_active(sandbox, target):
    second = f"{sandbox.family}b"
    sandbox.patch(f"{target.__name__}:scale", times_hundred, family=second)

    def steps(family):
        with autopatch.activate(family):
            yield
            yield

    first, last = steps(sandbox.family), steps(second)
    next(first)
    next(last)
    first.close()
    assert target.scale(1) == 100
    last.close()
    assert target.scale(1) == 2


def test_coroutines_that_close_their_scopes_before_they_wait_do_not_meet(sandbox, target):
    async def patched():
        for _ in range(5):
            with autopatch.activate(sandbox.family):
                assert target.scale(1) == 10
            await asyncio.sleep(0)
            assert target.scale(1) == 2

    async def both():
        await asyncio.gather(patched(), patched())

    asyncio.run(both())
    assert activation.state.stack == []


def test_a_worker_thread_has_a_stack_of_its_own_for_every_task(sandbox, target):
    started, finish = threading.Event(), threading.Event()

    def inside():
        with autopatch.activate(sandbox.family):
            started.set()
            assert finish.wait(20)
            return target.scale(1)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(inside)
        assert started.wait(20)
        assert target.scale(1) == 2
        finish.set()
        assert future.result() == 10
        assert pool.submit(target.scale, 1).result() == 2


def test_a_patch_stays_installed_until_the_last_thread_has_left(sandbox, target):
    original = target.scale
    entered, leave = threading.Event(), threading.Event()

    def inside():
        with autopatch.activate(sandbox.family):
            entered.set()
            assert leave.wait(20)
            return target.scale(1)

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(inside)
        assert entered.wait(20)
        with autopatch.activate(sandbox.family):
            pass
        assert target.scale is not original
        leave.set()
        assert future.result() == 10
    assert target.scale is original


def test_runs_are_counted_for_the_process_and_for_each_scope_of_the_thread(sandbox, target):
    with autopatch.activate(sandbox.family) as outer:
        target.scale(1)
        with autopatch.activate(sandbox.family) as inner:
            target.scale(1)
        with autopatch.suspend():
            target.scale(1)
        run_in_thread(lambda: target.scale(1))
    assert (outer.find("times_ten").runs, inner.find("times_ten").runs) == (2, 1)
    with autopatch.activate(sandbox.family) as later:
        pass
    assert later.find("times_ten").runs == 0
    autopatch.enable(sandbox.family)
    assert autopatch.details().find("times_ten").runs == 2
