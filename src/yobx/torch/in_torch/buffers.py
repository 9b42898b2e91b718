"""Buffers that are parameters: the exporter keeps them, and then cannot make a module of the program."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")


def a_parameter_registered_as_a_buffer() -> Reproducer:
    class Scaled(torch.nn.Module):
        def __init__(self):
            super().__init__()
            scale = torch.nn.Parameter(torch.arange(3.0), requires_grad=False)
            self.register_buffer("scale", scale, persistent=False)

        def forward(self, x):
            return x * self.scale

    return Reproducer(
        Scaled(),
        inputs=dict(x=torch.randn(2, 3)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(5, 3))],
    )


@patch(
    "torch.export._trace:_move_non_persistent_buffers_to_tensor_constants",
    family="torch",
    name="parameters_as_buffers",
    around=True,
    versions="torch>=2.9",
    why="torch.fx registers a parameter as such whatever it is called, and ep.module() then fails to make it a buffer",
    obsolete="when ep.module() of a program with a non-persistent buffer that is a parameter succeeds",
    reproducer=a_parameter_registered_as_a_buffer,
)
def parameters_as_buffers(original: Any, orig_mod: Any, graph_signature: Any, constants: Any) -> None:
    original(orig_mod, graph_signature, constants)
    for name in graph_signature.non_persistent_buffers:
        if isinstance(constants[name], torch.nn.Parameter):
            constants[name] = constants[name].detach().requires_grad_(constants[name].requires_grad)
