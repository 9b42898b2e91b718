"""TorchScript takes the originals of what is patched, operators written in C++ and Python functions alike."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
{first}
import yobx.autopatch
yobx.autopatch.enable()
import torch
from torch import nn

class Functions(nn.Module):
    def forward(self, x):
        y = nn.functional.scaled_dot_product_attention(x, x, x) + torch.linspace(0.0, 1.0, 4)
        classes = nn.functional.one_hot((y > 0).long(), 3).sum(-1)
        return nn.functional.mse_loss(y, x) + torch.hann_window(4) * classes

layers = [
    (Functions(), (2, 5, 4)),
    (nn.MaxPool1d(2), (2, 4, 6)),
    (nn.Sequential(nn.Conv2d(3, 4, 3), nn.MaxPool2d(2), nn.AvgPool2d(2)), (2, 3, 12, 12)),
    (nn.AdaptiveAvgPool1d(2), (2, 4, 6)),
    (nn.InstanceNorm1d(4), (2, 4, 6)),
    (nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), (5, 2, 8)),
]
for layer, shape in layers:
    x = torch.randn(shape)
    torch.testing.assert_close(torch.jit.script(layer.eval())(x), layer(x))
"""


@pytest.mark.parametrize("first", ["", "import torch"], ids=["yobx first", "torch first"])
def test_modules_can_be_scripted(tmp_path, first):
    script = tmp_path / "script.py"  # TorchScript reads the source
    script.write_text(SCRIPT.format(first=first))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
