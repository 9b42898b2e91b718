import torch
from my_model import dynamic_shapes, sample

model, inputs = sample()
ep = torch.export.export(model, (), kwargs=inputs, dynamic_shapes=dynamic_shapes)
torch.export.save(ep, "mine.pt2")

program = ep.module()
for batch, rows, length in ((3, 1, 7), (3, 3, 7), (1, 1, 1)):
    x, bias = torch.randn(batch, length, 16), torch.randn(rows, 1, length, length)
    torch.testing.assert_close(program(x=x, bias=bias), model(x=x, bias=bias))
    print(f"batch {batch}, bias for {rows}, length {length}: as the model")
