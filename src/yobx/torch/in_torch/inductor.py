"""Programs that AOTInductor computes wrongly, and says nothing."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Outcome, Reproducer
from yobx.torch.in_torch.sizes import expression, has_broadcast, larger_or_smaller, samples, sizes_of

torch: Any = lazy("torch")


class Refused(Reproducer):
    """A reproducer that compiles its program: wrong shapes without the patch, an error with it."""

    def run(self) -> Outcome:
        """Compile and compare under the patches active now."""
        program = torch.export.export(self.model, (), kwargs=self.inputs, dynamic_shapes=self.dynamic_shapes)
        with tempfile.TemporaryDirectory() as folder:
            try:
                torch._inductor.aoti_compile_and_package(program, package_path=os.path.join(folder, "program.pt2"))
            except WronglyCompiledError:
                return Outcome("general")
        return Outcome("narrow", ("compiled, to a program that gives wrong shapes",))


class WronglyCompiledError(RuntimeError):
    """AOTInductor takes sizes for what they were in the sample, and says nothing."""


def sum_of_unrelated_sizes() -> Reproducer:
    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    dynamic = {1: torch.export.Dim.DYNAMIC}
    return Refused(
        Add(), inputs=dict(x=torch.randn(3, 5), y=torch.randn(3, 1)), dynamic_shapes=dict(x=dynamic, y=dynamic)
    )


def why_wrong(graph: Any) -> str | None:
    """What in a graph AOTInductor computes wrongly, in words."""
    for node, size in sizes_of(graph):
        expr = expression(size)
        if has_broadcast(expr):
            return f"node {node.name} broadcasts sizes whose relation is left open ({expr})"
        if isinstance(node.meta["val"], torch.Tensor) and larger_or_smaller(expr):
            return f"node {node.name} has the larger or the smaller of two sizes ({expr})"
        sample = samples(size.node.shape_env)
        for symbol in expr.free_symbols:
            if node.op == "placeholder" and sample.get(symbol) in (0, 1):
                return f"input {node.name} had size {sample[symbol]} in a dynamic dimension of the sample"
    return None


def fixed(graph: Any) -> Any:
    """The sizes of the inputs that have become numbers, in words; asked before and after, as nobody checks the guards."""
    for node in graph.find_nodes(op="placeholder"):
        value = node.meta.get("val")
        for i, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and expression(size).is_number:
                yield f"{node.name}.shape[{i}] is fixed to {expression(size)}"


@patch(
    "torch._inductor:_aoti_compile_and_package_inner",
    family="torch",
    name="aoti_compile",
    versions="torch>=2.9",
    why="AOTInductor takes sizes for what they were in the sample and computes wrong shapes: the program is refused",
    obsolete="when AOTInductor checks the guards that it makes",
    reproducer=sum_of_unrelated_sizes,
    around=True,
)
def aoti_compile(original: Any, gm: Any, args: Any, kwargs: Any = None, **options: Any) -> Any:
    wrong = why_wrong(gm.graph)
    if wrong is None:
        before = set(fixed(gm.graph))
        compiled = original(gm, args, kwargs, **options)
        wrong = next((one for one in fixed(gm.graph) if one not in before), None)
        if wrong is None:
            return compiled
    raise WronglyCompiledError(
        f"AOTInductor of torch {torch.__version__} computes this program wrongly: {wrong}. "
        "Run it by ExportedProgram.module() or through ONNX, or export it from a larger sample "
        "whose sizes do not broadcast."
    )
