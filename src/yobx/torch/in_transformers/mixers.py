"""Mixers of state-space models in transformers 4: masks, chunks and caches written out in long methods of each model.

In transformers 5 the same passages are functions, which have patches of their own.
"""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.chunks import CUT, along_chunks, up_to_whole_chunks
from yobx.torch.in_transformers.rewriting import Passage, of_any_length, rewriting
from yobx.torch.in_transformers.state_space import apply_mask_to_padding_states_v4

torch: Any = lazy("torch")

# Classes of mixers, and the sizes of a small one, with chunks of 4 tokens.
_SIZES = dict(hidden_size=8, mamba_n_heads=4, mamba_d_head=4, mamba_n_groups=1, mamba_d_state=4, mamba_chunk_size=4)
MIXERS: dict[str, tuple[str, dict[str, int]]] = {
    "bamba": ("BambaMixer", _SIZES),
    "falcon_h1": ("FalconH1Mixer", {**_SIZES, "mamba_d_ssm": 16}),
    "granitemoehybrid": ("GraniteMoeHybridMambaLayer", _SIZES),
    "mamba2": ("Mamba2Mixer", dict(hidden_size=8, num_heads=4, head_dim=4, n_groups=1, state_size=4, chunk_size=4)),
    "zamba2": ("Zamba2MambaMixer", dict(hidden_size=8, n_mamba_heads=4, mamba_ngroups=1, mamba_d_state=4, chunk_size=4)),
}
PADDING = Passage(
    r"\(self\.chunk_size - seq_len % self\.chunk_size\) % self\.chunk_size", "up_to_whole_chunks(seq_len, self.chunk_size)"
)
MASKING = Passage(
    r"if attention_mask is not None and attention_mask\.shape\[1\] > 1 and attention_mask\.shape\[0\] > 1:\n"
    r"\s*#.*\n\s*(hidden_states = ).*\n",
    r"\1apply_mask_to_padding_states_v4(hidden_states, attention_mask)\n",
)
DELTA_RULE = (
    Passage(
        r"\(chunk_size - sequence_length % chunk_size\) % chunk_size", "up_to_whole_chunks(sequence_length, chunk_size)"
    ),
    Passage(
        r"for i in range\(0, total_sequence_length // chunk_size\):\n(?:.*\n)*?(?=\n    if not output_final_state)",
        "core_attn_out, last_recurrent_state = delta_rule_v4(\n"
        "        query, key, value, decay_mask, k_cumdecay, g, last_recurrent_state\n"
        "    )\n",
    ),
)
# A layer that is given no positions takes the prompt for one, as it does where they begin at 0.
NO_POSITIONS = Passage(r"cache_position = torch\.arange\(0, self\.config\.conv_kernel, [^)]*\)", "cache_position = None")


def delta_rule_v4(query, key, value, decay_mask, k_cumdecay, g, state):
    """The original's loop over chunks, whatever their number."""

    def step(state, q_i, k_i, v_i, decay, k_cumdecay, g_i):
        attn = (q_i @ k_i.transpose(-1, -2) * decay).tril()
        v_new = v_i - k_cumdecay @ state
        attn_inter = (q_i * g_i[..., None].exp()) @ state
        decayed = state * g_i[:, :, -1, None, None].exp()
        state = decayed + (k_i * (g_i[:, :, -1, None] - g_i).exp()[..., None]).transpose(-1, -2) @ v_new
        return [state, attn_inter + attn @ v_new]

    return along_chunks(step, state, query, key, value, decay_mask, k_cumdecay, g)


def _config(model: str) -> Any:
    from transformers import AutoConfig

    return AutoConfig.for_model(model, **MIXERS[model][1])


def _mixer(model: str) -> Any:
    import importlib

    module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    config = _config(model)
    mixer = getattr(module, MIXERS[model][0])(config, layer_idx=0)
    if model == "falcon_h1":
        # The model gives it to every mixer.
        mixer.register_buffer("mup_vector", module.compute_mup_vector(config), persistent=False)
    return mixer


def _states_of_any_length(model: str) -> Any:
    def states_of_any_length() -> Reproducer:
        """The mixer of one model, on less than a chunk, on a whole one, and on several."""
        mixer = _mixer(model)

        class Mixer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.mixer = mixer

            def forward(self, x):
                return self.mixer.torch_forward(x)

        dynamic = torch.export.Dim.DYNAMIC
        return Reproducer(
            Mixer(),
            inputs=dict(x=torch.randn(2, 5, 8)),
            dynamic_shapes=dict(x={0: dynamic, 1: dynamic}),
            accepts=[dict(x=torch.randn(n, m, 8)) for n, m in ((3, 4), (1, 1), (2, 12), (2, 15))],
        )

    return states_of_any_length


def _one_row_and_several(model: str) -> Any:
    def one_row_and_several() -> Reproducer:
        """The mixer of one model with a mask, from a single row, which is not masked."""
        mixer = _mixer(model)

        class Mixer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.mixer = mixer

            def forward(self, x, mask):
                return self.mixer(x, attention_mask=mask)

        dynamic = torch.export.Dim.DYNAMIC

        def inputs(batch, length):
            return dict(x=torch.randn(batch, length, 8), mask=(torch.arange(length) > 1).long().expand(batch, -1))

        return Reproducer(
            Mixer(),
            inputs=inputs(1, 5),
            dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, mask={0: dynamic, 1: dynamic}),
            accepts=[inputs(3, 7), inputs(2, 2), inputs(1, 3)],
        )

    return one_row_and_several


for _model, (_name, _) in MIXERS.items():
    patch(
        f"transformers.models.{_model}.modeling_{_model}:{_name}.torch_forward",
        family="transformers",
        name=f"chunks_of_{_model}_v4",
        around=True,
        versions="transformers>=4.57,<5.0",
        why="whether the sequence is a whole number of chunks is asked in Python",
        see="https://github.com/pytorch/pytorch/issues/126339",
        obsolete="with transformers 5, whose function for it has a patch of its own",
        reproducer=_states_of_any_length(_model),
    )(rewriting(f"chunks_of_{_model}_v4", PADDING, CUT, helpers=(up_to_whole_chunks,), when=of_any_length))

for _model in ("bamba", "falcon_h1", "granitemoehybrid"):
    patch(
        f"transformers.models.{_model}.modeling_{_model}:{MIXERS[_model][0]}.forward",
        family="transformers",
        name=f"mixer_of_{_model}",
        around=True,
        versions="transformers>=4.57,<5.0",
        why="whether there is one row or several is asked in Python, so the program is for one or for several",
        obsolete="with transformers 5, which does not ask",
        reproducer=_one_row_and_several(_model),
    )(rewriting(f"mixer_of_{_model}", MASKING, helpers=(apply_mask_to_padding_states_v4,)))


def chunks_of_queries_and_keys() -> Reproducer:
    """The function alone, on less than a chunk of 2, on a whole one, and on several."""
    from transformers.models.qwen3_next.modeling_qwen3_next import torch_chunk_gated_delta_rule

    class Chunks(torch.nn.Module):
        def forward(self, x):
            decay = x.mean(dim=-1)
            options = dict(chunk_size=2, output_final_state=True, use_qk_l2norm_in_kernel=True)
            return torch_chunk_gated_delta_rule(x, x, x, g=-decay, beta=decay, **options)

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Chunks(),
        inputs=dict(x=torch.rand(2, 3, 2, 4)),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}),
        accepts=[dict(x=torch.rand(n, m, 2, 4)) for n, m in ((3, 2), (1, 1), (2, 8), (2, 11))],
    )


patch(
    "transformers.models.qwen3_next.modeling_qwen3_next:torch_chunk_gated_delta_rule",
    family="transformers",
    name="chunks_of_qwen3_next_v4",
    around=True,
    versions="transformers>=4.57,<5.0",
    why="whether the sequence is a whole number of chunks is asked in Python, and their number is the sample's",
    see="https://github.com/pytorch/pytorch/issues/126339",
    obsolete="with transformers 5, whose loop is written otherwise and has a patch of its own",
    reproducer=chunks_of_queries_and_keys,
)(
    rewriting(
        "chunks_of_qwen3_next_v4", *DELTA_RULE, helpers=(up_to_whole_chunks, delta_rule_v4), when=of_any_length
    )
)


def a_prompt_that_fills_a_cache() -> Reproducer:
    from transformers import Mamba2Config
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Model

    model = Mamba2Model(Mamba2Config(num_hidden_layers=1, vocab_size=16, **MIXERS["mamba2"][1]))

    class Prefill(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            output = self.model(input_ids, use_cache=True)
            return output.last_hidden_state, output.cache_params.conv_states, output.cache_params.ssm_states

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, length):
        return dict(input_ids=(torch.arange(batch * length) % 16).reshape(batch, length))

    return Reproducer(
        Prefill(),
        inputs=inputs(2, 6),
        dynamic_shapes=dict(input_ids={0: dynamic, 1: dynamic}),
        accepts=[inputs(3, 9), inputs(1, 1), inputs(1, 4)],
    )


patch(
    "transformers.models.mamba2.modeling_mamba2:Mamba2Model.forward",
    family="transformers",
    name="prefill_of_mamba2",
    around=True,
    versions="transformers>=4.57,<5.0",
    why="every layer asks whether the first position is 0, which it is when the model has just made the cache",
    obsolete="with transformers 5, whose caches know whether they have been filled",
    reproducer=a_prompt_that_fills_a_cache,
)(rewriting("prefill_of_mamba2", NO_POSITIONS, helpers=()))


def one_token_after_others() -> Reproducer:
    """The mixer of Mamba-2 with states of earlier tokens, which a token at position 0 forgets."""
    from transformers.models.mamba2.modeling_mamba2 import Mamba2Cache

    mixer = _mixer("mamba2")
    config = _config("mamba2")

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mixer = mixer

        def forward(self, x, conv_states, ssm_states, position):
            cache = Mamba2Cache(config, x.shape[0], dtype=x.dtype)
            cache.conv_states, cache.ssm_states = conv_states.clone(), ssm_states.clone()
            return self.mixer(x, cache, position), cache.conv_states, cache.ssm_states

    def inputs(batch, position):
        cache = Mamba2Cache(config, batch, dtype=torch.float32)
        return dict(
            x=torch.randn(batch, 1, 8),
            conv_states=torch.rand(cache.conv_states.shape),
            ssm_states=torch.rand(cache.ssm_states.shape),
            position=torch.tensor([position]),
        )

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Step(),
        inputs=inputs(2, 5),
        dynamic_shapes=dict(x={0: dynamic}, conv_states={1: dynamic}, ssm_states={1: dynamic}, position={}),
        accepts=[inputs(3, 1), inputs(1, 7), inputs(2, 0)],
    )


@patch(
    "transformers.models.mamba2.modeling_mamba2:Mamba2Mixer.forward",
    family="transformers",
    name="step_of_mamba2",
    around=True,
    versions="transformers>=4.57,<5.0",
    why="whether a token follows others is asked of its position; with states of zero the first one is a step like any other",
    obsolete="with transformers 5, whose caches know whether they have been filled",
    reproducer=one_token_after_others,
)
def step_of_mamba2(original, self, hidden_states, cache_params=None, cache_position=None, attention_mask=None):
    length = hidden_states.shape[1]
    if isinstance(length, int) and length == 1 and cache_params is not None and cache_position is not None:
        first = cache_position[0] <= 0
        for states in (cache_params.conv_states, cache_params.ssm_states):
            states[self.layer_idx].masked_fill_(first, 0)
        # A position, known in Python, of a token that follows others
        cache_position = (1,)
    return original(self, hidden_states, cache_params, cache_position, attention_mask)
