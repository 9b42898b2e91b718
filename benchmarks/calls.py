"""Calls through a dispatcher, and entering and leaving a scope."""

from __future__ import annotations

import importlib
import sys
import timeit
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from benchmarks import profiles
from benchmarks.pairs import Figure, Sample, absolute, paired
from yobx import autopatch
from yobx.helpers.patch_helper import PatchInfo
from yobx.torch import apply_patches_for_model


def _per_call(function: Callable[[], Any], number: int) -> Sample:
    return lambda: timeit.timeit(function, number=number) / number


def figures() -> Iterator[Figure]:
    """Everything is loaded before, and a scope has been open once."""
    for name in ("torch._refs", "torch.export._trace", "transformers.models.llama.modeling_llama"):
        importlib.import_module(name)

    def double(x: int, by: int = 2) -> int:
        return x * by

    module = types.ModuleType("benchmarked")
    sys.modules["benchmarked"] = module
    module.double = double  # type: ignore[attr-defined]  # a module made here has no attributes for mypy
    autopatch.register(PatchInfo.make(lambda x, by=2: x, module, "double", family="benchmarks"))
    autopatch.enable("benchmarks", "torch", "transformers")
    dispatcher = module.double
    assert dispatcher is not double
    yield paired(
        "a call through an idle dispatcher, against the bare function",
        "ns",
        200,
        _per_call(lambda: double(1), 50_000),
        _per_call(lambda: dispatcher(1), 50_000),
        25,
    )
    figure = paired(
        "the same with a keyword",
        "ns",
        200,
        _per_call(lambda: double(1, by=3), 50_000),
        _per_call(lambda: dispatcher(1, by=3), 50_000),
        25,
    )
    yield figure.explained(partial(profiles.of_calls, lambda: dispatcher(1, by=3), 50_000))

    def activate() -> None:
        with autopatch.activate("torch", "transformers"):
            pass

    def apply() -> None:
        with apply_patches_for_model(patch_torch=True, patch_transformers=True):
            pass

    figure = absolute("activate, enter and exit, autopatch enabled", "ms", 0.02, _per_call(activate, 500), 25)
    yield figure.explained(partial(profiles.of_calls, activate, 5000))
    autopatch.disable()
    figure = absolute("apply_patches_for_model, enter and exit", "ms", 0.5, _per_call(apply, 100), 25)
    yield figure.explained(partial(profiles.of_calls, apply, 500))
