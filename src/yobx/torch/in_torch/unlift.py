"""The code of a program's guards: what it names, and what Python makes of it when the program is traced again."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Sequence
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.dynamic_shapes import guarded_keyword
from yobx.torch.in_torch.sizes import decomposed

torch: Any = lazy("torch")

_SHAPES = "torch.fx.experimental.symbolic_shapes"


def _call(function: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.parse(function, mode="eval").body, list(args), [])


class _Whole(ast.NodeTransformer):
    """Turns what Python evaluates part by part, deciding each, into functions that take symbols as they are."""

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        self.generic_visit(node)
        return _call(f"{_SHAPES}.sym_{'or' if isinstance(node.op, ast.Or) else 'and'}", *node.values)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        self.generic_visit(node)
        return _call("torch.sym_not", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        if len(node.ops) == 1:
            return node
        sides = [node.left, *node.comparators]
        pairs = [ast.Compare(a, [op], [b]) for a, op, b in zip(sides, node.ops, sides[1:])]
        return _call(f"{_SHAPES}.sym_and", *pairs)

    def visit_Call(self, node: ast.Call) -> ast.expr:
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id in ("max", "min"):
            result, *rest = node.args
            for arg in rest:
                result = _call(f"torch.sym_{node.func.id}", result, arg)
            return result
        return node


def _whole(code: str) -> str:
    return ast.unparse(ast.fix_missing_locations(_Whole().visit(ast.parse(code.strip(), mode="eval"))))


def zeros_of_a_broadcast() -> Reproducer:
    class Zeros(torch.nn.Module):
        def forward(self, x, y):
            return torch.zeros(torch.broadcast_shapes(x.shape, y.shape)) + x

    return Reproducer(
        Zeros(),
        inputs=dict(x=torch.randn(2, 5), y=torch.randn(2, 1)),
        dynamic_shapes=dict(x={1: torch.export.Dim.DYNAMIC}, y={1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(2, n), y=torch.randn(2, m)) for n, m in ((4, 4), (1, 3), (3, 1), (0, 1))],
        rejects=[dict(x=torch.randn(2, 4), y=torch.randn(2, 3))],
        export=decomposed,
    )


@patch(
    "torch.export._unlift:_convert_guards_code_to_fn",
    family="torch",
    name="guards_of_a_retrace",
    versions="torch>=2.9",
    around=True,
    why="Python decides the sides of an 'or', and which of two sizes is the larger, by the sample; a guard is kept whole",
    see="https://github.com/pytorch/pytorch/issues/181097",
    obsolete="when the code of a guard is made of torch.sym_or, torch.sym_max and their like",
    reproducer=zeros_of_a_broadcast,
)
def guards_of_a_retrace(original: Any, guards_code: Any, paths_of_placeholders: Any) -> Any:
    return original([_whole(code) for code in guards_code], paths_of_placeholders)


_PART_OF_AN_ARGUMENT = re.compile(r"L\['(\w+)'\]\[(?:(\d+)|'(\w+)')\]")


def _by_own_names(code: str, names: Sequence[str]) -> str:
    """Code of a guard in which ``*args`` and ``**kwargs`` are named as the program names them, one by one."""

    def renamed(found: re.Match[str]) -> str:
        whole, index, key = found.groups()
        if whole in names:
            return found[0]
        if index is None:
            return f"L['{key}']" if key in names else found[0]
        if f"{whole}_{index}" in names:
            return f"L['{whole}_{index}']"
        # Dynamo calls what reaches a module of torch's own by position ``args``.
        return f"L['{names[int(index)]}']" if whole == "args" and int(index) < len(names) else found[0]

    return _PART_OF_AN_ARGUMENT.sub(renamed, code)


def guarded_keyword_in_strict_mode() -> Reproducer:
    return dataclasses.replace(guarded_keyword(), strict=True)


@patch(
    "torch.export.exported_program:ExportedProgram.__init__",
    family="torch",
    name="names_in_guards",
    versions="torch>=2.9,<2.13",
    around=True,
    why="guards on *args and **kwargs name them as forward does, the program names each by itself: no such guard could run",
    see="https://github.com/pytorch/pytorch/issues/164313",
    obsolete="with torch 2.13, which renames the arguments in guards",
    reproducer=guarded_keyword_in_strict_mode,
)
def names_in_guards(original: Any, self: Any, *args: Any, **kwargs: Any) -> None:
    original(self, *args, **kwargs)
    signature = self.module_call_graph[0].signature
    if signature is not None and signature.forward_arg_names:
        self._guards_code = [_by_own_names(code, signature.forward_arg_names) for code in self._guards_code]
