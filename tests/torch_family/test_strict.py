"""Strict mode, in which Dynamo reads the module first, gives programs that are as general as the others."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from yobx.torch import apply_patches_for_model, verify

ANY = torch.export.Dim.DYNAMIC


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


class Flag(torch.nn.Module):
    def forward(self, x):
        q = x[:, None]
        return functional.scaled_dot_product_attention(q, q, q, is_causal=q.shape[2] > 1)


class Windows(torch.nn.Module):
    def forward(self, x):
        return x.view(x.shape[0], x.shape[1] // 2, 2, 4, 2).permute(0, 1, 3, 2, 4).reshape(-1, 2, 2).mean(1)


class Broadcast(torch.nn.Module):
    def forward(self, x, *others, **named):
        total = x + others[0] * named["z"]
        return torch.cat([total, total.new_zeros(total.shape)], 1) @ torch.ones(8, 3)


class Chosen(torch.nn.Module):
    """Both branches are in the program."""

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: x + x.mean(1, keepdim=True), lambda x: x - 1, (x,))


CASES = {
    "attention": (Attention(), (torch.randn(1, 5, 8),), {}),
    "a flag made of a size": (Flag(), (torch.randn(2, 1, 8),), {}),
    "layer norm": (torch.nn.LayerNorm(8), (torch.randn(2, 1, 8),), {}),
    "windows": (Windows(), (torch.randn(2, 4, 8),), {}),
    "variadic arguments": (Broadcast(), (torch.randn(2, 3, 8), torch.randn(2, 1, 8)), {"z": torch.randn(1, 3, 8)}),
    "cond": (Chosen(), (torch.randn(2, 5, 8),), {}),
}


@pytest.mark.parametrize(("model", "args", "kwargs"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_program_is_general(model, args, kwargs, strict):
    torch._dynamo.reset()
    both = {0: ANY, 1: ANY}
    shapes = {"input" if isinstance(model, torch.nn.LayerNorm) else "x": both, **dict.fromkeys(kwargs, both)}
    if len(args) > 1:
        shapes["others"] = (both,)
    with apply_patches_for_model(patch_torch=True):
        program = torch.export.export(model.eval(), args, kwargs, dynamic_shapes=shapes, strict=strict)
    declared = {"x": both, "args_0": both, "z": both} if kwargs else (both,)
    report = verify(program, model, args, kwargs, declared)
    assert report.ok, str(report)
    assert sum(trial.outcome == "equal" for trial in report.trials) > 4, str(report)
