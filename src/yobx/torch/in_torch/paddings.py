"""Padding with what a tensor holds, which must be long enough for it."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.composite import CompositeKernel
from yobx.torch.in_torch.sizes import check_assumed, decomposed, is_symbolic

torch: Any = lazy("torch")


def _padded_sizes(tensor: Any, padding: Any) -> list[tuple[Any, Any]]:
    """The symbolic sizes, each with what is added on one of its sides."""
    pairs = [(tensor.shape[-1 - i // 2], length) for i, length in enumerate(padding)]
    return [(size, length) for size, length in pairs if is_symbolic(size)]


def reflected_image() -> Reproducer:
    class Pad(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.pad(x, (1, 0, 1, 1), mode="reflect") * 2

    return Reproducer(
        Pad(),
        inputs=dict(x=torch.randn(2, 3, 5, 6)),
        dynamic_shapes=dict(x=dict.fromkeys((0, 2, 3), torch.export.Dim.DYNAMIC)),
        accepts=[dict(x=torch.randn(b, 3, *size)) for b, size in ((3, (7, 2)), (1, (2, 9)), (2, (3, 2)))],
        rejects=[dict(x=torch.randn(b, 3, *size)) for b, size in ((2, (1, 6)), (1, (5, 1)))],
        export=decomposed,
    )


@patch(
    "torch._decomp.decompositions:_reflection_pad",
    family="torch",
    name="reflection_pad",
    versions="torch>=2.9",
    around=True,
    why="decomposed into an index, padding by 1 takes the size 1 that the operator rejects, as torch takes for granted that no size is 1; "
    "the error becomes a guard",
    obsolete="when torch guards on what it assumes of sizes",
    reproducer=reflected_image,
)
def reflection_pad(original: Any, a: Any, padding: Any, **out: Any) -> Any:
    for size, length in () if torch.compiler.is_dynamo_compiling() else _padded_sizes(a, padding):
        check_assumed(size > length)
    return original(a, padding, **out)


def image_padded_around() -> Reproducer:
    class Pad(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.pad(x, (2, 0, 1, 2), mode="circular") * 2

    return Reproducer(
        Pad(),
        inputs=dict(x=torch.randn(2, 3, 5, 6)),
        dynamic_shapes=dict(x=dict.fromkeys((0, 2, 3), torch.export.Dim.DYNAMIC)),
        accepts=[dict(x=torch.randn(b, 3, *size)) for b, size in ((3, (7, 2)), (1, (2, 9)), (2, (3, 3)))],
        rejects=[dict(x=torch.randn(b, 3, *size)) for b, size in ((2, (1, 6)), (1, (5, 1)))],
        export=decomposed,
    )


@patch(
    "torch:ops.aten._pad_circular.default",
    family="torch",
    name="circular_pad",
    versions="torch>=2.9",
    slots=lambda: [CompositeKernel(torch.ops.aten._pad_circular.default)],
    around=True,
    why="decomposed into slices, padding by 2 takes the size 1 that the operator rejects, as torch takes for granted that no size is 1; "
    "the error becomes a guard",
    obsolete="when torch guards on what it assumes of sizes",
    reproducer=image_padded_around,
)
def circular_pad(original: Any, self: Any, pad: Any) -> Any:
    for size, length in _padded_sizes(self, pad):
        check_assumed(size >= length)
    return original(self, pad)
