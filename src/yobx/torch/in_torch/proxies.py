"""Sizes that a trace meets without having seen them computed."""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import reduce
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import decomposed

torch: Any = lazy("torch")
sympy: Any = lazy("sympy")
sympy_functions: Any = lazy("torch.utils._sympy.functions")
proxy_tensor: Any = lazy("torch.fx.experimental.proxy_tensor")


def rows_but_the_first_added_in_place() -> Reproducer:
    class Add(torch.nn.Module):
        def forward(self, x, y):
            z = x.clone()
            z[:, 1:].add_(y)
            return z

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    return Reproducer(
        Add(),
        inputs=dict(x=torch.randn(2, 6), y=torch.randn(2, 5)),
        dynamic_shapes=dict(x=dynamic, y=dynamic),
        accepts=[dict(x=torch.randn(n, m), y=torch.randn(n, k)) for n, m, k in ((3, 9, 8), (1, 5, 1), (3, 2, 1))],
        export=decomposed,
    )


def _operators() -> dict[Any, Callable[..., Any]]:
    return {
        sympy.Add: operator.add,
        sympy.Mul: operator.mul,
        sympy.Max: torch.sym_max,
        sympy.Min: torch.sym_min,
        sympy_functions.Max: torch.sym_max,
        sympy_functions.Min: torch.sym_min,
        sympy_functions.FloorDiv: operator.floordiv,
        sympy_functions.CleanDiv: operator.floordiv,
        sympy_functions.PythonMod: operator.mod,
        sympy_functions.Mod: operator.mod,
    }


def _proxy_of(tracer: Any, expr: Any, shape_env: Any) -> Any:
    """The value of an expression in the graph, computed from sizes that are in it; None where that is not possible."""
    if expr.is_Integer:
        return int(expr)
    known = tracer.sympy_expr_tracker.get(expr)
    if known is not None:
        return known.force()
    function, parts = _operators().get(expr.func), [_proxy_of(tracer, part, shape_env) for part in expr.args]
    if function is None or any(part is None for part in parts):
        return None

    def computed(*operands: Any) -> Any:
        nodes = tuple(getattr(operand, "node", operand) for operand in operands)
        return torch.fx.Proxy(tracer.create_node("call_function", function, nodes, {}), tracer)

    proxy = reduce(computed, parts)
    proxy_tensor.set_meta(proxy, shape_env.create_symintnode(expr, hint=None))
    return proxy


@patch(
    "torch.fx.experimental.proxy_tensor:get_proxy_slot",
    family="torch",
    name="get_proxy_slot",
    versions="torch>=2.9,<2.13",
    around=True,
    why="the size of a part that is written to in place is met without its computation; the original finds but single symbols",
    obsolete="with torch 2.13, which computes such a size from the symbols in it",
    reproducer=rows_but_the_first_added_in_place,
    group="broadcast",
)
def get_proxy_slot(original: Any, obj: Any, tracer: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(obj, torch.SymInt) and obj not in tracer.symnode_tracker and not obj.node.expr.is_Symbol:
        proxy = _proxy_of(tracer, obj.node.expr, obj.node.shape_env)
        if proxy is not None:
            proxy_tensor.set_proxy_slot(obj, tracer, proxy_tensor.Thunk(lambda: proxy))
    return original(obj, tracer, *args, **kwargs)
