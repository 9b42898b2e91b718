import torch

from yobx.torch import verify


class Scale(torch.nn.Module):
    def forward(self, x, scale):
        return x * scale


dim = torch.export.Dim.DYNAMIC
args = (torch.randn(3, 4), torch.randn(3, 4))
dynamic_shapes = ({0: dim, 1: dim}, {0: dim, 1: dim})
ep = torch.export.export(Scale(), args, dynamic_shapes=dynamic_shapes)
print(verify(ep, Scale(), args, dynamic_shapes=dynamic_shapes))
