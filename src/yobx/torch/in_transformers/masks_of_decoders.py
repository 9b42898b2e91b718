"""Causal masks of decoders in transformers 4 that are given none: as long as the keys.

While a model is exported nothing is written in the place of a missing padding mask, and the causal mask is made one
column too long. Some attention functions cut the column off; the plain one adds the mask to the scores as it is.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")

# The models, and how their classes begin.
DECODERS = {
    "bart": "Bart",
    "bigbird_pegasus": "BigBirdPegasus",
    "blenderbot": "Blenderbot",
    "blenderbot_small": "BlenderbotSmall",
    "m2m_100": "M2M100",
    "marian": "Marian",
    "mbart": "MBart",
    "pegasus": "Pegasus",
    "pegasus_x": "PegasusX",
    "plbart": "PLBart",
}


def a_decoder_without_a_mask(model: str) -> Reproducer:
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(
        model.replace("_small", "-small"), vocab_size=16, d_model=8, encoder_layers=1, encoder_attention_heads=2,
        encoder_ffn_dim=8, decoder_layers=1, decoder_attention_heads=2, decoder_ffn_dim=8, max_position_embeddings=32,
        use_cache=False, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1,
        attn_implementation="eager",
    )  # fmt: skip
    if hasattr(config, "attention_type"):
        config.attention_type = "original_full"
    torch.manual_seed(0)
    whole = AutoModel.from_config(config)

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.decoder = whole.get_decoder()

        def forward(self, input_ids):
            return self.decoder(input_ids=input_ids, use_cache=False).last_hidden_state

    def inputs(batch, length):
        return dict(input_ids=torch.arange(batch * length).reshape(batch, length) % 13 + 3)

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Decoder(),
        inputs=inputs(2, 6),
        dynamic_shapes=dict(input_ids={0: dynamic, 1: dynamic}),
        accepts=[inputs(3, 9), inputs(1, 1), inputs(1, 4)],
    )


def as_long_as_the_keys(
    original: Any, self: Any, attention_mask: Any, input_tensor: Any, cache_position: Any, past_key_values: Any
) -> Any:
    mask = original(self, attention_mask, input_tensor, cache_position, past_key_values)
    if mask is None or attention_mask is not None or self.config._attn_implementation != "eager":
        return mask
    if past_key_values is not None and past_key_values.is_compileable:
        return mask
    return mask[..., :-1]


for _model, _prefix in DECODERS.items():
    patch(
        f"transformers.models.{_model}.modeling_{_model}:{_prefix}PreTrainedModel._update_causal_mask",
        family="transformers",
        name=f"mask_without_padding_of_{_model}",
        around=True,
        versions="transformers>=4.57,<5.0",
        why="without a padding mask the causal one has a column more than there are keys, which only some attention functions cut off",
        obsolete="with transformers 5, whose masks are made by shared functions",
        reproducer=partial(a_decoder_without_a_mask, _model),
    )(as_long_as_the_keys)
