"""Tiny models to try an export on."""

from __future__ import annotations

import torch


class TinyBroadcastAddModel(torch.nn.Module):
    """``x + y`` where only broadcasting relates the two shapes.

    ``x`` has the shape ``(batch, d1)`` and ``y`` ``(batch, d2)``; the result has ``(batch, d)`` where ``d`` is the
    larger of ``d1`` and ``d2`` unless one of them is 0. Turned by :func:`yobx.torch.use_dyn_not_str`, the four
    dimensions are independent.
    """

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The sum of ``x`` and ``y``, broadcast against each other."""
        return x + y

    @classmethod
    def _export_inputs(cls) -> dict[str, torch.Tensor]:
        """A sample: ``x`` (2, 5) and ``y`` (2, 1)."""
        generator = torch.Generator().manual_seed(0)
        return {"x": torch.randn(2, 5, generator=generator), "y": torch.randn(2, 1, generator=generator)}

    @classmethod
    def _dynamic_shapes(cls) -> dict[str, dict[int, str]]:
        """The names of the dynamic dimensions."""
        return {"x": {0: "batch", 1: "d1"}, "y": {0: "batch", 1: "d2"}}
