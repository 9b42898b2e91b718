"""Decompositions that run Python code once per element of a size: recurrent layers."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import check_assumed, is_symbolic

torch: Any = lazy("torch")
proxy_tensor: Any = lazy("torch.fx.experimental.proxy_tensor")
decompositions: Any = lazy("torch._decomp.decompositions")
while_loop_op: Any = lazy("torch._higher_order_ops.while_loop:while_loop_op")
export_patches: Any = lazy("torch.export._patches")


def _sequences(layer: Any) -> Reproducer:
    return Reproducer(
        layer,
        inputs=dict(input=torch.randn(2, 5, 4)),
        dynamic_shapes=dict(input={0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}),
        accepts=[dict(input=torch.randn(b, t, 4)) for b, t in ((3, 9), (1, 2), (1, 1))],
    )


def gru_of_any_length() -> Reproducer:
    return _sequences(torch.nn.GRU(4, 6, batch_first=True))


def lstm_of_any_length() -> Reproducer:
    return _sequences(torch.nn.LSTM(4, 6, batch_first=True))


def _loop(inputs: Any, states: Any, weights: Any, step: Any, reverse: bool) -> Any:
    """What the steps of a layer give, stacked, and the states after the last: ``step(input, states, weights)`` gives new states.

    The operator is called as it is: ``torch.while_loop`` has Dynamo find what the functions close over, and Dynamo makes sizes
    dynamic that differ from an earlier layer's.
    """
    check_assumed(inputs.size(0) > 0)
    inputs = inputs.flip(0) if reverse else inputs
    n = len(states)

    def cond_fn(index, out, *rest):
        return index < out.size(0)

    def body_fn(index, out, *rest):
        states, inputs, weights = rest[:n], rest[n], rest[n + 1 :]
        i = index.item()
        torch._check(i >= 0)
        torch._check(i < inputs.size(0))
        states = step(torch.select(inputs, 0, i), states, weights)
        return (index + 1, torch.select_scatter(out, states[0].squeeze(0), 0, i), *states)

    start = torch.zeros((), dtype=torch.int64)
    out = states[0].new_empty(inputs.size(0), *states[0].shape)
    carried = (start, out, *(state.unsqueeze(0) for state in states))
    # The operator takes no two inputs that share storage, as weights and states may.
    states_and_weights = export_patches._clone_tensors_that_alias((*carried[2:], *weights))
    carried, weights = (start, out, *states_and_weights[:n]), states_and_weights[n:]
    _, out, *states = while_loop_op(cond_fn, body_fn, carried, (inputs, *weights))
    return out.flip(0) if reverse else out, [state.squeeze(0) for state in states]


@patch(
    "torch._decomp.decompositions:one_layer_rnn",
    family="torch",
    name="one_layer_rnn",
    versions="torch>=2.13",
    around=True,
    why="the original runs once per step of the sample; a loop in the graph runs as often as the sequence is long",
    see="https://github.com/pytorch/pytorch/issues/126339",
    obsolete="when torch decomposes GRU and RNN into a loop by itself",
    reproducer=gru_of_any_length,
)
def one_layer_rnn(
    original: Any, inp: Any, hidden: Any, params: Any, has_biases: Any, hidden_fn: Any, reverse: bool = False
) -> Any:
    length = inp.size(0)
    if not is_symbolic(length):
        return original(inp, hidden, params, has_biases, hidden_fn, reverse)
    if proxy_tensor.get_proxy_mode() is None:
        # Only the shapes are asked for: the operator itself goes into the graph.
        return hidden.new_empty(length, *hidden.shape), hidden.new_empty(hidden.shape)
    inputs = torch.nn.functional.linear(inp, params[0], params[2] if has_biases else None)

    def step(step_input, states, weights):
        return (hidden_fn(step_input, *states, None, None, *weights, *[None] * (2 - len(weights))),)

    out, states = _loop(inputs, (hidden,), params[1:4:2] if has_biases else params[1:2], step, reverse)
    return out, states[0]


@patch(
    "torch._decomp.decompositions:one_layer_lstm",
    family="torch",
    name="one_layer_lstm",
    versions="torch>=2.13",
    around=True,
    why="the original runs once per step of the sample; a loop in the graph runs as often as the sequence is long",
    see="https://github.com/pytorch/pytorch/issues/126339",
    obsolete="when torch decomposes LSTM into a loop by itself",
    reproducer=lstm_of_any_length,
)
def one_layer_lstm(original: Any, inp: Any, hidden: Any, params: Any, has_biases: Any, reverse: bool = False) -> Any:
    length = inp.size(0)
    if not is_symbolic(length):
        return original(inp, hidden, params, has_biases, reverse)
    hx, cx = hidden
    if proxy_tensor.get_proxy_mode() is None:
        # Only the shapes are asked for: the operator itself goes into the graph.
        return hx.new_empty(length, *hx.shape), (hx.new_empty(hx.shape), cx.new_empty(cx.shape))
    hr_weight = params[4:] if has_biases else params[2:]
    inputs = torch.nn.functional.linear(inp, params[0], params[2] if has_biases else None)

    def step(step_input, states, weights):
        hh_weight, *rest = weights
        hh_bias = rest.pop(0) if has_biases else None
        return decompositions.lstm_cell(step_input, *states, hh_weight, hh_bias, rest[0] if rest else None, chunk_dim=2)

    return _loop(inputs, hidden, (*(params[1:4:2] if has_biases else params[1:2]), *hr_weight), step, reverse)
