"""Values written into a tensor, which broadcast to what they are written into."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.marks import decided
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.composite import NativeKernel
from yobx.torch.in_torch.sizes import expression, is_symbolic

torch: Any = lazy("torch")


def _written(assign: Any) -> Any:
    def written_into_a_copy() -> Reproducer:
        class Write(torch.nn.Module):
            def forward(self, x, y):
                z = x.clone()
                assign(z, y)
                return z

        dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}

        def inputs(x, y):
            return dict(x=torch.randn(*x), y=torch.randn(*y))

        return Reproducer(
            Write(),
            inputs=inputs((2, 5), (2, 1)),
            dynamic_shapes=dict(x=dynamic, y=dynamic),
            accepts=[inputs((3, 7), y) for y in ((3, 1), (1, 7), (3, 7), (1, 1))] + [inputs((0, 4), (1, 1))],
            rejects=[inputs((3, 7), (3, 4)), inputs((3, 1), (3, 4))],
        )

    return written_into_a_copy


def _same(sizes: Any, wanted: Any) -> bool:
    """Whether a value has exactly the sizes of what it is written into, as far as they are known."""
    pairs = zip(sizes, wanted, strict=True) if len(sizes) == len(wanted) else ()
    return bool(pairs) and all(expression(size) == expression(other) for size, other in pairs)


def _undecided(value: Any, target: Any) -> bool:
    return any(map(is_symbolic, (*value.shape, *target.shape))) and not _same(value.shape, target.shape)


@patch(
    "torch:ops.aten.copy_.default",
    family="torch",
    name="copy_into",
    versions="torch>=2.9,<2.13",
    slots=lambda: [NativeKernel(torch.ops.aten.copy_.default, torch._C.DispatchKey.Meta)],
    around=True,
    why="the meta function of copy_ asks whether the sizes are the same ones, and guards",
    see="https://github.com/pytorch/pytorch/issues/122477",
    obsolete="with torch 2.13, whose meta function expands without asking",
    reproducer=_written(lambda z, y: z.copy_(y)),
)
def copy_into(original: Any, self: Any, src: Any, non_blocking: bool = False) -> Any:
    if isinstance(src, torch.Tensor) and src.ndim <= self.ndim and _undecided(src, self):
        decided()
        src = torch._refs.expand(src, self.shape)
    return original(self, src, non_blocking)


def _assign(tensor: Any, index: Any, value: Any) -> None:
    part = tensor[index]
    if value.ndim > part.ndim:
        tensor[index] = value
    else:
        part.copy_(value)


def _is_view(index: Any) -> bool:
    """Whether an index takes a part of a tensor that shares its memory."""
    items = index if isinstance(index, tuple) else (index,)
    return all(
        item is None or item is Ellipsis or (isinstance(item, (slice, int, torch.SymInt)) and not isinstance(item, bool))
        for item in items
    )


def assigned(func: Any, args: Any, kwargs: Any) -> Any:
    """What writes a value into a part of a tensor without comparing sizes, as C++ does; ``None`` for other calls."""
    if func is not torch.Tensor.__setitem__ or kwargs:
        return None
    tensor, index, value = args
    return _assign if isinstance(value, torch.Tensor) and _is_view(index) and _undecided(value, tensor) else None
