"""Sixteen threads that activate, suspend, call, fail and exit at random while one of them exports.

``YOBX_TEST_STORM=60`` lets it last as many seconds; six otherwise.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from dispatchers import is_dispatcher
from yobx import autopatch
from yobx.autopatch import activation
from yobx.autopatch import families as known_families
from yobx.torch import apply_patches_for_model

SECONDS = float(os.environ.get("YOBX_TEST_STORM", "6"))

SOURCE = """
def shift(x):
    return "original"

class Model:
    def forward(self, x):
        return "original"
"""


class Add(torch.nn.Module):
    def forward(self, x, y):
        return x + y


def export_one_row():
    """Plain torch takes the one row of the sample for a constant, and raises as it was declared dynamic."""
    dynamic = {0: torch.export.Dim.DYNAMIC}
    sample = (torch.ones(1, 3), torch.ones(4, 3))
    return torch.export.export(Add(), sample, dynamic_shapes=(dynamic, dynamic), strict=False)


@pytest.fixture
def threads_change_places_often():
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    yield
    sys.setswitchinterval(interval)


class Walker:
    """One thread's random walk through scopes; at every step the body that runs is the one it asked for."""

    def __init__(self, module, families, seed, stop):
        self.module, self.families, self.stop = module, families, stop
        self.choose = random.Random(seed)
        self.model = module.Model()
        self.steps = 0

    def check(self, expected):
        self.steps += 1
        assert self.module.shift(0) == expected
        assert self.model.forward(0) == expected
        assert torch.broadcast_shapes((2, 1), (1, 3)) == (2, 3)

    def step(self, expected, depth):
        self.check(expected)
        if not depth or self.stop.is_set():
            return
        what = self.choose.choice([*self.families, "torch", "apply", "suspend", "fail", "crossed"])
        with contextlib.suppress(ZeroDivisionError):
            getattr(self, what, self.activate)(what, expected, depth)
        self.check(expected)

    def activate(self, what, expected, depth):
        with autopatch.activate(what):
            self.step(what, depth - 1)
            self.check(what)

    def torch(self, what, expected, depth):
        with autopatch.activate("torch"):
            self.step(expected, depth - 1)

    def apply(self, what, expected, depth):
        with apply_patches_for_model(patch_torch=True):
            self.step(expected, depth - 1)

    def suspend(self, what, expected, depth):
        with autopatch.suspend():
            self.step("original", depth - 1)

    def fail(self, what, expected, depth):
        with autopatch.activate(self.families[0]):
            self.check(self.families[0])
            raise ZeroDivisionError

    def crossed(self, what, expected, depth):
        """Two scopes that end in the order in which they began."""
        first, second = (autopatch.activate(name) for name in self.families[:2])
        first.__enter__()
        second.__enter__()
        self.check(self.families[1])
        first.__exit__(None, None, None)
        self.check(self.families[1])
        second.__exit__(None, None, None)

    def __call__(self):
        while not self.stop.is_set():
            self.step("original", 4)
        assert activation.state.stack == []
        return self.steps


class Exporter(Walker):
    """Exports, with the patches and without, in turn."""

    def __call__(self):
        while not self.stop.is_set():
            with autopatch.activate("torch"):
                program = export_one_row()
            assert program.module()(torch.ones(4, 3), torch.ones(1, 3)).shape == (4, 3)
            with autopatch.activate("torch"), autopatch.suspend(), pytest.raises(Exception, match="pecialized"):
                export_one_row()
            self.steps += 1
        assert activation.state.stack == []
        return self.steps


@pytest.mark.timeout(SECONDS * 3 + 240)
def test_no_wrong_body_runs_and_nothing_stays(sandbox, threads_change_places_often):
    module = sandbox.load(SOURCE)
    families = [f"{sandbox.family}{index}" for index in range(3)]
    for name in families:
        sandbox.patch(f"{module.__name__}:shift", lambda x, name=name: name, name="shift", family=name)
        sandbox.patch(f"{module.__name__}:Model.forward", lambda self, x, name=name: name, name="forward", family=name)
    original, method = module.shift, vars(module.Model)["forward"]
    broadcast = torch._refs._maybe_broadcast
    stop = threading.Event()
    workers = [Exporter(module, families, 0, stop), *(Walker(module, families, seed, stop) for seed in range(1, 16))]
    with ThreadPoolExecutor(len(workers)) as pool:
        running = [pool.submit(worker) for worker in workers]
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and not any(future.done() for future in running):
            time.sleep(0.1)
        stop.set()
        steps = [future.result() for future in running]
    assert all(steps)
    assert module.shift is original
    assert vars(module.Model)["forward"] is method
    assert torch._refs._maybe_broadcast is broadcast
    assert not is_dispatcher(broadcast)
    everything = [patch for name in ("torch", *families) for patch in known_families.get(name).patches.values()]
    assert {patch.users for patch in everything} == {0}
