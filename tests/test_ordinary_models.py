"""Models that plain torch exports generally: patches leave their programs as they are."""

from __future__ import annotations

import pytest
import torch

from benchmarks.models import exported
from yobx import autopatch
from yobx.autopatch import versions
from yobx.torch import verify
from yobx.torch.tiny_models import get_tiny_model

ARCHITECTURES = {
    "vision": ("resnet", "convnext", "swin", "vit", "dinov2"),
    "encoder": ("roberta",),
    "nocache": ("llama", "opt", "qwen2"),
    "seq2seq": ("bart", "t5"),
    "speech": ("whisper",),
}


def named(shapes):
    """The names of dimensions as ``Dim``, one for each name."""
    dims = {}

    def turn(value):
        if isinstance(value, dict):
            return {key: turn(item) for key, item in value.items()}
        return dims.setdefault(value, torch.export.Dim(value)) if isinstance(value, str) else value

    return turn(shapes)


def nodes(program):
    graphs = [module.graph for module in program.graph_module.modules() if hasattr(module, "graph")]
    return [(node.op, str(node.target).split(" at 0x")[0]) for graph in graphs for node in graph.nodes]


def left_as_it_is(model, args, kwargs, shapes):
    try:
        plain = torch.export.export(model, args, kwargs, dynamic_shapes=shapes)
    except Exception as error:
        if versions.conflict("torch>=2.13") is None:
            raise
        pytest.skip(f"torch {torch.__version__} alone does not export it: {type(error).__name__}")
    autopatch.enable()
    try:
        patched = torch.export.export(model, args, kwargs, dynamic_shapes=shapes)
        assert nodes(patched) == nodes(plain)
        assert not autopatch.details().patches_involved_in_graph(patched.graph)
    finally:
        autopatch.disable()
    assert set(map(str, patched.range_constraints.items())) == set(map(str, plain.range_constraints.items()))
    report = verify(patched, model, args, kwargs, shapes)
    assert report.ok, report
    return plain, patched


@pytest.mark.parametrize("name", exported())
def test_a_small_module_has_the_same_nodes(name):
    torch.manual_seed(0)
    model, sample = exported()[name]
    programs = left_as_it_is(model.eval(), (sample,), {}, ({0: torch.export.Dim("batch")},))
    plain = programs[0].run_decompositions()
    with autopatch.activate():
        patched = programs[1].run_decompositions()
    assert nodes(patched) == nodes(plain)


@pytest.mark.parametrize(
    ("architecture", "scenario"), [(name, scenario) for scenario, names in ARCHITECTURES.items() for name in names]
)
def test_an_architecture_has_the_same_nodes(architecture, scenario):
    tiny = get_tiny_model(architecture, scenario)
    shapes, inputs = named(tiny.dynamic_shapes), dict(tiny.inputs)
    if scenario == "seq2seq":
        inputs["use_cache"], shapes["use_cache"] = False, None
    left_as_it_is(tiny.model, (), inputs, shapes)
