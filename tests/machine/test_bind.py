"""Carrying an activation to another thread, and what an error in a replacement tells."""

from __future__ import annotations

import sys
import traceback
from concurrent.futures import ThreadPoolExecutor

import pytest

from yobx import autopatch

SOURCE = """
def scale(x):
    if x is None:
        raise KeyError("original")
    return x * 2
"""


@pytest.fixture
def module(sandbox):
    return sandbox.load(SOURCE)


def run_elsewhere(function, *args):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result()


def test_worker_runs_the_original_unless_bound(sandbox, module):
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10)
    with autopatch.activate(sandbox.family):
        bound = autopatch.bind(lambda: module.scale(1))
        assert run_elsewhere(lambda: module.scale(1)) == 2
        assert run_elsewhere(bound) == 10


def test_bound_function_outlives_the_block_and_leaves_nothing(sandbox, module):
    original = module.scale
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10)
    with autopatch.activate(sandbox.family):
        bound = autopatch.bind(lambda: module.scale(1))
    assert module.scale is original
    assert run_elsewhere(bound) == 10
    assert module.scale is original


def test_suspension_is_carried_too(sandbox, module):
    sandbox.patch(f"{module.__name__}:scale", lambda x: x * 10)
    with autopatch.activate(sandbox.family), autopatch.suspend():
        bound = autopatch.bind(lambda: module.scale(1))
    with autopatch.activate(sandbox.family):
        assert bound() == 2
        assert module.scale(1) == 10


needs_notes = pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have notes since Python 3.11")


def report_of(error):
    return "".join(traceback.format_exception(error))


@needs_notes
def test_error_of_a_replacement_names_the_patch_and_what_switches_it_off(sandbox, module):
    def broken(x):
        raise ZeroDivisionError("replacement")

    info = sandbox.patch(f"{module.__name__}:scale", broken)
    with autopatch.activate(sandbox.family), pytest.raises(ZeroDivisionError) as caught:
        module.scale(1)
    assert str(caught.value) == "replacement"
    assert f"-{info.core.full_name} switches it off" in report_of(caught.value)


@needs_notes
def test_error_of_the_original_that_is_called_through_is_left_alone(sandbox, module):
    sandbox.patch(f"{module.__name__}:scale", lambda original, x: original(x), around=True)
    with autopatch.activate(sandbox.family), pytest.raises(KeyError) as caught:
        module.scale(None)
    assert "yobx:" not in report_of(caught.value)
    assert "switches it off" not in report_of(caught.value)
