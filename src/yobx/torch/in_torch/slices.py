"""Parts of a tensor of which another size, or a number, says where they begin and end."""

from __future__ import annotations

import sys
from typing import Any

from yobx.autopatch.slots import ItemSlot
from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import expression, larger_or_smaller, sample_decides, smaller

torch: Any = lazy("torch")
fake_impls: Any = lazy("torch._subclasses.fake_impls")
symbolic_shapes: Any = lazy("torch.fx.experimental.symbolic_shapes")


def _place(size: Any, index: Any) -> Any:
    """Where in a dimension of this size an index of a slice is; None where the sample decides, or the sign is unknown."""
    known = symbolic_shapes.statically_known_true
    if isinstance(size, int) and isinstance(index, int):
        return range(size)[:index].stop
    if sample_decides(size, index):
        return None
    if known(index >= 0):
        return smaller(index, size)
    return size - smaller(-index, size) if known(index < 0) else None


def parts_of_fewer() -> Reproducer:
    class Parts(torch.nn.Module):
        def forward(self, x, y):
            return torch.cat([x[:, :3], x[:, -4:], x[:, : y.shape[0]], x[:, -y.shape[0] :]], 1)

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Parts(),
        inputs=dict(x=torch.randn(2, 5), y=torch.randn(4)),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, y={0: dynamic}),
        accepts=[
            dict(x=torch.randn(n, m), y=torch.randn(k))
            for n, m, k in ((2, 9, 10), (3, 4, 4), (1, 3, 2), (1, 2, 3), (2, 1, 1), (2, 0, 1))
        ],
    )


def _sliced(self: Any, dim: int, start: Any, end: Any, step: int) -> Any:
    """The part of a tensor from one place in a dimension to another; None where the sample decides."""
    known = symbolic_shapes.statically_known_true
    if not -self.ndim <= dim < self.ndim or self.is_quantized or step <= 0:
        return None
    size = self.size(dim)
    first = _place(size, 0 if start is None else start)
    last = size if end is None or known(end == sys.maxsize) else _place(size, end)
    if first is None or last is None or sample_decides(size, first, last):
        return None
    length = last - first
    # Of the size of an input torch knows that it is not 0, which holds for the sample: what is cut may be less than nothing.
    if not known(length >= 0) or (not known(first == 0) and larger_or_smaller(expression(last))):
        length = torch.sym_max(length, 0)
    sizes, strides = list(self.size()), list(self.stride())
    offset = self.storage_offset() + first * strides[dim]
    sizes[dim] = (length + step - 1) // step
    strides[dim] *= step
    return self.as_strided(sizes, strides, offset)


@patch(
    "torch._subclasses.fake_impls:slice_forward",
    family="torch",
    name="slice",
    versions="torch>=2.13",
    slots=lambda: [ItemSlot(fake_impls.op_implementations_dict, torch.ops.aten.slice.Tensor)],
    around=True,
    why="a slice may ask for more than there is; the original guards on there being enough",
    obsolete="when torch takes the end of a slice for the smaller of two sizes without guarding",
    reproducer=parts_of_fewer,
)
def slice_of_a_fake_tensor(
    original: Any, fake_mode: Any, func: Any, self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Any:
    part = _sliced(self, dim, start, end, step)
    return original(fake_mode, func, self, dim, start, end, step) if part is None else part


@patch(
    "torch._decomp.decompositions:slice_forward",
    family="torch",
    name="slice_forward",
    versions="torch>=2.9,<2.13",
    around=True,
    why="a slice may ask for more than there is; the original guards on there being enough",
    obsolete="with torch 2.13, where torch:slice does the same",
    reproducer=parts_of_fewer,
)
def slice_forward(original: Any, self: Any, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Any:
    part = _sliced(self, dim, start, end, step)
    return original(self, dim, start, end, step) if part is None else part
