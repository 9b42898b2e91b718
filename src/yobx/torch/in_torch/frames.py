"""Who asks about a size: torch looks for the frame of the user, and finds those of a patch between it and the question."""

from __future__ import annotations

import dis
import inspect
import sys
from types import FrameType
from typing import Any

from yobx.autopatch import dispatch
from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch import layouts

torch: Any = lazy("torch")
shapes: Any = lazy("torch.fx.experimental.symbolic_shapes")


def lengths_that_are_asserted() -> Reproducer:
    class Lengths(torch.nn.Module):
        def forward(self, x, lengths):
            assert lengths.max().item() <= x.shape[1]
            return x * (torch.arange(x.shape[1]) < lengths[:, None])

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, length, longest):
        return dict(x=torch.randn(batch, length), lengths=torch.arange(batch) + longest - batch + 1)

    return Reproducer(
        Lengths(),
        inputs=inputs(2, 5, 4),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, lengths={0: dynamic}),
        accepts=[inputs(3, 7, 7), inputs(1, 1, 1)],
        rejects=[inputs(2, 5, 6), inputs(1, 1, 2)],
    )


@patch(
    "torch.fx.experimental.symbolic_shapes:ShapeEnv._get_user_frame",
    family="torch",
    name="user_frame",
    versions="torch>=2.9",
    why="an assertion on data becomes a check of the program, if the frame that asks is at one; a patch of the question is in front of it",
    obsolete="when no patch stands at SymNode.guard_bool",
    reproducer=lengths_that_are_asserted,
)
def get_user_frame(self: Any) -> FrameType | None:
    between = [function.__code__ for function in (get_user_frame, is_python_assert, layouts.more_than_one)]
    frame = inspect.currentframe()
    while frame is not None:
        code = frame.f_code
        ours = code.co_filename == dispatch.__file__ or code in between
        if not ours and code.co_filename not in shapes.uninteresting_files():
            return frame
        frame = frame.f_back
    return frame


@patch(
    "torch.fx.experimental.symbolic_shapes:ShapeEnv._is_python_assert",
    family="torch",
    name="python_assert",
    versions="torch>=2.9,<2.13",
    around=True,
    why="an assertion on data becomes a check of the program, but torch does not know one by the jump that Python 3.11 has in it",
    obsolete="with torch 2.13, which does not ask for the name of the jump",
    reproducer=lengths_that_are_asserted,
)
def is_python_assert(original: Any, self: Any) -> bool:
    frame = self._get_user_frame()
    if sys.version_info[:2] != (3, 11) or frame is None:
        return original(self)
    instructions = list(dis.get_instructions(frame.f_code))
    jump = next(i for i, instruction in enumerate(instructions) if instruction.offset >= frame.f_lasti)
    following = [instruction.opname for instruction in instructions[jump : jump + 3]]
    return following == ["POP_JUMP_FORWARD_IF_TRUE", "LOAD_ASSERTION_ERROR", "RAISE_VARARGS"]
