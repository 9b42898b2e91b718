"""Sizes in the fake implementations of operators: binary operators and views."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.refs import add_of_unrelated_sizes
from yobx.torch.in_torch.sizes import broadcast_size, is_symbolic

torch: Any = lazy("torch")
symbolic_shapes: Any = lazy("torch.fx.experimental.symbolic_shapes")


@patch(
    "torch._subclasses.fake_impls:infer_size",
    family="torch",
    name="infer_size",
    versions="torch>=2.9",
    why="sizes whose relation is undecided are a broadcast; the original demands that they be equal",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="when torch gives an undecided broadcast a size of its own instead of a guard",
    reproducer=add_of_unrelated_sizes,
    group="broadcast",
)
def infer_size(a: Any, b: Any) -> Any:
    dimsA = len(a)
    dimsB = len(b)
    ndim = max(dimsA, dimsB)
    expandedSizes: list[Any] = [0] * ndim
    for i in range(ndim - 1, -1, -1):
        offset = ndim - 1 - i
        dimA = dimsA - 1 - offset
        dimB = dimsB - 1 - offset
        sizeA = a[dimA] if dimA >= 0 else 1
        sizeB = b[dimB] if dimB >= 0 else 1

        size = broadcast_size(sizeA, sizeB)
        torch._check(
            size is not None,
            lambda: (
                f"The size of tensor a ({sizeA}) "
                f"must match the size of tensor b ({sizeB}) "
                f"at non-singleton dimension {i})"
            ),
        )
        expandedSizes[i] = size
    return tuple(expandedSizes)


def windows_of_an_image() -> Reproducer:
    class Windows(torch.nn.Module):
        def forward(self, x):
            b, h, w, c = x.shape
            x = x.view(b, h // 2, 2, w // 2, 2, c).permute(0, 1, 3, 2, 4, 5)
            return x.reshape(-1, 2, 2, c).mean((1, 2))

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Windows(),
        inputs=dict(x=torch.randn(2, 4, 6, 3)),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic, 2: dynamic}),
        accepts=[dict(x=torch.randn(n, h, w, 3)) for n, h, w in ((1, 6, 8), (3, 2, 2))],
        rejects=[dict(x=torch.randn(2, 3, 4, 3))],
    )


@patch(
    "torch._subclasses.fake_impls:_view_has_unbacked_input",
    family="torch",
    name="view_of_undecided_sizes",
    versions="torch>=2.9",
    around=True,
    why="a view of symbolic sizes takes the way that decides nothing, as one of unbacked sizes does; the other guards on each size",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="when torch computes the strides of a view without guarding",
    reproducer=windows_of_an_image,
    group="broadcast",
)
def view_of_undecided_sizes(original: Any, a: Any, shape: Any) -> bool:
    flat = shape[0] if len(shape) == 1 and not isinstance(shape[0], (int, torch.SymInt)) else shape
    return any(is_symbolic(size) for size in (*a.size(), *a.stride(), *flat)) or original(a, shape)
