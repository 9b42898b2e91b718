"""Sizes that a trace meets without having seen them computed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import decomposed

torch: Any = lazy("torch")
sympy: Any = lazy("sympy")
sympy_functions: Any = lazy("torch.utils._sympy.functions")
proxy_tensor: Any = lazy("torch.fx.experimental.proxy_tensor")


def sizes_rounded_and_multiplied() -> Reproducer:
    """Sizes that are computed from others, and meet others in a broadcast."""

    class Rounded(torch.nn.Module):
        def forward(self, x, y):
            n = x.shape[1]
            padded = torch.nn.functional.pad(x, (0, -n % 4))
            halved = x[:, : math.ceil(n / 2)]
            scaled = torch.nn.functional.interpolate(x[:, None], scale_factor=1.5)[:, 0]
            tripled = x[:, :, None].expand(-1, -1, 3).flatten()
            squared = x.new_ones(n**2)
            whole = (padded, halved, scaled, tripled, squared)
            return x.clone()[:, 1:].add_(y), [torch.matmul(z[..., None, None], y[:, None, None]) for z in whole]

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}

    def inputs(b: int, n: int, m: int = 1) -> dict[str, Any]:
        return dict(x=torch.randn(b, n), y=torch.randn(m))

    return Reproducer(
        Rounded(),
        inputs=inputs(2, 6),
        dynamic_shapes=dict(x=dynamic, y={0: torch.export.Dim.DYNAMIC}),
        accepts=[inputs(3, 9), inputs(1, 1), inputs(2, 4)],
        rejects=[inputs(2, 6, 5)],
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
        sympy.Pow: operator.pow,
        sympy_functions.PowByNatural: operator.pow,
        sympy_functions.IntTrueDiv: operator.truediv,
        sympy_functions.FloatTrueDiv: operator.truediv,
        sympy_functions.ToFloat: torch.sym_float,
        sympy_functions.CeilToInt: math.ceil,
        sympy_functions.FloorToInt: math.floor,
        sympy_functions.TruncToInt: math.trunc,
        sympy_functions.RoundToInt: round,
    }


def _proxy_of(tracer: Any, expr: Any, shape_env: Any) -> Any:
    """The value of an expression in the graph, computed from sizes that are in it; None where that is not possible."""
    if expr.is_Integer:
        return int(expr)
    if expr.is_Float:
        return float(expr)
    known = tracer.sympy_expr_tracker.get(expr)
    if known is not None:
        # The tracker of torch 2.13 keeps the value too.
        return getattr(known, "proxy", known).force()
    function, parts = _operators().get(expr.func), [_proxy_of(tracer, part, shape_env) for part in expr.args]
    if function is None or any(part is None for part in parts):
        return None

    value = parts[0]
    for n in range(min(2, len(parts)), len(parts) + 1):
        # Operators take two operands, expressions any number.
        operands = (value, parts[n - 1]) if n > 1 else (value,)
        nodes = tuple(getattr(operand, "node", operand) for operand in operands)
        value = torch.fx.Proxy(tracer.create_node("call_function", function, nodes, {}), tracer)
        made = expr if n == len(parts) else expr.func(*expr.args[:n])
        symbol = shape_env.create_symintnode if made.is_integer else shape_env.create_symfloatnode
        proxy_tensor.set_meta(value, symbol(made, hint=None))
    return value


@patch(
    "torch.fx.experimental.proxy_tensor:get_proxy_slot",
    family="torch",
    name="get_proxy_slot",
    versions="torch>=2.9",
    around=True,
    why="the size of a part that is written to in place, or one that met another in a broadcast, is met without its computation; the "
    "original finds but single symbols, and from torch 2.13 on what is made of them, unless rounded, padded to a multiple, or a product of three",
    obsolete="when torch computes every size from the symbols in it",
    reproducer=sizes_rounded_and_multiplied,
    group="broadcast",
)
def get_proxy_slot(original: Any, obj: Any, tracer: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(obj, torch.SymInt) and obj not in tracer.symnode_tracker and not obj.node.expr.is_Symbol:
        proxy = _proxy_of(tracer, obj.node.expr, obj.node.shape_env)
        if proxy is not None:
            proxy_tensor.set_proxy_slot(obj, tracer, proxy_tensor.Thunk(lambda: proxy))
    return original(obj, tracer, *args, **kwargs)
