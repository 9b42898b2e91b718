"""Decompositions that run Python code once per element of a size: recurrent layers."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import is_symbolic

torch: Any = lazy("torch")
proxy_tensor: Any = lazy("torch.fx.experimental.proxy_tensor")
while_loop: Any = lazy("torch._higher_order_ops.while_loop:while_loop")
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
    torch._check(length > 0, lambda: "Expected sequence length to be larger than 0 in RNN")

    ih_weight = params[0]
    ih_bias = params[2] if has_biases else None
    hh_weight, hh_bias = export_patches._clone_tensors_that_alias((params[1], params[3] if has_biases else None))
    precomputed_input = torch.nn.functional.linear(inp, ih_weight, ih_bias)
    precomputed_input = precomputed_input.flip(0) if reverse else precomputed_input

    def cond_fn(i, out, cur_hidden):
        return i < precomputed_input.size(0)

    def body_fn(idx, out, cur_hidden):
        i = idx.item()
        torch._check(i >= 0)
        torch._check(i < precomputed_input.size(0))
        cur_hidden = hidden_fn(precomputed_input[i], cur_hidden, None, None, hh_weight, hh_bias)
        out = out.clone()
        out[i] = cur_hidden.squeeze(0)
        return idx + 1, out, cur_hidden

    start = torch.zeros((), dtype=torch.int64)
    step_output = hidden.new_empty(length, *hidden.shape)
    _, out, final_hidden = while_loop(cond_fn, body_fn, [start, step_output, hidden.unsqueeze(0)])
    return out.flip(0) if reverse else out, final_hidden.squeeze(0)


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
    torch._check(length > 0, lambda: "Expected sequence length to be larger than 0 in RNN")
    return export_patches.one_layer_while_loop_lstm(inp, hidden, params, has_biases, reverse)
