"""Architectures in scenarios, each as an ordinary export script would do it: prints one line of JSON for each.

    echo llama decode | YOBX_PATCH=torch,transformers python -m benchmarks.coverage_case

Every case is read from a line of standard input, and has a process of its own: a fork of this one, which has imported
torch and transformers. The patches are whatever ``YOBX_PATCH`` says; ``--exporter`` goes through transformers' own
``DynamoExporter``.
"""

from __future__ import annotations

import argparse
import copy
import importlib
import json
import logging
import os
import signal
import sys
import time
import warnings
from typing import Any

import torch

from yobx import autopatch
from yobx.helpers.reproducer import compare
from yobx.torch import use_dyn_not_str
from yobx.torch.tiny_models import get_tiny_model

# The sample, and the sizes that the program has to take besides: batch, new tokens, past tokens.
SAMPLES = {"batch_of_one": (1, 6, 5)}
SAMPLE, OTHERS = (2, 6, 5), [(3, 9, 7), (1, 4, 9), (2, 1, 1)]
SCENARIOS = {"batch_of_one": "nocache"}

# What nearly every case would import for itself.
PRELOADED = (
    "torch._dynamo",
    "torch.export",
    "torch._decomp",
    "transformers.modeling_utils",
    "transformers.cache_utils",
)


def _sizes(sizes: tuple[int, int, int]) -> dict[str, int]:
    return dict(zip(("batch", "length", "past"), sizes, strict=True))


def outcome(model_type: str, scenario: str, exporter: bool = False) -> dict[str, Any]:
    """``eager``: it cannot be built or run; ``export``: the export raises; ``narrow``; or ``general``.

    With the patches that made or shaped nodes of the program, where there are some.
    """
    kind = SCENARIOS.get(scenario, scenario)
    result: dict[str, Any] = {"model": model_type, "scenario": scenario}
    try:
        model, inputs, shapes = get_tiny_model(model_type, kind, **_sizes(SAMPLES.get(scenario, SAMPLE)))
        with torch.no_grad():
            model(**copy.deepcopy(inputs))
    except Exception as error:
        return {**result, "stage": "eager", "why": _line(error)}
    start = time.perf_counter()
    try:
        with torch.no_grad():
            program = _exported(model, inputs, use_dyn_not_str(shapes), exporter)
    except Exception as error:
        return {**result, "stage": "export", "why": _line(error)}
    result["seconds"] = round(time.perf_counter() - start, 2)
    involved = autopatch.details().patches_involved_in_graph(program.graph)
    if involved:
        result["patches"] = sorted(info.core.full_name for info, _ in involved)
    problems = []
    for sizes in (SAMPLES.get(scenario, SAMPLE), *OTHERS):
        # A model that remembers earlier calls is built anew.
        fresh, other, _ = get_tiny_model(model_type, kind, **_sizes(sizes))
        with torch.no_grad():
            try:
                expected = fresh(**copy.deepcopy(other))
            except Exception:
                continue
            try:
                difference = compare(expected, program(**copy.deepcopy(other)), atol=1e-3)
            except Exception as error:
                difference = _line(error)
        if difference:
            problems.append(f"{sizes}: {difference}")
    return {**result, "stage": "narrow" if problems else "general", "why": "; ".join(problems)[:300]}


def _exported(model: Any, inputs: dict[str, Any], shapes: dict[str, Any], exporter: bool) -> Any:
    inputs = copy.deepcopy(inputs)
    if not exporter:
        return torch.export.export(model, (), kwargs=inputs, dynamic_shapes=shapes).module()
    from transformers.exporters import DynamoConfig, DynamoExporter

    options = {} if "past_key_values" in shapes else {"dynamic_shapes": shapes}
    return DynamoExporter().export(model, inputs, config=DynamoConfig(dynamic=True, **options)).program.module()


def _line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:200]


def _in_a_fork(model_type: str, scenario: str, exporter: bool, timeout: int) -> None:
    child = os.fork()
    if child:
        _, status = os.waitpid(child, 0)
        if status:
            late = os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGALRM
            stage, why = ("timeout", f"more than {timeout} s") if late else ("crash", f"wait status {status}")
            _report({"model": model_type, "scenario": scenario, "stage": stage, "why": why})
        return
    signal.alarm(timeout)
    _report(outcome(model_type, scenario, exporter))
    os._exit(0)


def _report(result: dict[str, Any]) -> None:
    print("RESULT " + json.dumps(result), flush=True)


def main() -> None:
    """A result for each line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage_case", description=__doc__)
    parser.add_argument("--exporter", action="store_true")
    parser.add_argument("--timeout", type=int, default=240, help="seconds for a case (default: %(default)s)")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    for module in PRELOADED:
        importlib.import_module(module)
    for line in sys.stdin:
        _in_a_fork(*line.split(), options.exporter, options.timeout)


if __name__ == "__main__":
    main()
