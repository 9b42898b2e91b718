"""The least size of a dimension, which a sample of at least two makes 2 while the program is traced."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")
symbol_is_type: Any = lazy("torch.utils._sympy.symbol:symbol_is_type")
SymT: Any = lazy("torch.utils._sympy.symbol:SymT")
ValueRanges: Any = lazy("torch.utils._sympy.value_ranges:ValueRanges")
bound_sympy: Any = lazy("torch.utils._sympy.value_ranges:bound_sympy")
Max: Any = lazy("torch.utils._sympy.functions:Max")

# Where no least size is declared. The program is let down to 0 in the end, but for what was derived from it.
ASSUMED = 2


def a_sum_of_sizes_within_a_third() -> Reproducer:
    """A slice as long as two inputs together, as of a mask over past and new tokens."""

    class Sliced(torch.nn.Module):
        def forward(self, past, new, mask):
            length = past.shape[0] + new.shape[0]
            torch._check(length <= mask.shape[0])
            return torch.cat([past, new]) * mask[:length]

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(past, new, mask):
        return dict(past=torch.randn(past), new=torch.randn(new), mask=torch.randn(mask))

    return Reproducer(
        Sliced(),
        inputs=inputs(5, 3, 8),
        dynamic_shapes=dict(past={0: dynamic}, new={0: dynamic}, mask={0: dynamic}),
        accepts=[inputs(1, 1, 2), inputs(1, 2, 3), inputs(7, 2, 12)],
        rejects=[inputs(5, 3, 7)],
    )


@patch(
    "torch.fx.experimental.symbolic_shapes:ShapeEnv._refine_ranges",
    family="torch",
    name="refine_ranges",
    around=True,
    versions="torch>=2.9",
    why="a relation of sizes that are assumed to be 2 or more becomes a least size of one of them, and rejects 0 and 1",
    obsolete="when the sizes 0 and 1 of a sample are not special in torch.export",
    reproducer=a_sum_of_sizes_within_a_third,
)
def refine_ranges(original, self, expr):
    symbols = self.simplify(expr).free_symbols
    of_inputs = [symbol for symbol in symbols if not symbol_is_type(symbol, SymT.UNBACKED_INT)]
    if len(symbols) > 1 and of_inputs and all(_has_assumed_range(self, symbol) for symbol in of_inputs):
        # The guard stays; only the bounds that follow from it are not drawn
        return None
    return original(self, expr)


def tokens_of_two_images() -> Reproducer:
    """Tokens split among two images, and seen as images, whose sizes other inputs have."""

    class Images(torch.nn.Module):
        def forward(self, tokens, half, x, y):
            (h, w), (k, m) = x.shape, y.shape
            first, second = tokens.split([h * w, k * m])
            return first.view(h, w) * x, second.view(k, m) * y, half.view(2, h) * 2

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(h: int, w: int, k: int, m: int) -> dict[str, Any]:
        tokens, half = torch.randn(h * w + k * m), torch.randn(2 * h)
        return dict(tokens=tokens, half=half, x=torch.randn(h, w), y=torch.randn(k, m))

    return Reproducer(
        Images(),
        inputs=inputs(3, 4, 2, 5),
        dynamic_shapes=dict(
            tokens={0: dynamic}, half={0: dynamic}, x={0: dynamic, 1: dynamic}, y={0: dynamic, 1: dynamic}
        ),
        accepts=[inputs(*sizes) for sizes in ((1, 2, 1, 3), (1, 1, 1, 1), (5, 1, 2, 2))],
        rejects=[{**inputs(2, 3, 4, 1), "tokens": torch.randn(9)}, {**inputs(2, 3, 4, 1), "half": torch.randn(6)}],
    )


@patch(
    "torch.export._trace:_get_range_constraints",
    family="torch",
    name="range_constraints",
    around=True,
    versions="torch>=2.9",
    why="a size that equals an expression in sizes that are assumed to be 2 or more gets a least size, and rejects what 0 and 1 make of it",
    obsolete="when the sizes 0 and 1 of a sample are not special in torch.export",
    reproducer=tokens_of_two_images,
)
def range_constraints(original, mod, export_artifact, *args, **kwargs):
    shape_env = export_artifact.fake_mode.shape_env
    bounds_of = shape_env.bound_sympy

    def bounds_of_any_size(size, *options, **named):
        bounds = bounds_of(size, *options, **named)
        assumed = [symbol for symbol in size.free_symbols if _has_assumed_range(shape_env, symbol)]
        if size.is_Symbol or not assumed:
            return bounds
        ranges = {symbol: ValueRanges(0, shape_env.var_to_range[symbol].upper) for symbol in assumed}
        least = bound_sympy(size, {**shape_env.var_to_range, **ranges}).lower
        return ValueRanges(min(bounds.lower, max(least, 0)), bounds.upper)

    # Before they meet what is declared, which is kept.
    shape_env.bound_sympy = bounds_of_any_size
    try:
        return original(mod, export_artifact, *args, **kwargs)
    finally:
        del shape_env.bound_sympy


def _has_assumed_range(shape_env: Any, symbol: Any) -> bool:
    bounds = shape_env.var_to_range.get(symbol)
    return symbol in shape_env.var_to_sources and bounds is not None and bounds.lower == ASSUMED


def scores_of_relative_positions() -> Reproducer:
    """Two sizes that met in a broadcast, and rows shifted against each other by views."""

    class Shifted(torch.nn.Module):
        def forward(self, x, y):
            z = x + y
            b, n = z.shape
            scores = torch.nn.functional.pad(z[:, :, None] * torch.arange(2 * n - 1), (1, 0))
            return scores.view(b, 2 * n, n)[:, 1:].view(b, n, 2 * n - 1)

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(b: int, n: int, m: int) -> dict[str, Any]:
        return dict(x=torch.randn(b, n), y=torch.randn(b, m))

    return Reproducer(
        Shifted(),
        inputs=inputs(2, 6, 6),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, y={0: dynamic, 1: dynamic}),
        accepts=[inputs(3, 9, 9), inputs(1, 1, 1), inputs(2, 1, 4)],
        rejects=[inputs(2, 3, 4)],
    )


@patch(
    "torch.fx.experimental.symbolic_shapes:ShapeEnv.simplify",
    family="torch",
    name="simplify",
    around=True,
    versions="torch>=2.15",
    why="one of two equal expressions is left half simplified where a maximum holds a minimum: their sizes count as different",
    obsolete="when ShapeEnv.simplify of torch gives what no second call of it changes",
    reproducer=scores_of_relative_positions,
)
def simplify(original, self, expr, *args, **kwargs):
    simplified = original(self, expr, *args, **kwargs)
    while simplified != expr and simplified.has(Max):
        expr, simplified = simplified, original(self, simplified, *args, **kwargs)
    return simplified
