import torch
from my_model import dynamic_shapes, sample

from yobx.torch import verify

model, inputs = sample()
ep = torch.export.load("mine.pt2")
report = verify(ep, model, kwargs=inputs, dynamic_shapes=dynamic_shapes)
print(report)
report.raise_if_narrow()
