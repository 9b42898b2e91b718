"""Programs compiled by AOTInductor: right on every size, or refused by name."""

from __future__ import annotations

import shutil

import pytest
import torch
from torch import nn

from yobx import autopatch
from yobx.autopatch import versions
from yobx.helpers.reproducer import compare

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="AOTInductor needs a C++ compiler")


class Mixed(nn.Module):
    """Attention, norm, convolution, pooling, a number of steps and a new tensor: each of any batch and length."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.norm = nn.LayerNorm(16)
        self.conv = nn.Conv1d(16, 8, 3, padding=1)

    def forward(self, x):
        h = self.norm(x + self.attention(x, x, x, need_weights=False)[0])
        h = nn.functional.max_pool1d(self.conv(h.transpose(1, 2)), 2)
        return h * torch.linspace(0, 1, h.shape[2]), h.new_zeros(h.shape[0], h.shape[2]) + h.sum()


class Halves(nn.Module):
    def forward(self, x):
        return nn.functional.adaptive_avg_pool1d(x.transpose(1, 2), 2)


class Start(nn.Module):
    def forward(self, x):
        return x[:, :3] * 2


def compiled(model, path):
    torch.manual_seed(0)
    dynamic = ({0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC},)
    autopatch.enable("torch")
    try:
        program = torch.export.export(model.eval(), (torch.randn(2, 6, 16),), dynamic_shapes=dynamic)
        return torch._inductor.aoti_compile_and_package(program, package_path=str(path / "model.pt2"))
    finally:
        autopatch.disable()


def test_compiled_program_is_right_on_every_size(tmp_path):
    model = Mixed()
    package = torch._inductor.aoti_load_package(compiled(model, tmp_path))
    for sizes in ((2, 6), (3, 9), (1, 4), (5, 2), (4, 3)):
        x = torch.randn(*sizes, 16)
        assert compare(model(x), package(x), atol=1e-4) is None, sizes


@pytest.mark.parametrize(
    ("model", "words"),
    [(Start(), r"slice\w* has the larger or the smaller of two sizes"), (Halves(), r"x.shape\[1\] is fixed to 6")],
    ids=["fewer than asked for", "specialised while it is compiled"],
)
def test_a_program_that_would_be_wrong_is_refused(tmp_path, model, words):
    if isinstance(model, Start) and versions.conflict("torch>=2.13") is not None:
        pytest.skip("the program itself is for three or more")
    with pytest.raises(RuntimeError, match=words):
        compiled(model, tmp_path)
