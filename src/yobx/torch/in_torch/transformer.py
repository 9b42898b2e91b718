"""Masks of ``torch.nn.TransformerEncoder`` and ``TransformerDecoder``."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")


def decoder_with_a_causal_mask() -> Reproducer:
    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            layer = torch.nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)
            self.decoder = torch.nn.TransformerDecoder(layer, 1)

        def forward(self, x, memory):
            mask = torch.nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            return self.decoder(x, memory, tgt_mask=mask)

    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}

    def inputs(b: int, n: int, m: int) -> dict[str, Any]:
        return dict(x=torch.randn(b, n, 8), memory=torch.randn(b, m, 8))

    return Reproducer(
        Decoder(),
        inputs=inputs(2, 5, 3),
        dynamic_shapes=dict(x=dynamic, memory=dynamic),
        accepts=[inputs(3, 4, 7), inputs(1, 1, 1), inputs(2, 6, 1)],
    )


@patch(
    "torch.nn.modules.transformer:_detect_is_causal_mask",
    family="torch",
    name="detect_is_causal_mask",
    versions="torch>=2.9",
    why="whether a mask is a causal one depends on its values, which are not known while a module is traced; without the hint the mask "
    "is applied as it is",
    obsolete="when torch does not ask for the values of a mask while it is traced",
    reproducer=decoder_with_a_causal_mask,
)
def detect_is_causal_mask(mask: Any, is_causal: bool | None = None, size: int | None = None) -> bool:
    return is_causal is True
