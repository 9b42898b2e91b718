"""What a sample may decide: sizes 0 and 1, and questions with a default answer."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.marks import decided
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import asking, oblivious, undecided

sympy: Any = lazy("sympy")
sympy_functions: Any = lazy("torch.utils._sympy.functions")
torch: Any = lazy("torch")
shapes: Any = lazy("torch.fx.experimental.symbolic_shapes")
ValueRanges: Any = lazy("torch.utils._sympy.value_ranges:ValueRanges")
int_oo: Any = lazy("torch.utils._sympy.numbers:int_oo")
SymT: Any = lazy("torch.utils._sympy.symbol:SymT")


def linear_of_one_row() -> Reproducer:
    return Reproducer(
        torch.nn.Linear(4, 3),
        inputs=dict(input=torch.randn(1, 4)),
        dynamic_shapes=dict(input={0: torch.export.Dim("b", min=1)}),
        accepts=[dict(input=torch.randn(n, 4)) for n in (1, 5)],
    )


def _asks_for_zero(question: Any) -> bool:
    """Whether this asks if a stride or size is 0, rather than the rest of a division."""
    rests = (sympy_functions.Mod, sympy_functions.PythonMod)
    return isinstance(question, sympy.Eq) and 0 in question.args and not any(isinstance(arg, rests) for arg in question.args)


@patch(
    "torch.fx.experimental.symbolic_shapes:_guard_or",
    family="torch",
    name="guard_or",
    versions="torch>=2.9",
    why="a question with a default answer needs no guard when the sample gives the same answer, "
    "nor when the sample must not decide",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when torch asks such questions without guarding",
    reproducer=linear_of_one_row,
    group="zero_one",
)
def guard_or(a: Any, default: bool) -> bool:
    """
    Try to guard a, if data dependent error encountered just return default.
    """
    if not isinstance(a, torch.SymBool):
        if not isinstance(a, bool):
            raise AssertionError(f"Expected bool, got {type(a)}")
        return a

    shape_env = getattr(a.node, "shape_env", None)

    # xla symnode path.
    if shape_env is None:
        return shapes.guard_bool(a)

    sym_node = a.node
    if asking.layout and sym_node.hint and _asks_for_zero(sym_node.expr):
        # A stride that is 0 in the sample, by which torch divides unless it is told so.
        decided()
        return True

    if oblivious(shape_env, sym_node.expr):
        result = shapes._static_eval_sym_bool(a)
        if result is None:
            decided()
        return result if result is not None else default

    if asking.layout and shapes._static_eval_sym_bool(a) is None:
        decided()
        with shape_env.suppress_guards():
            return bool(shape_env.evaluate_sym_node(sym_node, size_oblivious=False, fallback_value=default))

    r = sym_node.shape_env.evaluate_sym_node(
        sym_node, size_oblivious=False, fallback_value=default
    )
    return bool(r)


def contiguous_copy_of_one_row() -> Reproducer:
    class Contiguous(torch.nn.Module):
        def forward(self, x):
            return x.transpose(0, 1).contiguous()

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    return Reproducer(
        Contiguous(),
        inputs=dict(x=torch.randn(1, 5, 8)),
        dynamic_shapes=dict(x=dynamic),
        accepts=[dict(x=torch.randn(n, m, 8)) for n, m in ((3, 5), (1, 1), (4, 1))],
    )


@patch(
    "torch.fx.experimental.sym_node:SymNode.has_hint",
    family="torch",
    name="has_hint",
    versions="torch>=2.9",
    why="ATen answers questions of layout from the sample wherever a size has a hint, and guards on the answer; "
    "without one it takes the way that decides nothing",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when ATen asks questions of layout without guarding",
    reproducer=contiguous_copy_of_one_row,
    group="zero_one",
)
def has_hint(self: Any) -> bool:
    if self._hint is None or self.shape_env is None or not self.is_int():
        return self._hint is not None
    return not undecided(self.shape_env, self.expr)


def _declare_python_side(target: str, name: str, versions: str) -> None:
    def has_guarding_hint(a: Any) -> bool:
        if isinstance(a, (torch.SymBool, torch.SymInt, torch.SymFloat)):
            return a.node._hint is not None
        return True

    patch(
        f"torch.fx.experimental.symbolic_shapes:{target}",
        family="torch",
        name=name,
        versions=versions,
        why="what is asked in Python, as the memory format of a convolution, may still follow the sample",
        see="https://github.com/pytorch/pytorch/issues/176349",
        obsolete="with torch:has_hint",
        reproducer=channels_last_convolution_of_one_image,
        group="zero_one",
    )(has_guarding_hint)


def channels_last_convolution_of_one_image() -> Reproducer:
    class Convolution(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution = torch.nn.Conv2d(4, 6, 3)

        def forward(self, x):
            return self.convolution(x.to(memory_format=torch.channels_last)).flatten(2)

    dynamic = {0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}
    return Reproducer(
        Convolution(),
        inputs=dict(x=torch.randn(1, 4, 8, 8)),
        dynamic_shapes=dict(x=dynamic),
        accepts=[dict(x=torch.randn(n, 4, m, 8)) for n, m in ((3, 5), (1, 9))],
    )


_declare_python_side("has_guarding_hint", "has_guarding_hint", "torch>=2.13")
_declare_python_side("has_hint", "has_hint_in_python", "torch>=2.9,<2.13")


def _is_size_of_an_input(source: Any) -> bool:
    """Not a stride nor an offset, nor a size of what the sample is a view of: these are the sample's own."""
    prop = getattr(getattr(source, "prop", None), "name", "SIZE")
    return prop == "SIZE" and getattr(getattr(source, "base", None), "member", None) != "_base"


@patch(
    "torch.fx.experimental.symbolic_shapes:ShapeEnv.create_symbol",
    family="torch",
    name="create_symbol",
    versions="torch>=2.9",
    around=True,
    why="a dimension declared dynamic stays so when the sample has size 0 or 1 there",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when torch does not specialise a declared dynamic dimension to 0 or 1",
    reproducer=linear_of_one_row,
    group="zero_one",
)
def create_symbol(
    original: Any,
    self: Any,
    val: Any,
    source: Any,
    dynamic_dim: Any = None,
    constraint_dim: Any = None,
    positive: bool | None = True,
    do_not_specialize_zero_one: bool = False,
    symbolic_context: Any = None,
) -> Any:
    dynamic_dim = shapes.DimDynamic.DUCK if dynamic_dim is None else dynamic_dim
    declared = (
        type(val) is int and val in (0, 1) and constraint_dim is not None and not constraint_dim.warn_only
    )
    symbol = original(
        self,
        val,
        source,
        dynamic_dim,
        constraint_dim,
        positive,
        do_not_specialize_zero_one or declared,
        symbolic_context,
    )
    if declared and val == 1:
        # As torch lets sizes of 2 and more start at 2: what it knows of them is not what the dimension takes.
        self.var_to_range[symbol] &= ValueRanges(1, int_oo)
    if constraint_dim is None and isinstance(symbol, sympy.Symbol) and _is_size_of_an_input(source):
        # Dim.AUTO leaves it to torch what the sample decides.
        self.__dict__.setdefault("yobx_automatic", set()).add(symbol)
    return symbol


def sum_of_nothing_joined() -> Reproducer:
    class Join(torch.nn.Module):
        def forward(self, x, y, z):
            return torch.cat([x + y, z])

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    shapes_of = [((3, 4), (3, 1), (2, 4)), ((2, 0), (2, 1), (5, 0))]
    return Reproducer(
        Join(),
        inputs=dict(x=torch.randn(2, 5), y=torch.randn(2, 5), z=torch.randn(3, 5)),
        dynamic_shapes=dict(x=dynamic, y=dynamic, z=dynamic),
        accepts=[dict(x=torch.randn(*x), y=torch.randn(*y), z=torch.randn(*z)) for x, y, z in shapes_of],
    )


@patch(
    "torch.fx.experimental.symbolic_shapes:make_symbol",
    family="torch",
    name="make_symbol",
    versions="torch>=2.9",
    around=True,
    why="a size may be 0; the original tells sympy that it is not, and sympy simplifies that case away",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when torch makes the symbols of sizes nonnegative instead of positive",
    reproducer=sum_of_nothing_joined,
)
def make_symbol(original: Any, prefix: Any, idx: Any, **kwargs: Any) -> Any:
    if prefix is SymT.SIZE and kwargs.get("positive"):
        del kwargs["positive"]
        kwargs["nonnegative"] = True
    return original(prefix, idx, **kwargs)
