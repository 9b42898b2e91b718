import torch


class Attention(torch.nn.Module):
    def __init__(self, width=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(self, x, bias):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) + bias
        return self.out((scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, width))


def sample():
    torch.manual_seed(0)
    return Attention().eval(), dict(x=torch.randn(1, 5, 16), bias=torch.zeros(1, 1, 5, 5))


ANY = torch.export.Dim.DYNAMIC
dynamic_shapes = dict(x={0: ANY, 1: ANY}, bias={0: ANY, 2: ANY, 3: ANY})
