"""Models that plain torch exports generally: patches leave their programs as they are."""

from __future__ import annotations

import pytest
import torch
from torch import nn

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


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())

    def forward(self, x):
        return x + self.inner(x)


class SelfAttention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


def small(*layers):
    return layers[0] if len(layers) == 1 else nn.Sequential(*layers)


SMALL = {
    "mlp": lambda: (small(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)), (3, 16)),
    "cnn": lambda: (
        small(nn.Conv2d(4, 8, 3), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 5)),
        (2, 4, 8, 8),
    ),
    "residual": lambda: (small(Residual(), Residual()), (2, 4, 8, 8)),
    "group_norm": lambda: (small(nn.Conv2d(4, 8, 3), nn.GroupNorm(2, 8), nn.SiLU()), (2, 4, 8, 8)),
    "pooling": lambda: (small(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)), (2, 4, 8, 8)),
    "upsampling": lambda: (small(nn.Upsample(scale_factor=2), nn.Conv2d(4, 4, 3)), (2, 4, 8, 8)),
    "attention": lambda: (SelfAttention(), (2, 6, 16)),
    "encoder": lambda: (
        nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2, enable_nested_tensor=False),
        (2, 6, 16),
    ),
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


@pytest.mark.parametrize("name", SMALL)
def test_a_small_module_has_the_same_nodes(name):
    torch.manual_seed(0)
    model, shape = SMALL[name]()
    programs = left_as_it_is(model.eval(), (torch.randn(shape),), {}, ({0: torch.export.Dim("batch")},))
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
