"""State-space models without their kernels: a recurrence written as a Python loop over the sequence.

The loop has as many steps in a program as the sample has tokens. The operator ``scan`` runs as often as the sequence is
long, each step as in the loop, and has a translation to ONNX.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_torch.sizes import without_doubt
from yobx.torch.in_transformers.rewriting import Passage, of_any_length, rewriting

torch: Any = lazy("torch")
scan_op: Any = lazy("torch._higher_order_ops.scan:scan_op")

LOOP = r"for (?:i|index) in range\(seq_len\):\n(?:.*\n)*?\s*scan_output = torch\.stack\(scan_outputs, dim=-1\)"
V4 = {
    "falcon_mamba": "FalconMambaMixer",
    "jamba": "JambaMambaMixer",
    "mamba": "MambaMixer",
}
V5 = ("falcon_mamba", "jamba", "mamba", "zamba")


def recurrence(decay: Any, update: Any, state: Any, output: Any, dtype: Any) -> tuple[Any, Any]:
    """``state = decay * state + update`` along dimension 2, and the product of every state with a row of ``output``."""

    def step(state, decay, update):
        state = decay * state + update
        return [state, state.clone()]

    state, states = scan_op(step, [state.to(update.dtype)], [decay.movedim(2, 0), update.movedim(2, 0)], ())
    products = torch.matmul(states.movedim(0, 1).to(dtype), output.unsqueeze(-1))
    return products.squeeze(-1).transpose(1, 2), state


def a_scan_of_any_length(model: str) -> Any:
    def scan_of_any_length() -> Reproducer:
        """The selective scan of one model, alone."""
        import importlib

        module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")

        class Scan(torch.nn.Module):
            def forward(self, x, dt, b, c):
                A = -torch.ones(6, 3)
                return module.mamba_selective_scan(x, dt, A, b, c, return_last_state=True)

        dynamic = torch.export.Dim.DYNAMIC

        def inputs(batch, length):
            shapes = dict(x=(batch, 6, length), dt=(batch, 6, length), b=(batch, 3, length), c=(batch, 3, length))
            return {name: torch.rand(shape) for name, shape in shapes.items()}

        return Reproducer(
            Scan(),
            inputs=inputs(2, 5),
            dynamic_shapes={name: {0: dynamic, 2: dynamic} for name in ["x", "dt", "b", "c"]},
            accepts=[inputs(3, 9), inputs(1, 1)],
        )

    return scan_of_any_length


def a_mixer_of_any_length(model: str, name: str) -> Any:
    def mixer_of_any_length() -> Reproducer:
        """The mixer of one model, alone."""
        import importlib

        from transformers import AutoConfig

        module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
        config = AutoConfig.for_model(model, hidden_size=8, num_hidden_layers=2)
        for key, value in dict(state_size=3, mamba_d_state=3, intermediate_size=16, use_mamba_kernels=False).items():
            if hasattr(config, key):
                setattr(config, key, value)
        mixer = getattr(module, name)(config, layer_idx=0)

        class Mixer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.mixer = mixer

            def forward(self, x):
                return self.mixer.slow_forward(x)

        dynamic = torch.export.Dim.DYNAMIC
        return Reproducer(
            Mixer(),
            inputs=dict(x=torch.randn(2, 5, 8)),
            dynamic_shapes=dict(x={0: dynamic, 1: dynamic}),
            accepts=[dict(x=torch.randn(3, 9, 8)), dict(x=torch.randn(1, 4, 8))],
        )

    return mixer_of_any_length


def _replaced(name: str, dtype: str) -> Any:
    """The loop as a scan, for calls with a sequence of any length."""
    call = f"scan_output, ssm_state = recurrence(discrete_A, deltaB_u, ssm_state, C, {dtype})"
    return rewriting(name, Passage(LOOP, call), helpers=(recurrence,), when=of_any_length)


_WHY = "the loop over the sequence runs as often as the sample is long"

for _model in V5:
    patch(
        f"transformers.models.{_model}.modeling_{_model}:mamba_selective_scan",
        family="transformers",
        name=f"scan_of_{_model}",
        around=True,
        versions="transformers>=5.0",
        why=_WHY,
        see="https://github.com/pytorch/pytorch/issues/126339",
        obsolete="when the model takes associative_scan or scan while it is exported",
        reproducer=a_scan_of_any_length(_model),
    )(_replaced(f"scan_of_{_model}", "input_dtype"))

for _model, _name in V4.items():
    patch(
        f"transformers.models.{_model}.modeling_{_model}:{_name}.slow_forward",
        family="transformers",
        name=f"slow_forward_of_{_model}",
        around=True,
        versions="transformers>=4.50,<5.0",
        why=_WHY,
        see="https://github.com/pytorch/pytorch/issues/126339",
        obsolete="with transformers 5, which has a patch of its own",
        reproducer=a_mixer_of_any_length(_model, _name),
    )(_replaced(f"slow_forward_of_{_model}", "dtype"))


def _masked_states(model: str, mask: Callable[[int, int], Any], sample: int, **options: Any) -> Reproducer:
    """Hidden states times their padding mask, whose sizes are those of another input; ``sample`` is its rows."""
    import importlib

    module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")

    class Masked(torch.nn.Module):
        def forward(self, x, attention_mask):
            return module.apply_mask_to_padding_states(x, attention_mask)

    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, length):
        return dict(x=torch.randn(batch, length, 4), attention_mask=mask(batch, length))

    return Reproducer(
        Masked(),
        inputs=inputs(sample, 5),
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, attention_mask={0: dynamic, 1: dynamic}),
        accepts=[inputs(3, 9), inputs(1, 2), inputs(2, 1)],
        **options,
    )


def a_mask_and_states_of_equal_sizes(model: str) -> Any:
    def all_seen(batch, length):
        return torch.ones(batch, length, dtype=torch.long)

    return partial(_masked_states, model, all_seen, 2, export=without_doubt)


def a_mask_and_states_from_one_row(model: str) -> Any:
    """The sample is a single row, which is not masked."""

    def first_hidden(batch, length):
        return (torch.arange(length) > 1).long().expand(batch, -1)

    return partial(_masked_states, model, first_hidden, 1)


def a_mask_with_and_without_padding(model: str, method: str) -> Any:
    def mask_with_and_without_padding() -> Reproducer:
        """The mask of the new tokens, which eager leaves out where it hides nothing."""
        import importlib

        name, _, function = method.partition(".")
        cls = getattr(importlib.import_module(f"transformers.models.{model}.modeling_{model}"), name)

        class Masked(torch.nn.Module):
            def forward(self, x, attention_mask, cache_position):
                mask = getattr(cls, function)(None, attention_mask, cache_position)
                return x if mask is None else x * mask

        dynamic = torch.export.Dim.DYNAMIC

        def inputs(batch, length, past, seen=0):
            mask = (torch.arange(past + length) >= seen).long().expand(batch, -1)
            return dict(
                x=torch.randn(batch, length), attention_mask=mask, cache_position=torch.arange(length) + past
            )

        return Reproducer(
            Masked(),
            inputs=inputs(2, 5, 0, 2),
            dynamic_shapes=dict(
                x={0: dynamic, 1: dynamic}, attention_mask={0: dynamic, 1: dynamic}, cache_position={0: dynamic}
            ),
            accepts=[inputs(3, 9, 0), inputs(1, 4, 0, 3), inputs(2, 1, 6, 2)],
        )

    return mask_with_and_without_padding


def apply_mask_to_padding_states(hidden_states, attention_mask):
    """
    Tunes out the hidden states for padding tokens, see https://github.com/state-spaces/mamba/issues/66
    """
    # NOTE: attention mask is a 2D boolean tensor
    if attention_mask is not None:
        dtype = hidden_states.dtype
        attention_mask = attention_mask.expand(hidden_states.shape[:2])
        hidden_states = (hidden_states * attention_mask[:, :, None]).to(dtype)

    return hidden_states


# The others mask with what create_recurrent_attention_mask gives.
for _model in ("falcon_mamba", "mamba"):
    patch(
        f"transformers.models.{_model}.modeling_{_model}:apply_mask_to_padding_states",
        family="transformers",
        name=f"padding_of_{_model}",
        versions="transformers>=5.0",
        why="a product of two undecided sizes leaves a doubt in every size that follows",
        obsolete="when the model masks with create_recurrent_attention_mask, as the others do",
        reproducer=a_mask_and_states_of_equal_sizes(_model),
    )(apply_mask_to_padding_states)


def apply_mask_to_padding_states_v4(hidden_states, attention_mask):
    """
    Tunes out the hidden states for padding tokens, see https://github.com/state-spaces/mamba/issues/66
    """
    if attention_mask is not None and not any(isinstance(n, int) and n <= 1 for n in attention_mask.shape[:2]):
        dtype = hidden_states.dtype
        # A single row, or a single token, is not masked
        least = torch.sym_min(attention_mask.shape[0], attention_mask.shape[1])
        attention_mask = (attention_mask + (2 - torch.sym_min(least, 2))).clamp(max=1)
        attention_mask = attention_mask.expand(hidden_states.shape[:2])
        hidden_states = (hidden_states * attention_mask[:, :, None]).to(dtype)

    return hidden_states


for _model in ("bamba", "falcon_h1", "granitemoehybrid", "lfm2", "mamba2", "qwen3_next"):
    patch(
        f"transformers.models.{_model}.modeling_{_model}:apply_mask_to_padding_states",
        family="transformers",
        name=f"padding_of_{_model}_v4",
        versions="transformers>=4.57,<5.0",
        why="whether there is one row or several is asked in Python, so the program is for one or for several",
        obsolete="with transformers 5, which does not ask",
        reproducer=a_mask_and_states_from_one_row(_model),
    )(apply_mask_to_padding_states_v4)


def update_mask(original, self, attention_mask, cache_position):
    if attention_mask is None or not torch.compiler.is_exporting():
        return original(self, attention_mask, cache_position)
    # Of the new tokens, and of none where there are older ones
    length = cache_position.shape[0]
    positions = torch.arange(length, device=attention_mask.device) + (attention_mask.shape[1] - length)
    return torch.where(cache_position[0] > 0, 1, attention_mask[:, positions])


for _model, _method in {
    "bamba": "BambaModel._update_mamba_mask",
    "falcon_h1": "FalconH1Model._update_mamba_mask",
    "granitemoehybrid": "GraniteMoeHybridModel._update_mamba_mask",
    "jamba": "JambaModel._update_mamba_mask",
    "qwen3_next": "Qwen3NextModel._update_linear_attn_mask",
}.items():
    patch(
        f"transformers.models.{_model}.modeling_{_model}:{_method}",
        family="transformers",
        name=f"mask_of_{_model}",
        around=True,
        versions="transformers>=4.57,<5.0",
        why="whether the mask hides anything, and whether there are older tokens, is asked of data",
        obsolete="with transformers 5, whose create_recurrent_attention_mask has a patch of its own",
        reproducer=a_mask_with_and_without_padding(_model, _method),
    )(update_mask)
