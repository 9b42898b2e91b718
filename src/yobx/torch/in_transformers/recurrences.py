"""Linear recurrences written as Python loops over tokens or blocks of them: RecurrentGemma, MiniMax and RWKV.

As in ``state_space``, the operator ``scan`` takes the place of a loop that runs as often as the sample is long.
"""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import check_assumed
from yobx.torch.in_transformers.chunks import along_chunks, up_to_whole_chunks
from yobx.torch.in_transformers.rewriting import Passage, of_any_length, rewriting

torch: Any = lazy("torch")
scan_op: Any = lazy("torch._higher_order_ops.scan:scan_op")


def gated(gate: Any, states: Any, state: Any, dtype: Any) -> tuple[Any, Any]:
    """``state = gate * state + states`` along dimension 1: every state, and the last one."""

    def step(state, gate, new):
        state = gate * state + new
        return [state, state.clone()]

    xs = [tensor.type(dtype).movedim(1, 0) for tensor in (gate, states)]
    state, every = scan_op(step, [state.expand(xs[1].shape[1:])], xs, ())
    return every.movedim(0, 1).type(states.dtype), state


def blocks(query, key, value, query_decay, key_decay, diagonal_decay, block_decay, state):
    """The original's loop over blocks. The padding to whole ones is in front, where it adds nothing to a state."""
    length = query.shape[2]
    padding = up_to_whole_chunks(length, key_decay.shape[1])
    query, key, value = (
        torch.nn.functional.pad(tensor, (0, 0, padding, 0)).unflatten(2, (-1, key_decay.shape[1]))
        for tensor in (query, key, value)
    )

    def step(state, query, key, value, query_decay, key_decay, diagonal_decay, block_decay):
        attn_weights_intra = torch.matmul(query, key.transpose(-1, -2))
        attn_output_intra = torch.matmul(attn_weights_intra * diagonal_decay, value)
        attn_output_inter = torch.matmul(query * query_decay, state)
        update = torch.matmul((key * key_decay).transpose(-1, -2), value)
        return [state * block_decay + update, attn_output_inter + attn_output_intra]

    fixed = (query_decay, key_decay, diagonal_decay, block_decay)
    output, state = along_chunks(step, state, query, key, value, fixed=fixed)
    # Not a slice: what is left of it has the length, but that is not seen.
    return output.flatten(2, 3)[:, :, torch.arange(length, device=output.device) + padding], state


def tokens(query, key, value, ratio, state):
    """The original's loop over tokens after a state that is known."""

    def step(state, query, key, value, ratio):
        state = ratio * state + torch.matmul(key.transpose(-1, -2), value)
        return [state, torch.matmul(query, state)]

    single = [tensor.unsqueeze(3) for tensor in (query, key, value)]
    output, state = along_chunks(step, state, *single, fixed=(ratio,))
    return output.squeeze(3), state


def averages(after, time_decay, time_first, key, value, *states):
    """The original's loop over tokens: weighted averages of the values so far, and the last three states.

    After others, a single token is mixed with the last one by other code of the model, which the program does not have.
    """
    if after is not None:
        check_assumed(key.shape[1] != 1)

    def step(num_state, den_state, max_state, current_key, current_value, time_decay, time_first):
        max_for_output = torch.maximum(max_state, current_key + time_first)
        e1 = torch.exp(max_state - max_for_output)
        e2 = torch.exp(current_key + time_first - max_for_output)
        output = (e1 * num_state + e2 * current_value) / (e1 * den_state + e2)
        max_for_state = torch.maximum(max_state + time_decay, current_key)
        e1 = torch.exp(max_state + time_decay - max_for_state)
        e2 = torch.exp(current_key - max_for_state)
        return [e1 * num_state + e2 * current_value, e1 * den_state + e2, max_for_state, output]

    xs = [key.float().movedim(1, 0), value.movedim(1, 0)]
    *states, output = scan_op(step, list(states), xs, (time_decay, time_first))
    return output.movedim(0, 1).to(key.dtype), *states


STATES = "query_states, key_states, value_states"
LOOP = r"attn_output = \[\]\n +for i in range\(%s\):\n(?:.*\n)*?(?=\n +%s)"
BLOCKS = Passage(
    LOOP % ("num_blocks", "else:"),
    f"attn_output, attn_weights_inter = blocks(\n                {STATES}, self.query_decay, self.key_decay,"
    "\n                self.diagonal_decay, torch.exp(-self.slope_rate * self.block_size), attn_weights_inter)\n",
)
TOKENS = Passage(
    LOOP % ("seq_len", "# concatenate"), f"attn_output, attn_weights_inter = tokens({STATES}, ratio, attn_weights_inter)\n"
)
JOINED = Passage(r"attn_output = torch\.cat\(attn_output, dim=-2\)\n", "")
ONE_TOKEN = Passage(r"hidden_states\.shape\[1\] == 1", "False")
GATED = Passage(
    r"contextualized_states = torch\.zeros_like\(hidden_states\)\n +for t in (?:.*\n)*?(?=\n +return)",
    "contextualized_states, recurrent_states = gated(\n"
    "                recurrent_gate, hidden_states, recurrent_states, acc_dtype)\n",
)
AVERAGES = Passage(
    r"for current_index in range\(seq_length\):\n(?:.*\n)*?(?=\n    if return_state)",
    "output, num_state, den_state, max_state = averages(\n"
    "        state, time_decay, time_first, key, value, num_state, den_state, max_state)\n",
)


def sequences_with_and_without_a_state() -> Reproducer:
    """The attention of MiniMax with blocks of 4: of less than one, of several, and of tokens after some others."""
    from transformers import MiniMaxConfig
    from transformers.models.minimax import modeling_minimax

    sizes = dict(hidden_size=8, num_hidden_layers=2, num_attention_heads=2, head_dim=4, block_size=4)
    config = MiniMaxConfig(**sizes, layer_types=["linear_attention", "full_attention"])

    class OneState:
        """A cache with the state of one layer."""

        def __init__(self, state):
            self.state = state

        def get_linear_cache(self, layer_idx):
            return self.state

        def set_linear_cache(self, layer_idx, state):
            self.state = state

    class Both(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = modeling_minimax.MiniMaxLightningAttention(config, 0)

        def forward(self, x, y):
            attended, state = self.attention(x, None, None)
            return attended, state, *self.attention(y, None, None, OneState(state))

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, first, second):
        return dict(x=torch.randn(batch, first, 8), y=torch.randn(batch, second, 8))

    return Reproducer(
        Both(),
        inputs=inputs(2, 6, 3),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, y={0: dynamic, 1: dynamic}),
        accepts=[inputs(3, 4, 1), inputs(1, 1, 7), inputs(2, 13, 2)],
    )


patch(
    "transformers.models.minimax.modeling_minimax:MiniMaxLightningAttention.forward",
    family="transformers",
    name="lightning_attention",
    around=True,
    versions="transformers>=4.53",
    why="the loops over blocks and over tokens run as often as the sample has them",
    see="https://github.com/pytorch/pytorch/issues/126339",
    obsolete="when the model takes scan while it is exported",
    reproducer=sequences_with_and_without_a_state,
)(rewriting("lightning_attention", BLOCKS, TOKENS, JOINED, helpers=(blocks, tokens), when=of_any_length))


def a_recurrence_of_any_length() -> Reproducer:
    """The recurrence of RecurrentGemma alone, of one token and of several."""
    from transformers.models.recurrent_gemma import modeling_recurrent_gemma

    class Recurrence(torch.nn.Module):
        def forward(self, x, gate):
            scan = modeling_recurrent_gemma.RecurrentGemmaRglru._rnn_scan
            return scan(self, hidden_states=x, recurrent_gate=gate, reset=gate > 0.9, recurrent_states=None)

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, length):
        return dict(x=torch.randn(batch, length, 4), gate=torch.rand(batch, length, 4))

    return Reproducer(
        Recurrence(),
        inputs=inputs(2, 6),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, gate={0: dynamic, 1: dynamic}),
        accepts=[inputs(3, 9), inputs(1, 1)],
    )


patch(
    "transformers.models.recurrent_gemma.modeling_recurrent_gemma:RecurrentGemmaRglru._rnn_scan",
    family="transformers",
    name="rnn_scan",
    around=True,
    versions="transformers>=5.0",
    why="the loop over the sequence runs as often as the sample is long",
    see="https://github.com/pytorch/pytorch/issues/126339",
    obsolete="when the model takes scan while it is exported",
    reproducer=a_recurrence_of_any_length,
)(rewriting("rnn_scan", ONE_TOKEN, GATED, helpers=(gated,), when=of_any_length))


def keys_of_any_length(time_decay: Any, time_first: Any, key: Any, *args: Any, **kwargs: Any) -> bool:
    return of_any_length(key)


def averages_of_any_length() -> Reproducer:
    """The attention of RWKV alone, of one token and of several, and of tokens after some others."""
    from transformers.models.rwkv import modeling_rwkv

    class Averages(torch.nn.Module):
        def forward(self, x, y, weights):
            attention = modeling_rwkv.rwkv_linear_attention_cpu
            first, state = attention(*weights, x, x.sin(), return_state=True)
            return first, *attention(*weights, y, y.sin(), state)

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, first, second):
        return dict(x=torch.randn(batch, first, 4), y=torch.randn(batch, second, 4), weights=torch.randn(2, 4))

    return Reproducer(
        Averages(),
        inputs=inputs(2, 6, 3),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, y={0: dynamic, 1: dynamic}, weights={}),
        accepts=[inputs(3, 4, 2), inputs(1, 1, 7)],
    )


patch(
    "transformers.models.rwkv.modeling_rwkv:rwkv_linear_attention_cpu",
    family="transformers",
    name="averages_of_rwkv",
    around=True,
    versions="transformers>=4.50",
    why="the loop over the sequence runs as often as the sample is long",
    see="https://github.com/pytorch/pytorch/issues/126339",
    obsolete="when the model takes scan while it is exported",
    reproducer=averages_of_any_length,
)(rewriting("averages_of_rwkv", AVERAGES, helpers=(averages,), when=keys_of_any_length))
