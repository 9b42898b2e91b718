"""Functions as the modules that torch.export takes."""

from __future__ import annotations

import torch


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *tensors):
        return self.function(*tensors)
