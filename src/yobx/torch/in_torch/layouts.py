"""Whether a sample with one image has the layout of channels last."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.marks import decided
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import follows_the_sample, samples

torch: Any = lazy("torch")
sympy: Any = lazy("sympy")


def one_image_with_channels_last() -> Reproducer:
    class Convolution(torch.nn.Module):
        def forward(self, x):
            return torch.nn.functional.conv2d(x, torch.ones(3, 4, 3, 3)).flatten(2)

    def image(*shape: int) -> Any:
        return torch.randn(*shape).to(memory_format=torch.channels_last)

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Convolution(),
        inputs=dict(x=image(1, 4, 5, 6)),
        dynamic_shapes=dict(x={0: dynamic, 2: dynamic, 3: dynamic}),
        accepts=[dict(x=image(n, 4, h, w)) for n, h, w in ((3, 6, 5), (1, 3, 3))],
    )


@patch(
    "torch.fx.experimental.sym_node:SymNode.guard_bool",
    family="torch",
    name="more_than_one",
    versions="torch>=2.9",
    around=True,
    why="ATen asks of every size whether it is above 1 to tell the layout; a sample of one image is laid out as several are",
    see="https://github.com/pytorch/pytorch/issues/176349",
    obsolete="when ATen asks questions of layout without guarding",
    reproducer=one_image_with_channels_last,
)
def more_than_one(original: Any, self: Any, file: str, line: int) -> bool:
    # Python asks without a file: what a model decides by its sizes is not touched.
    if file.endswith("SymInt.h") and isinstance(self.expr, sympy.StrictGreaterThan):
        size, least = self.expr.args
        if least == 1 and size.is_Symbol and not follows_the_sample(self.shape_env, size) and samples(self.shape_env).get(size) == 1:
            decided()
            return True
    return original(self, file, line)
