"""Programs that AOTInductor computes wrongly, and says nothing."""

from __future__ import annotations

import os
import tempfile
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Outcome, Reproducer
from yobx.torch.in_torch.sizes import expression, has_broadcast, samples

torch: Any = lazy("torch")


class Refused(Reproducer):
    """A reproducer that compiles its program: wrong shapes without the patch, an error with it."""

    def run(self) -> Outcome:
        """Compile and compare under the patches active now."""
        program = torch.export.export(self.model, (), kwargs=self.inputs, dynamic_shapes=self.dynamic_shapes)
        with tempfile.TemporaryDirectory() as folder:
            try:
                torch._inductor.aoti_compile_and_package(program, package_path=os.path.join(folder, "program.pt2"))
            except UndecidedBroadcastError:
                return Outcome("general")
        return Outcome("narrow", ("compiled, to a program that gives wrong shapes",))


class UndecidedBroadcastError(RuntimeError):
    """AOTInductor would take a broadcast for what it was in the sample."""


def sum_of_unrelated_sizes() -> Reproducer:
    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    dynamic = {1: torch.export.Dim.DYNAMIC}
    return Refused(
        Add(), inputs=dict(x=torch.randn(3, 5), y=torch.randn(3, 1)), dynamic_shapes=dict(x=dynamic, y=dynamic)
    )


def sizes_of(graph: Any) -> Any:
    """Every symbolic size in a graph, with the node that has it."""
    for node in graph.nodes:
        value = node.meta.get("val")
        for leaf in torch.utils._pytree.tree_leaves(value):
            for size in leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,):
                if isinstance(size, torch.SymInt):
                    yield node, size


def why_wrong(graph: Any) -> str | None:
    """What in a graph AOTInductor computes wrongly, in words."""
    for node, size in sizes_of(graph):
        expr = expression(size)
        if has_broadcast(expr):
            return f"node {node.name} broadcasts sizes whose relation is left open ({expr})"
        sample = samples(size.node.shape_env)
        for symbol in expr.free_symbols:
            if node.op == "placeholder" and sample.get(symbol) in (0, 1):
                return f"input {node.name} had size {sample[symbol]} in a dynamic dimension of the sample"
    return None


@patch(
    "torch._inductor:_aoti_compile_and_package_inner",
    family="torch",
    name="aoti_compile",
    versions="torch>=2.9",
    why="AOTInductor takes a broadcast for what it was in the sample and computes wrong shapes: the program is refused",
    obsolete="when AOTInductor guards on, or leaves open, what it takes for a broadcast",
    reproducer=sum_of_unrelated_sizes,
    around=True,
)
def aoti_compile(original: Any, gm: Any, args: Any, kwargs: Any = None, **options: Any) -> Any:
    wrong = why_wrong(gm.graph)
    if wrong is not None:
        raise UndecidedBroadcastError(
            f"AOTInductor of torch {torch.__version__} would compute this program wrongly: {wrong}. "
            "Run it by ExportedProgram.module() or through ONNX, or export it from a larger sample "
            "whose sizes do not broadcast."
        )
    return original(gm, args, kwargs, **options)
