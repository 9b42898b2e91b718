"""Sequences of different lengths in one tensor."""

from __future__ import annotations

import functools
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.composite import CompositeKernel
from yobx.torch.in_torch.sizes import decomposed, is_symbolic

torch: Any = lazy("torch")


def sequences_of_two_lengths() -> Reproducer:
    class Pad(torch.nn.Module):
        def forward(self, x, y):
            return torch.nn.utils.rnn.pad_sequence([x, y], batch_first=True, padding_value=-1.0)

    def inputs(n: int, m: int) -> dict[str, Any]:
        return dict(x=torch.randn(n, 3), y=torch.randn(m, 3))

    return Reproducer(
        Pad(),
        inputs=inputs(3, 4),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC}, y={0: torch.export.Dim.DYNAMIC}),
        accepts=[inputs(5, 3), inputs(2, 2), inputs(1, 7), inputs(7, 1)],
        export=decomposed,
    )


@patch(
    "torch:ops.aten.pad_sequence.default",
    family="torch",
    name="pad_sequence",
    versions="torch>=2.9,<2.15",
    slots=lambda: [CompositeKernel(torch.ops.aten.pad_sequence.default)],
    around=True,
    why="which of the sequences is the longest is asked with a guard, and a decomposed program is for the sample's answer",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="with torch 2.15, which pads in Python, and takes the largest length without guarding",
    reproducer=sequences_of_two_lengths,
)
def pad_sequence(
    original: Any, sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Any:
    lengths = [size for sequence in sequences for size in sequence.shape[:1]]
    if len(lengths) < len(sequences) or not any(map(is_symbolic, lengths)):
        return original(sequences, batch_first, padding_value, padding_side)
    first = sequences[0]
    longest = functools.reduce(torch.sym_max, lengths)
    rows = []
    for sequence, length in zip(sequences, lengths):
        values = sequence.to(first.dtype).expand(length, *first.shape[1:])
        padding = first.new_full((longest - length, *first.shape[1:]), padding_value)
        rows.append(torch.cat([values, padding] if padding_side == "right" else [padding, values]))
    return torch.stack(rows, 0 if batch_first else 1)
