"""Linear attention computed in chunks: the sequence is padded to whole ones, and a state goes from chunk to chunk.

Written for sizes that Python knows, the number of chunks is the sample's, and whether there is padding is asked. Here
the padded length is written so that its being a multiple of the chunk can be proved, what was padded is always cut off, and
a loop over the chunks is the operator ``scan``, which runs as often as there are chunks.
"""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.rewriting import Passage, called, of_any_length, rewriting

torch: Any = lazy("torch")
scan_op: Any = lazy("torch._higher_order_ops.scan:scan_op")

PADDING = Passage(
    r"\(chunk_size - sequence_length % chunk_size\) % chunk_size", "up_to_whole_chunks(sequence_length, chunk_size)"
)
CUT = Passage(r"if pad_size > 0:\n +", "")
DELTA_RULE = Passage(
    r"for i in range\(num_chunks\):\n(?:.+\n)*",
    "core_attn_out, last_recurrent_state = delta_rule(\n"
    "        new_values, k_cumdecay, query, intra_chunk_attn, chunk_decay, key, last_recurrent_state\n"
    "    )\n",
)
KIMI_RULE = Passage(
    r"for i in range\(total_sequence_length // chunk_size\):\n(?:.*\n)*?(?=\n    if not output_final_state)",
    "core_attn_out, last_recurrent_state = kimi_rule(\n"
    "        query, key, value, g, decay_mask, k_cumdecay, last_recurrent_state\n"
    "    )\n",
)


def up_to_whole_chunks(length: Any, chunk_size: int) -> Any:
    """How much is lacking to the next multiple of the chunk."""
    return (length + chunk_size - 1) // chunk_size * chunk_size - length


def along_chunks(step: Any, state: Any, *chunked: Any, fixed: tuple[Any, ...] = ()) -> tuple[Any, Any]:
    """Carry a state through the chunks, which are dimension 2; what the steps give, and the last state.

    Args:
        step: takes the state, one chunk of each tensor, and what is fixed; gives the next state and an output.
        state: the first one.
        chunked: the tensors.
        fixed: tensors that are the same in all the steps.
    """
    # Undecided otherwise: whether the state is for as many rows as there are.
    state = state.expand(chunked[0].shape[0], *state.shape[1:])
    state, output = scan_op(step, [state], [tensor.movedim(2, 0) for tensor in chunked], fixed)
    return output.movedim(0, 2), state


def delta_rule(new_values, k_cumdecay, query, attention, chunk_decay, key, state):
    """The original's loop over chunks, whatever their number."""

    def step(state, new_values, k_cumdecay, query, attention, chunk_decay, key):
        v_new = new_values - k_cumdecay @ state
        output = query @ state + attention @ v_new
        return [state * chunk_decay + key.transpose(-1, -2) @ v_new, output]

    return along_chunks(step, state, new_values, k_cumdecay, query, attention, chunk_decay, key)


def kimi_rule(query, key, value, g, decay_mask, k_cumdecay, state):
    """The original's loop over chunks, whatever their number."""

    def step(state, q_i, k_i, v_i, g_i, decay, k_cumdecay):
        attn_inter = (q_i * g_i.exp()) @ state
        attn_intra = (q_i.unsqueeze(-2) * k_i.unsqueeze(-3) * decay).sum(dim=-1).tril()
        v_new = v_i - k_cumdecay @ state
        decayed = state * g_i[:, :, -1].exp().unsqueeze(-1)
        state = decayed + (k_i * (g_i[:, :, -1:] - g_i).exp()).transpose(-1, -2) @ v_new
        return [state, attn_inter + attn_intra @ v_new]

    return along_chunks(step, state, query, key, value, g, decay_mask, k_cumdecay)


HELPERS = (up_to_whole_chunks, delta_rule, kimi_rule)
# The functions, by the models that hold one and what is replaced.
FUNCTIONS: dict[str, tuple[tuple[str, ...], tuple[Passage, ...]]] = {
    "mamba2_chunk_scan": (
        ("bamba", "falcon_h1", "granitemoehybrid", "mamba2", "nemotron_h", "zamba2"),
        (PADDING, CUT),
    ),
    "torch_chunk_gated_delta_rule": (
        ("lara_mini", "olmo_hybrid", "qwen3_5", "qwen3_5_moe", "qwen3_next", "qwen4_exp"),
        (PADDING, DELTA_RULE),
    ),
    "chunk_kimi_delta_attention": (("bailing_hybrid", "glm5_next", "kimi_linear"), (PADDING, KIMI_RULE)),
}


def _sequences(model: str, name: str) -> Any:
    def sequence_of_one_chunk_and_several() -> Reproducer:
        """The function of one model alone, on less than a chunk of 2, on a whole one, and on several."""
        import importlib

        function = getattr(importlib.import_module(f"transformers.models.{model}.modeling_{model}"), name)

        class Chunks(torch.nn.Module):
            def forward(self, x):
                decay = x.mean(dim=-1)
                if name == "mamba2_chunk_scan":
                    groups = x[:, :, :1]
                    return function(x, decay, -torch.ones(2), groups, groups, chunk_size=2, return_final_states=True)
                g = -decay[..., None].expand(x.shape) if "kimi" in name else -decay
                options = dict(chunk_size=2, output_final_state=True, use_qk_l2norm_in_kernel=True)
                return function(x, x, x, g=g, beta=decay, **options)

        dynamic = torch.export.Dim.DYNAMIC

        def inputs(batch, length):
            return dict(x=torch.rand(batch, length, 2, 4))

        return Reproducer(
            Chunks(),
            inputs=inputs(2, 3),
            dynamic_shapes=dict(x={0: dynamic, 1: dynamic}),
            accepts=[inputs(3, 2), inputs(1, 1), inputs(2, 8), inputs(2, 11)],
        )

    return sequence_of_one_chunk_and_several


for _function, (_models, _passages) in FUNCTIONS.items():
    for _model in _models:
        patch(
            f"transformers.models.{_model}.modeling_{_model}:{_function}",
            family="transformers",
            name=f"chunks_of_{_model}",
            around=True,
            versions="transformers>=5.0",
            why="whether the sequence is a whole number of chunks is asked in Python, and their number is the sample's",
            see="https://github.com/pytorch/pytorch/issues/126339",
            obsolete="when the model pads and loops without asking about sizes",
            reproducer=_sequences(_model, _function),
        )(
            rewriting(
                f"chunks_of_{_model}",
                *_passages,
                helpers=called(_passages, HELPERS),
                when=of_any_length,
            )
        )
