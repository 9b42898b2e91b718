"""Eager models and exports that need no patch, with autopatch enabled and without."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import nn

from benchmarks import profiles
from benchmarks.pairs import Figure, Sample, paired
from yobx import autopatch
from yobx.helpers import marks
from yobx.torch import use_dyn_not_str
from yobx.torch.tiny_models import get_tiny_model


def _timed(action: Callable[[], Any], enabled: bool) -> Sample:
    def sample() -> float:
        if enabled:
            autopatch.enable()
        try:
            start = time.perf_counter()
            action()
            return time.perf_counter() - start
        finally:
            autopatch.disable()

    return sample


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.conv(x)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.attention(x, x, x, need_weights=False)[0]


def exported() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """Ten models that plain torch exports with a dynamic batch, each with a sample."""
    image, rows, words = torch.randn(2, 4, 8, 8), torch.randn(3, 16), torch.randn(2, 6, 16)
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
    return {
        "linear": (nn.Linear(16, 4), rows),
        "mlp": (nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 4)), rows),
        "cnn": (nn.Sequential(nn.Conv2d(4, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 5)), image),
        "residual": (nn.Sequential(*(Residual() for _ in range(4))), image),
        "group norm": (nn.Sequential(nn.Conv2d(4, 8, 3), nn.GroupNorm(2, 8), nn.SiLU()), image),
        "pooling": (nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3)), image),
        "upsampling": (nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(4, 4, 3)), image),
        "attention": (Attention(), words),
        "encoder": (nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), words),
        "deep mlp": (nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.Tanh()) for _ in range(30))), rows),
    }


def figures(pairs: int = 15) -> Iterator[Figure]:
    """An eager forward, a training step, and ten exports."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(64, 4, 128, batch_first=True), 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(8, 32, 64)

    def forward() -> None:
        with torch.no_grad():
            for _ in range(10):
                model(x)

    def train() -> None:
        for _ in range(5):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            optimizer.step()

    for what, action in (("eager forward", forward), ("a training step", train)):
        figure = paired(
            f"{what}, autopatch enabled", "ratio", 1.01, _timed(action, False), _timed(action, True), 3 * pairs
        )
        yield figure.explained(partial(profiles.of_calls, _timed(action, True), 1))

    overall = Figure("export of 10 models that plain torch exports, patched", "ratio", 1.05)
    for module, sample in exported().values():
        module = module.eval()

        def export(module: nn.Module = module, sample: torch.Tensor = sample) -> None:
            shapes = ({0: torch.export.Dim.DYNAMIC},)
            torch.export.export(module, (sample,), dynamic_shapes=shapes, strict=False)

        _add(overall, _timed(export, False), _timed(export, True), pairs)
    yield overall
    yield marking(pairs)


def _add(overall: Figure, plain: Sample, patched: Sample, pairs: int) -> None:
    """One more thing to a figure whose values are the medians of several."""
    one = paired(overall.what, overall.unit, overall.bar, plain, patched, pairs)
    overall.values.append(one.median)
    overall.plain += one.plain
    overall.patched += one.patched


def marking(pairs: int) -> Figure:
    """Exports that patches shape, with their nodes marked and without."""
    figure = Figure("marking nodes, of an export under patches", "ratio", 1.03)
    for architecture, scenario in (("llama", "nocache"), ("llama", "decode"), ("bert", "encoder")):
        tiny = get_tiny_model(architecture, scenario, batch=1)
        shapes = use_dyn_not_str(tiny.dynamic_shapes)

        def export(marked: bool, tiny: Any = tiny, shapes: Any = shapes) -> float:
            before = marks.switch(marked)
            try:
                export = partial(torch.export.export, tiny.model, (), tiny.inputs, dynamic_shapes=shapes, strict=False)
                return _timed(export, True)()
            finally:
                marks.switch(before)

        _add(figure, partial(export, False), partial(export, True), pairs)
    return figure.explained(partial(profiles.of_calls, partial(export, True), 1))
