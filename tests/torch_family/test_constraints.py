"""What cannot be as declared is told by torch's own error, and told without a crash on the way."""

from __future__ import annotations

import pytest
import torch

from yobx import autopatch

Dim = torch.export.Dim

# What a model may ask of its sizes in Python, so that it is for some of them only.
QUESTIONS = {
    "reshape": lambda x, y: x.view(4, -1),
    "order": lambda x, y: x if x.shape[0] > 3 else x * 2,
    "range": lambda x, y: x if 3 < x.shape[0] < 30 else x * 2,
    "remainder": lambda x, y: x if x.shape[0] % 4 == 0 else x * 2,
    "product": lambda x, y: x if x.shape[0] * x.shape[1] == y.shape[0] * y.shape[1] else x * 2,
    "difference": lambda x, y: x if x.shape[0] - y.shape[1] == 0 and x.shape[1] // 2 < 5 else x * 2,
    "loop": lambda x, y: sum(x[i] for i in range(x.shape[0])),
    "number": lambda x, y: torch.zeros(int(x.shape[0])) + y.sum(),
}


MESSAGES = ("Constraints violated", "not in range", "conflicts between user-specified ranges", "is not equal to")


def declarations():
    b, s = Dim("b"), Dim("s")
    return {
        "two names": ({0: b}, {0: s}),
        "one name": ({0: b, 1: s}, {0: b, 1: s}),
        "derived": ({0: 2 * b}, {0: 2 * b}),
        "successor": ({0: b}, {1: b + 1}),
        "of no input": ({0: 3 * b + 1}, {0: 2 * s}),
        "range": ({0: Dim("r", min=2, max=8)}, None),
        "too small": ({0: Dim("r", max=3)}, None),
        "hints": ({0: Dim.DYNAMIC(min=2, max=9), 1: Dim.DYNAMIC}, {0: Dim.AUTO, 1: s}),
    }


@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
@pytest.mark.parametrize("declared", declarations())
def test_an_export_succeeds_or_says_what_is_wrong(declared, strict):
    class Asks(torch.nn.Module):
        def __init__(self, question):
            super().__init__()
            self.question = question

        def forward(self, x, y):
            return self.question(x, y)

    refused = []
    shapes = declarations()[declared]
    autopatch.enable("torch")
    try:
        for name, question in QUESTIONS.items():
            try:
                torch.export.export(Asks(question), (torch.randn(4, 5),) * 2, dynamic_shapes=shapes, strict=strict)
            except Exception as error:
                refused.append(name)
                # The user's words or sizes are in the message; a crash on the way to it would be another exception
                assert any(word in str(error) for word in MESSAGES), error
    finally:
        autopatch.disable()
    assert refused, "every one of these dimensions is fixed by some of the questions"
