"""What the two branches of ``torch.cond`` give, merged."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.marks import decided
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import expression, is_symbolic

torch: Any = lazy("torch")
sympy: Any = lazy("sympy")
sympy_functions: Any = lazy("torch.utils._sympy.functions")


def one_of_two_sums() -> Reproducer:
    class Choose(torch.nn.Module):
        def forward(self, x):
            return torch.cond(x.sum() > 0, lambda x: x + x.mean(1, keepdim=True), lambda x: x - 1, (x,))

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    return Reproducer(
        Choose(),
        inputs=dict(x=torch.randn(2, 5, 8)),
        dynamic_shapes=dict(x=dynamic),
        accepts=[dict(x=sign * torch.rand(n, m, 8)) for sign in (1, -1) for n, m in ((3, 7), (1, 1), (4, 1))],
    )


def _plain(stride: Any) -> Any:
    """A stride as a product of sizes: what torch writes as the larger of a size and 1 is the size, in a tensor with elements."""
    if not is_symbolic(stride):
        return stride
    expr = stride.node.expr.replace(
        lambda part: isinstance(part, sympy_functions.Max) and len(part.args) == 2 and sympy.S.One in part.args,
        lambda part: next(arg for arg in part.args if arg != 1),
    )
    if expr == expression(stride):
        return stride
    return stride.node.shape_env.create_symintnode(expr, hint=stride.node._hint)


@patch(
    "torch._higher_order_ops.cond:_merge_output",
    family="torch",
    name="merge_output",
    versions="torch>=2.9,<2.15",
    around=True,
    why="the strides of both branches are products of sizes; where a size may be 0 they are written in two ways, which the original cannot compare",
    obsolete="with torch 2.15, which compares them otherwise",
    reproducer=one_of_two_sums,
)
def merge_output(original: Any, a: Any, b: Any, mode: Any) -> Any:
    if not isinstance(a, torch.Tensor) or not isinstance(b, torch.Tensor):
        return original(a, b, mode)
    strides = [[_plain(stride) for stride in x.stride()] for x in (a, b)]
    if any(expression(new) != expression(old) for new, old in zip(strides[0] + strides[1], (*a.stride(), *b.stride()))):
        decided()
        with mode:
            a, b = (
                torch.empty_strided(x.shape, stride, dtype=x.dtype, device=x.device) for x, stride in zip((a, b), strides)
            )
    return original(a, b, mode)
