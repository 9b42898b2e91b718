"""Layers of transformers 4 that compute a prompt and the tokens after it by two branches: LFM2 and Qwen3-Next.

Which branch a call takes is asked of a position's value, or of the number of tokens. What both do is written as one
computation here, and what differs is chosen by a tensor.
"""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.rewriting import Passage, of_any_length, rewriting

torch: Any = lazy("torch")


def short_conv(self, Bx, past_key_values, cache_position):
    """The original's convolution of tokens that follow others, and of those that do not."""
    conv_out = self.conv(Bx)[..., : Bx.shape[-1]]
    if past_key_values is None:
        return conv_out
    follow = cache_position[0] > 0
    conv_state = past_key_values.conv_cache[self.layer_idx]
    prompt = torch.nn.functional.pad(Bx, (self.L_cache, 0))[..., -self.L_cache :]
    step = conv_state.roll(shifts=-1, dims=-1)
    step[:, :, cache_position.clamp(0, self.L_cache - 1)] = Bx.to(device=step.device, dtype=step.dtype)
    conv_state.copy_(torch.where(follow, step, prompt))
    one = torch.sum(step.to(Bx.device) * self.conv.weight[:, 0, :], dim=-1)
    if self.bias:
        one = one + self.conv.bias
    return torch.where(follow, one.unsqueeze(-1), conv_out)


def tokens_after_some_and_after_none() -> Reproducer:
    """The convolution of LFM2 with a state; a token at position 0 forgets it."""
    from transformers import Lfm2Config
    from transformers.models.lfm2.modeling_lfm2 import Lfm2HybridConvCache, Lfm2ShortConv

    config = Lfm2Config(hidden_size=8, num_hidden_layers=2, layer_types=["conv", "full_attention"])
    conv = Lfm2ShortConv(config, 0)

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = conv

        def forward(self, x, state, position):
            cache = Lfm2HybridConvCache(config, x.shape[0])
            cache.conv_cache[0] = state.clone()
            return self.conv(x, cache, position), cache.conv_cache[0]

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, length, past):
        state = torch.randn(batch, 8, config.conv_L_cache)
        return dict(x=torch.randn(batch, length, 8), state=state, position=torch.arange(past, past + length))

    return Reproducer(
        Step(),
        inputs=inputs(2, 6, 5),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, state={0: dynamic}, position={0: dynamic}),
        accepts=[inputs(3, 1, 7), inputs(1, 1, 1), inputs(2, 5, 0), inputs(2, 1, 0), inputs(1, 4, 1)],
    )


patch(
    "transformers.models.lfm2.modeling_lfm2:Lfm2ShortConv.slow_forward",
    family="transformers",
    name="conv_of_lfm2",
    around=True,
    versions="transformers>=4.57,<5.0",
    why="whether tokens follow others is asked of the value of the first one's position",
    obsolete="with transformers 5, whose caches know whether they have been filled",
    reproducer=tokens_after_some_and_after_none,
)(
    rewriting(
        "conv_of_lfm2",
        Passage(
            r"if past_key_values is not None and cache_position\[0\] > 0:\n(?:.*\n)*?(?=\n +y = C)",
            "conv_out = short_conv(self, Bx, past_key_values, cache_position)\n",
        ),
        helpers=(short_conv,),
        when=of_any_length,
    )
)


def state_for(length, state):
    """The state that tokens go on from: a single one from what came before, several from nothing, as in the original."""
    return torch.where(torch.scalar_tensor(length, device=state.device) == 1, state, 0)


def one_token_and_several_after_others() -> Reproducer:
    """The layer of Qwen3-Next with states, from which a single token goes on, but several do not."""
    from transformers import Qwen3NextConfig
    from transformers.models.qwen3_next import modeling_qwen3_next

    sizes = dict(linear_num_key_heads=2, linear_num_value_heads=2, linear_key_head_dim=4, linear_value_head_dim=4)
    config = Qwen3NextConfig(
        hidden_size=8, num_hidden_layers=2, layer_types=["linear_attention", "full_attention"], **sizes
    )
    layer = modeling_qwen3_next.Qwen3NextGatedDeltaNet(config, 0)

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x, conv_state, recurrent_state, position):
            cache = modeling_qwen3_next.Qwen3NextDynamicCache(config)
            cache.conv_states[0], cache.recurrent_states[0] = conv_state.clone(), recurrent_state
            return self.layer(x, cache, position), cache.conv_states[0], cache.recurrent_states[0]

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, length):
        return dict(
            x=torch.randn(batch, length, 8),
            conv_state=torch.randn(batch, 24, config.linear_conv_kernel_dim),
            recurrent_state=torch.randn(batch, 2, 4, 4),
            position=torch.arange(5, 5 + length),
        )

    states = {0: dynamic}
    return Reproducer(
        Step(),
        inputs=inputs(2, 6),
        dynamic_shapes=dict(
            x={0: dynamic, 1: dynamic}, conv_state=states, recurrent_state=states, position={0: dynamic}
        ),
        accepts=[inputs(3, 1), inputs(1, 2), inputs(2, 64), inputs(1, 70)],
    )


patch(
    "transformers.models.qwen3_next.modeling_qwen3_next:Qwen3NextGatedDeltaNet.forward",
    family="transformers",
    name="step_of_qwen3_next",
    around=True,
    versions="transformers>=4.57,<5.0",
    why="whether there is one token or several is asked in Python: one goes on from the states, several from nothing",
    obsolete="with transformers 5, where several go on from the states as one does",
    reproducer=one_token_and_several_after_others,
)(
    rewriting(
        "step_of_qwen3_next",
        Passage(r"\n +and seq_len == 1\n", "\n"),
        Passage(
            r"(?P<margin>\n +)# getting projected states(?:.*\n)*?(?=\n)",
            r"\g<0>\g<margin>if use_precomputed_states:"
            r"\g<margin>    recurrent_state = state_for(seq_len, recurrent_state)"
            r"\g<margin>    conv_state = cache_params.conv_states[self.layer_idx] = state_for(seq_len, conv_state)"
            "\n",
        ),
        Passage(r"self\.recurrent_gated_delta_rule\(", "self.chunk_gated_delta_rule("),
        helpers=(state_for,),
        when=of_any_length,
    )
)
