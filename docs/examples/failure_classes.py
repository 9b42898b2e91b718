"""One small model per kind of failure: exported plain, and with the patches.

python failure_classes.py            the names
python failure_classes.py mask       what happens to one of them
"""

import sys

import torch

from yobx.torch import apply_patches_for_model, verify

ANY = torch.export.Dim.DYNAMIC


class BatchOfOne(torch.nn.Module):
    def forward(self, x):
        return (x - x.mean(-1, keepdim=True)).reshape(x.shape[0], -1)


class Mask(torch.nn.Module):
    def forward(self, scores, mask):
        return scores + mask


class Windows(torch.nn.Module):
    def forward(self, x, y):
        return x.view(5, -1)[2] - y


class Steps(torch.nn.Module):
    def forward(self, x):
        return x * torch.linspace(0, 1, x.shape[1])


class Causal(torch.nn.Module):
    def forward(self, q):
        causal = q.shape[2] > 1
        return torch.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=causal)


class Recurrent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = torch.nn.GRU(4, 6, batch_first=True)

    def forward(self, x):
        return self.gru(x)[0]


class Keywords(torch.nn.Module):
    def forward(self, **tensors):
        return tensors["x"] * 2


class Cache(torch.nn.Module):
    def forward(self, x):
        from transformers import DynamicCache

        cache = DynamicCache()
        cache.update(x, x, 0)
        return cache


class Switch(torch.nn.Module):
    def forward(self, x):
        return x * 2 if x.sum() > 0 else x


class OneIsSpecial(torch.nn.Module):
    def forward(self, x):
        return x * 3 if x.shape[1] == 1 else x * 2


CASES = {
    "batch_of_one": (BatchOfOne, dict(x=torch.randn(1, 4, 6)), dict(x={0: ANY, 1: ANY})),
    "mask": (
        Mask,
        dict(scores=torch.randn(3, 4), mask=torch.randn(3, 4)),
        dict(scores={0: ANY, 1: ANY}, mask={0: ANY, 1: ANY}),
    ),
    "windows": (Windows, dict(x=torch.randn(15), y=torch.randn(3)), dict(x={0: ANY}, y={0: ANY})),
    "steps": (Steps, dict(x=torch.randn(2, 6)), dict(x={0: ANY, 1: ANY})),
    "causal": (Causal, dict(q=torch.randn(2, 2, 5, 8)), dict(q={0: ANY, 2: ANY})),
    "recurrent": (Recurrent, dict(x=torch.randn(2, 5, 4)), dict(x={0: ANY, 1: ANY})),
    "keywords": (Keywords, dict(x=torch.randn(2, 6)), dict(x={0: ANY})),
    "cache": (Cache, dict(x=torch.randn(2, 1, 3, 4)), dict(x={0: ANY, 2: ANY})),
    "switch": (Switch, dict(x=torch.randn(2, 6)), dict(x={0: ANY})),
    "one_is_special": (OneIsSpecial, dict(x=torch.randn(2, 6)), dict(x={0: ANY, 1: ANY})),
}

# A branch on values, or on a size of one, is the model's own, and stays.
THE_MODELS_OWN = ("switch", "one_is_special")

# The version of torch that brings what the patches need.
NEEDS = {"recurrent": (2, 13)}


def outcome(model, inputs, dynamic_shapes):
    """What becomes of an export, in a line or two."""
    try:
        ep = torch.export.export(model, (), kwargs=inputs, dynamic_shapes=dynamic_shapes)
        report = verify(ep, model, kwargs=inputs, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return f"export fails: {type(error).__name__}: " + "\n    ".join(line[:150] for line in lines[:3])
    wrong = [trial for trial in report.trials if trial.outcome in ("rejected", "differs", "accepted")]
    example = f"\n    {wrong[0].outcome}: {wrong[0].shapes}: {wrong[0].why[:120]}" if wrong else ""
    return str(report).splitlines()[-1] + example


def main():
    if len(sys.argv) < 2:
        print("\n".join(CASES))
        return
    name = sys.argv[1]
    make, inputs, dynamic_shapes = CASES[name]
    model = make().eval()
    print("plain:  ", outcome(model, inputs, dynamic_shapes))
    with apply_patches_for_model(patch_torch=True, patch_transformers=name == "cache"):
        patched = outcome(model, inputs, dynamic_shapes)
    print("patched:", patched)
    needed = NEEDS.get(name, (0,))
    too_old = tuple(map(int, torch.__version__.split(".")[:2])) < needed
    if too_old:
        print(f"torch is {torch.__version__}; the patches repair this from {'.'.join(map(str, needed))} on")
    stays = name in THE_MODELS_OWN or too_old
    sys.exit(patched.startswith("general") is stays)


main()
