"""An export is what it is in a fresh process, whatever was exported before it, patched or plain."""

from __future__ import annotations

import pytest

SCRIPT = """
    import sys
    import torch
    from yobx import autopatch
    from yobx.torch import apply_patches_for_model

    DYNAMIC = torch.export.Dim.DYNAMIC


    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y


    class Expand(torch.nn.Module):
        def forward(self, x, y):
            return x.expand(y.shape[0], -1) * y.sum(-1, keepdim=True)


    class Reshape(torch.nn.Module):
        def forward(self, x, y):
            return x.transpose(0, 1).reshape(x.shape[0] * x.shape[1], 1) + y.sum()


    class Layers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(5, 3)

        def forward(self, x, y):
            return torch.softmax(self.linear(x), -1).cumsum(0), torch.cat([y, y])


    CASES = {
        "add": (Add(), (2, 5), (2, 1), {0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}),
        "expand": (Expand(), (1, 5), (4, 5), {1: DYNAMIC}, {0: DYNAMIC}),
        "reshape": (Reshape(), (1, 5), (2, 2), {0: DYNAMIC, 1: DYNAMIC}, {0: DYNAMIC}),
        "layers": (Layers(), (1, 5), (3, 4), {0: DYNAMIC}, {0: DYNAMIC, 1: DYNAMIC}),
    }


    def show(name, what):
        print(f"{name}: {what}".replace(chr(10), " | "))


    def exports(label):
        for name, (model, one, two, shape, other) in CASES.items():
            for strict in (False, True) if name == "add" else (False,):
                torch._dynamo.reset()
                try:
                    program = torch.export.export(
                        model, (torch.ones(one), torch.ones(two)), dynamic_shapes=(shape, other), strict=strict
                    )
                except Exception as error:
                    show(f"{label} {name} {strict}", f"{type(error).__name__}: {str(error).splitlines()[0]}")
                    continue
                show(f"{label} {name} {strict}", program.graph_module.code + str(program.range_constraints))
                decomposed = program.run_decompositions()
                show(f"{label} {name} {strict} decomposed", decomposed.graph_module.code)
                for rows, columns in ((1, 5), (3, 5), (4, 1)):
                    try:
                        outcome = [tuple(o.shape) for o in torch.utils._pytree.tree_leaves(
                            program.module()(torch.ones(rows, columns), torch.ones(two)))]
                    except Exception as error:
                        outcome = type(error).__name__
                    show(f"{label} {name} {strict} on {rows}x{columns}", outcome)


    for step in sys.argv[1].split(","):
        if step == "scope":
            with apply_patches_for_model(patch_torch=True):
                exports("patched")
        elif step == "enable":
            autopatch.enable("torch")
            exports("patched")
            autopatch.disable()
        else:
            exports("plain")
        print("----")
"""


@pytest.fixture
def exports(run_python):
    return lambda steps: run(run_python, steps)


def run(run_python, steps):
    if steps not in _fresh:
        _fresh[steps] = run_python(SCRIPT, steps, check=True).stdout.split("----\n")[:-1]
    return _fresh[steps]


_fresh: dict[str, list[str]] = {}


def test_plain_and_patched_differ_so_that_a_leak_would_show(exports):
    (plain,), (patched,) = exports("plain"), exports("scope")
    plain, patched = plain.replace("plain ", ""), patched.replace("patched ", "")
    assert plain != patched
    assert len(plain.splitlines()) > 8


MIXED = "enable,plain,scope,plain,enable"


def test_a_plain_export_is_that_of_a_fresh_process(exports):
    (plain,) = exports("plain")
    assert [text for text, step in zip(exports(MIXED), MIXED.split(",")) if step == "plain"] == [plain, plain]


def test_a_patched_export_is_that_of_a_fresh_process(exports):
    (patched,) = exports("scope")
    assert [text for text, step in zip(exports(MIXED), MIXED.split(",")) if step != "plain"] == [patched] * 3


def test_a_patched_export_after_a_plain_one_is_that_of_a_fresh_process(exports):
    (plain,), (patched,) = exports("plain"), exports("scope")
    assert exports("plain,scope") == [plain, patched]
