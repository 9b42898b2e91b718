import torch


class Gate(torch.nn.Module):
    def forward(self, x, y):
        return x * torch.sigmoid(y)


dim = torch.export.Dim.DYNAMIC
x, y = torch.randn(2, 5), torch.randn(2, 1)
ep = torch.export.export(Gate(), (x, y), dynamic_shapes=({0: dim, 1: dim}, {0: dim, 1: dim}))

print(ep.module()(torch.randn(3, 1), torch.randn(3, 7)).shape)
