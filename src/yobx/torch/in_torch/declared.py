"""Dimensions declared equal, by one name or by an expression of one: known to be while the program is traced."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import samples, without_doubt

torch: Any = lazy("torch")
sympy: Any = lazy("sympy")


def three_inputs_of_one_batch() -> Reproducer:
    class Add(torch.nn.Module):
        def forward(self, x, y, z):
            return x + y, y + z

    def inputs(*sizes):
        return {name: torch.randn(size, 4) for name, size in zip("xyz", sizes)}

    batch = torch.export.Dim("batch")
    return Reproducer(
        Add(),
        inputs=inputs(3, 3, 3),
        dynamic_shapes={name: {0: batch} for name in "xyz"},
        accepts=[inputs(n, n, n) for n in (5, 1, 0)],
        rejects=[inputs(3, 2, 3), inputs(3, 3, 2)],
        export=without_doubt,
    )


@patch(
    "torch._export.non_strict_utils:make_fake_inputs",
    family="torch",
    name="declared_equal",
    versions="torch>=2.9",
    around=True,
    why="dimensions of one name get a symbol each, which are found equal only after the trace; until then every question "
    "about them both is undecided",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when torch.export gives dimensions of one name one symbol",
    reproducer=three_inputs_of_one_batch,
)
def declared_equal(original: Any, *args: Any, **kwargs: Any) -> Any:
    made = original(*args, **kwargs)
    shape_env, equalities = made[0].shape_env, made[3]
    symbols = {source: symbol for symbol, sources in shape_env.var_to_sources.items() for source in sources}
    values = samples(shape_env)
    equal = [(a, b, lambda expr: expr) for a, b in equalities.source_pairs]
    for source, root, fn in (*equal, *equalities.derived_equalities):
        symbol, expr = symbols.get(source), symbols.get(root, root)
        # A sample that contradicts what is declared is told of by torch, after the trace
        if symbol in values and isinstance(expr, sympy.Basic) and fn(expr).xreplace(values) == values[symbol]:
            shape_env.evaluate_expr(shape_env.replace(sympy.Eq(symbol, fn(expr))))
    return made
