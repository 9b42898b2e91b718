"""Declared ranges: a smallest size of 1 or 2 is a guard of the program, and every guard outlives a retrace."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import keep_guard

torch: Any = lazy("torch")
sympy: Any = lazy("sympy")
non_strict_utils: Any = lazy("torch._export.non_strict_utils")


def _rows(least: int, export: Any = None) -> Reproducer:
    class Double(torch.nn.Module):
        def forward(self, x):
            return x * 2

    return Reproducer(
        Double(),
        inputs=dict(x=torch.randn(3, 4)),
        dynamic_shapes=dict(x={0: torch.export.Dim("rows", min=least)}),
        accepts=[dict(x=torch.randn(n, 4)) for n in (least, 5)],
        rejects=[dict(x=torch.randn(n, 4)) for n in range(least)],
        export=export,
    )


def at_least_two_rows() -> Reproducer:
    return _rows(2)


def _declared(gm: Any, combined_args: Any, dynamic_shapes: Any, num_lifted_inputs: int) -> Iterator[tuple[Any, int]]:
    """The sizes of the inputs with the smallest value that the user declared."""
    if not isinstance(dynamic_shapes, dict):
        combined_args = type(dynamic_shapes)(combined_args.values())
    specs = non_strict_utils._flatten_dynamic_shapes(combined_args, dynamic_shapes)
    for node, spec in zip(gm.graph.find_nodes(op="placeholder")[num_lifted_inputs:], specs):
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor) and spec is not None:
            for i, dim in spec.items() if isinstance(spec, dict) else enumerate(spec):
                yield value.shape[i], getattr(dim, "min", None) or 0


@patch(
    "torch._export.non_strict_utils:make_constraints",
    family="torch",
    name="make_constraints",
    versions="torch>=2.9",
    around=True,
    why="a program checks a declared minimum only from 3 up, as torch takes every size for at least 2; 1 and 2 become guards",
    obsolete="when a program checks every declared minimum",
    reproducer=at_least_two_rows,
)
def make_constraints(
    original: Any, fake_mode: Any, gm: Any, combined_args: Any, dynamic_shapes: Any, num_lifted_inputs: int
) -> Any:
    constraints = original(fake_mode, gm, combined_args, dynamic_shapes, num_lifted_inputs)
    shape_env = fake_mode.shape_env
    for size, least in _declared(gm, combined_args, dynamic_shapes, num_lifted_inputs) if dynamic_shapes else ():
        if least in (1, 2) and isinstance(size, torch.SymInt) and not size.node.expr.is_number:
            keep_guard(shape_env, sympy.Ge(size.node.expr, least, evaluate=False))
    return constraints


def at_least_two_rows_decomposed() -> Reproducer:
    def export(*args: Any, **kwargs: Any) -> Any:
        file = io.BytesIO()
        torch.export.save(torch.export.export(*args, **kwargs), file)
        file.seek(0)
        return torch.export.load(file).run_decompositions()

    return _rows(2, export)


@patch(
    "torch.export.exported_program:_decompose_exported_program",
    family="torch",
    name="decompose_exported_program",
    versions="torch>=2.9",
    around=True,
    why="what a program rejects, it rejects decomposed; a guard that torch takes for granted is lost when a loaded program is traced again",
    obsolete="when a decomposed program keeps the guards of the one that it is made of",
    reproducer=at_least_two_rows_decomposed,
)
def decompose_exported_program(original: Any, ep: Any, **kwargs: Any) -> Any:
    decomposed = original(ep, **kwargs)
    decomposed._guards_code += [guard for guard in ep._guards_code if guard not in decomposed._guards_code]
    return decomposed
