"""Questions about sizes that the patches share: what a broadcast yields, and what may not be guarded on.

A broadcast pairs two sizes that are equal or of which one is 1. Which of the three it is may be unknown while a graph is
traced, and a program that is to run all three may not decide. The size of the result can be written down without deciding:
the larger of the two, or 0 when one of them is 0. Every undecided broadcast of this family yields that one expression,
over the set of all sizes that met in it, so that two tensors broadcast from the same sizes have equal sizes, and that
a broadcast can be told from any other expression.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.marks import decided

torch: Any = lazy("torch")
sympy: Any = lazy("sympy")
symbolic_shapes: Any = lazy("torch.fx.experimental.symbolic_shapes")
sympy_functions: Any = lazy("torch.utils._sympy.functions")
bound_sympy: Any = lazy("torch.utils._sympy.value_ranges:bound_sympy")
value_ranges: Any = lazy("torch.utils._sympy.value_ranges:ValueRanges")


def is_symbolic(size: Any) -> bool:
    return isinstance(size, (torch.SymInt, torch.SymBool)) and getattr(size.node, "shape_env", None) is not None


def expression(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else sympy.Integer(size)


def hint(size: Any) -> int | None:
    """What the size was in the sample; None if it depends on data."""
    if isinstance(size, int):
        return size
    found = size.node.hint if is_symbolic(size) else None
    return found if isinstance(found, int) else None


def samples(shape_env: Any) -> Any:
    """The values that the symbols of the inputs had in the sample; torch 2.9 names the mapping otherwise."""
    return shape_env.backed_var_to_val if hasattr(shape_env, "backed_var_to_val") else shape_env.var_to_val


def parts(expr: Any) -> Any:
    """The sizes that met in a broadcast, or the expression itself when it is no broadcast."""
    if isinstance(expr, sympy.Mul) and len(expr.args) == 2:
        for most, least in (expr.args, expr.args[::-1]):
            if isinstance(most, sympy_functions.Max) and isinstance(least, sympy_functions.Min):
                if set(least.args) == {sympy.S.One, *most.args}:
                    return set(most.args)
    return {expr}


def has_broadcast(expr: Any) -> bool:
    """Whether an expression is made of the size of an undecided broadcast."""
    return any(
        sympy.S.One in least.args and expr.has(sympy_functions.Max(*(set(least.args) - {sympy.S.One})))
        for least in expr.atoms(sympy_functions.Min)
    )


def larger_or_smaller(expr: Any) -> bool:
    """Whether an expression holds the larger or the smaller of two sizes."""
    return bool(expr.has(sympy_functions.Max, sympy_functions.Min))


def sizes_of(graph: Any) -> Iterator[tuple[Any, Any]]:
    """Every symbolic size in a graph, with the node that has it."""
    for node in graph.nodes:
        for leaf in torch.utils._pytree.tree_leaves(node.meta.get("val")):
            for size in leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,):
                if isinstance(size, torch.SymInt):
                    yield node, size


def decomposed(*args: Any, **kwargs: Any) -> Any:
    """Export and decompose, for a reproducer."""
    return torch.export.export(*args, **kwargs).run_decompositions()


def without_doubt(*args: Any, **kwargs: Any) -> Any:
    """Export, for a reproducer, and refuse a program in which a tensor has the larger or the smaller of two sizes.

    Raises:
        ValueError: names the node.
    """
    program = torch.export.export(*args, **kwargs)
    for node, size in sizes_of(program.graph):
        if isinstance(node.meta["val"], torch.Tensor) and larger_or_smaller(expression(size)):
            raise ValueError(f"{node} has the undecided size {size}")
    return program


def follows_the_sample(shape_env: Any, symbol: Any) -> bool:
    """Whether torch's own rules hold for this symbol: ``Dim.AUTO`` asks for what the sample suggests."""
    return symbol in getattr(shape_env, "yobx_automatic", ())


def never_one(shape_env: Any, expr: Any) -> bool:
    """Whether a size is certainly not 1.

    The range of a symbol cannot be asked as it stands: the size of an input starts at 1 or 2, whatever its dimension was
    declared to take, so that no program is specialised to 1.
    """
    if expr.is_number:
        return bool(expr != 1)
    ranges = {}
    for symbol in expr.free_symbols:
        known = shape_env.var_to_range.get(symbol)
        if known is None:
            return False
        if known.lower in (1, 2) and not follows_the_sample(shape_env, symbol):
            known = value_ranges(0, known.upper)
        ranges[symbol] = known
    found = bound_sympy(expr, ranges)
    return bool(found.lower > 1 or found.upper < 1)


def undecided(shape_env: Any, expr: Any) -> bool:
    """Whether a size is one that the sample must not decide.

    So are sizes that were 0 or 1 in the sample (only a dimension declared dynamic has a symbol then), sizes derived from others
    that may become 1, as the half of one, and the larger or the smaller of two, as the size of an undecided broadcast.
    """
    sample = samples(shape_env)
    if any(sample.get(symbol) in (0, 1) for symbol in expr.free_symbols) or larger_or_smaller(expr):
        return True
    return not expr.is_Symbol and not expr.is_Boolean and not expr.is_Relational and bool(shape_env.bound_sympy(expr).lower <= 1)


class Asking(threading.local):
    """What the questions of this thread are about: the order of dimensions in memory, which needs no guard."""

    def __init__(self) -> None:
        self.layout = False


asking = Asking()


def oblivious(shape_env: Any, question: Any) -> bool:
    """Whether a question with a default answer must get it where the sample would give another.

    So must every question whether two sizes are equal, every question about undecided sizes, and the order of two sizes
    each made of others, as strides are, unless torch's own rules hold.
    """
    if any(follows_the_sample(shape_env, symbol) for symbol in question.free_symbols):
        return False
    relations = question.atoms(sympy.core.relational.Relational) or {question}
    if all(isinstance(relation, (sympy.Eq, sympy.Ne)) for relation in relations):
        return True
    if any(_orders_strides(relation) for relation in relations):
        return True
    return any(
        any(undecided(shape_env, side) for side in relation.args)
        or not any(side.is_Symbol or side.is_number for side in relation.args)
        for relation in relations
    )


def _orders_strides(relation: Any) -> bool:
    """Whether this compares a number with a multiple of it, as strides are: where they tie, the order does not matter."""
    if isinstance(relation, (sympy.Eq, sympy.Ne)) or not relation.is_Relational:
        return False
    left, right = relation.args
    return any((upper / lower).is_integer for upper, lower in ((left, right), (right, left)) if lower != 0)


def leave_open(size: Any, wanted: Any) -> None:
    """Mark the node being traced where neither 1 nor the wanted size is what a dimension is known to have."""
    if (is_symbolic(size) or is_symbolic(wanted)) and expression(size) not in (1, expression(wanted)):
        decided()


def keep_guard(shape_env: Any, expr: Any) -> None:
    """Have the program check this, though torch takes it for granted, as that a size is at least 2."""
    shape_env.guards.append(symbolic_shapes.ShapeGuard(expr, shape_env._get_sloc(), False))


def check_assumed(condition: Any) -> None:
    """As ``torch._check``, and kept where torch takes the condition for granted."""
    torch._check(condition)
    if is_symbolic(condition) and not condition.node.expr.is_number:
        keep_guard(condition.node.shape_env, condition.node.expr)


def check_broadcast(a: Any, b: Any) -> None:
    """Have the program reject sizes that do not broadcast, whether or not an operator that would is left in it."""
    torch._check(
        symbolic_shapes.sym_or(a == b, a == 1, b == 1),
        lambda: f"The size of a tensor ({a}) must match the size of another ({b}), or one of them be 1",
    )


def broadcast_size(a: Any, b: Any) -> Any:
    """The size that results from broadcasting a dimension of size ``a`` with one of size ``b``; None if they never fit."""
    if not is_symbolic(a) and not is_symbolic(b):
        return b if a == 1 else a if b in (1, a) else None
    shape_env = (a if is_symbolic(a) else b).node.shape_env
    x, y = expression(a), expression(b)
    if x == y or y == 1:
        return a
    if x == 1:
        return b
    met, other = hint(a), hint(b)
    if met is not None and other is not None and met != other and 1 not in (met, other):
        return None
    mine, theirs = parts(x), parts(y)
    if theirs <= mine or mine <= theirs:
        decided()
        return a if theirs <= mine else b
    left, right = never_one(shape_env, x), never_one(shape_env, y)
    cut, whole = (x, y) if y in _cut_from(x) else (y, x)
    if whole in _cut_from(cut) and all(never_one(shape_env, other) for other in _cut_from(cut) - {whole}):
        # At most as long as what it meets, and 1 only with it: they fit where nothing was cut off.
        torch._check(a == b, lambda: f"The size of a tensor ({a}) must match the size of another ({b})")
        return a if whole == x else b
    if left and right:
        torch._check(a == b, lambda: f"The size of a tensor ({a}) must match the size of another ({b})")
        return b if y.is_number else a
    decided()
    check_broadcast(a, b)
    if left or right:
        return a if left else b
    most: Any = None
    least: Any = 1
    for part in sorted(mine | theirs, key=str):
        size = shape_env.create_symintnode(part, hint=None)
        most = size if most is None else torch.sym_max(most, size)
        least = torch.sym_min(least, size)
    return most * least


def sample_decides(*sizes: Any) -> bool:
    """Whether all is known of these sizes, or torch's own rules hold for one."""
    symbolic = [size for size in sizes if is_symbolic(size)]
    return not symbolic or any(
        follows_the_sample(size.node.shape_env, symbol) for size in symbolic for symbol in expression(size).free_symbols
    )


def smaller(a: Any, b: Any) -> Any:
    """The smaller of two sizes, as one of them where their order is known."""
    known = symbolic_shapes.statically_known_true
    if known(a <= b):
        return a
    if known(a >= b):
        return b
    decided()
    return torch.sym_min(a, b)


def _cut_from(expr: Any) -> set[Any]:
    """The sizes of which an expression is the smallest, as the length of a slice is; empty if it is none."""
    return set(expr.args) if isinstance(expr, sympy_functions.Min) else set()


def of_one_batch(*tensors: Any) -> Any:
    """Tensors of three or more dimensions expanded to one batch, where theirs broadcast without being known to be equal."""
    if len({tensor.ndim for tensor in tensors}) > 1 or tensors[0].ndim < 3:
        return tensors
    size: Any = 1
    for tensor in tensors:
        size = broadcast_size(size, tensor.shape[0]) if size is not None else None
    if not is_symbolic(size) or all(expression(tensor.shape[0]) == expression(size) for tensor in tensors):
        return tensors
    return [tensor.expand(size, *[-1] * (tensor.ndim - 1)) for tensor in tensors]


def stride_of_expanded(size: Any, stride: Any, wanted: Any) -> Any:
    """The stride of a dimension of this size once it is expanded: unchanged when it was as wanted, otherwise another.

    Nothing can be concluded from it but by knowing which of the two holds. It is never 0, as torch divides by strides.
    """
    return stride * (wanted - size + 1)
