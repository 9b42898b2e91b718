"""Random small graphs: the program equals eager on every draw of sizes that eager takes, and raises on every other.

``YOBX_TEST_GRAPHS=300`` runs as many graphs, drawn anew each time; by default the same 60 are run.
"""

from __future__ import annotations

import os

import torch
from graphs import Graph, graphs, outcome, tensors
from hypothesis import HealthCheck, Phase, given, note, settings

from yobx.torch import apply_patches_for_model

ASKED_FOR = os.environ.get("YOBX_TEST_GRAPHS")


@settings(
    max_examples=int(ASKED_FOR or 60),
    derandomize=ASKED_FOR is None,
    database=None,
    deadline=None,
    phases=(Phase.generate, Phase.shrink) if ASKED_FOR else (Phase.generate,),
    suppress_health_check=list(HealthCheck),
)
@given(graphs())
def test_program_of_a_random_graph_does_what_eager_does(graph: Graph):
    model, sample = graph.module(), tensors(graph.sample)
    shapes = (tuple(dict.fromkeys(dims, torch.export.Dim.DYNAMIC) for dims in graph.dynamic),)
    with apply_patches_for_model(patch_torch=True):
        exported = torch.export.export(model, sample, dynamic_shapes=shapes)
        program, decomposed = exported.module(), exported.run_decompositions().module()
    for drawn in (graph.sample, *graph.draws()):
        expected = outcome(model, tensors(drawn))
        note(f"{drawn}: eager {'raises' if expected is None else [tuple(value.shape) for value in expected]}")
        agrees(drawn, expected, outcome(program, tensors(drawn)))
        # Decomposed, a program has lost what it computed for nothing, as the maximum of no elements, which raises.
        if expected is not None or not any(0 in shape for shape in drawn):
            agrees(drawn, expected, outcome(decomposed, tensors(drawn)))


def agrees(drawn, expected, got):
    assert (expected is None) == (got is None), f"{'accepted' if expected is None else 'rejected'}: {drawn}"
    if expected is not None:
        torch.testing.assert_close(got, expected, atol=1e-4, rtol=1e-3, equal_nan=True)
