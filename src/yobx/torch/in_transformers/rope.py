"""Rotary embeddings whose frequencies depend on the length of the call.

The decorator ``dynamic_rope_update`` asks in Python whether the call is longer than anything seen before, which is
data dependent in a trace (``seq_len > original_max_position_embeddings``, pytorch/pytorch#163791 in its longrope
form), and leaves what it computed on the module. A program has no memory: right, for it, is what a freshly
built model gives for that one call. So the choice becomes a ``torch.where`` and nothing is left on the module.
Only the decorator is replaced: every model keeps its own rotary body.
"""

from __future__ import annotations

from functools import wraps
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")
modeling_rope_utils: Any = lazy("transformers.modeling_rope_utils")


def with_buffer(module: Any, name: str, value: Any) -> Any:
    """A shallow copy of a module that has one buffer replaced, to run a method on.

    The module itself may be running eagerly in another thread. Dynamo cannot copy a module, but it does not run what it
    traces either.
    """
    if torch.compiler.is_dynamo_compiling():
        module.register_buffer(name, value, persistent=False)
        return module
    view = object.__new__(type(module))
    view.__dict__.update(module.__dict__)
    # The attribute is a plain tensor in some remote code and a buffer everywhere else.
    view.__dict__.pop(name, None)
    view.__dict__["_buffers"] = {**module._buffers, name: value}
    return view


def _positions(*lengths: int) -> list[dict[str, Any]]:
    return [dict(x=torch.zeros(2, n, 32), position_ids=torch.arange(n)[None].expand(2, n)) for n in lengths]


def _rotary(rope_type: str, **parameters: Any) -> Reproducer:
    """A Llama rotary embedding alone, with a limit of 16 positions, compared with a new one for every call."""
    from transformers import LlamaConfig
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    sizes: dict[str, Any] = dict(hidden_size=32, num_attention_heads=4, max_position_embeddings=16)
    parameters = dict(rope_type=rope_type, factor=2.0, **parameters)
    if hasattr(LlamaConfig(), "rope_parameters"):
        config = LlamaConfig(**sizes, rope_parameters=dict(parameters, rope_theta=10000.0))
    else:
        config = LlamaConfig(**sizes, rope_scaling=parameters)
    dynamic = torch.export.Dim.DYNAMIC
    sample, *others = _positions(6, 1, 15, 16, 17, 40)
    return Reproducer(
        LlamaRotaryEmbedding(config),
        inputs=sample,
        dynamic_shapes=dict(x={0: dynamic, 1: dynamic}, position_ids={0: dynamic, 1: dynamic}),
        accepts=others,
        fresh=lambda: LlamaRotaryEmbedding(config),
    )


def dynamic_ntk_on_both_sides_of_the_limit() -> Reproducer:
    """Frequencies that are recomputed for every call beyond 16 positions."""
    return _rotary("dynamic")


def longrope_on_both_sides_of_the_limit() -> Reproducer:
    """Short factors up to 16 positions, long ones beyond."""
    return _rotary(
        "longrope", short_factor=[1.0] * 4, long_factor=[2.0] * 4, original_max_position_embeddings=16
    )


@patch(
    "transformers.modeling_rope_utils:dynamic_rope_update",
    family="transformers",
    decorator=True,
    versions="transformers>=5.0",
    why="frequencies that depend on the length are chosen by a Python comparison and kept on the module",
    see="https://github.com/pytorch/pytorch/issues/163791",
    obsolete="when dynamic_frequency_update of transformers chooses with torch.where and stores nothing",
    reproducer=dynamic_ntk_on_both_sides_of_the_limit,
)
def dynamic_rope_update(rope_forward):
    def longrope_frequency_update(self, position_ids, device, layer_type=None):
        """Longrope uses long factor if sequence is larger than original pretraining length, short otherwise."""
        seq_len = torch.max(position_ids) + 1

        if layer_type is None:
            rope_type = self.rope_type
            original_inv_freq = self.original_inv_freq
            original_max_position_embeddings = self.config.rope_parameters["original_max_position_embeddings"]
        else:
            rope_type = self.rope_type[layer_type]
            original_inv_freq = getattr(self, f"{layer_type}_original_inv_freq")
            original_max_position_embeddings = self.config.rope_parameters[layer_type][
                "original_max_position_embeddings"
            ]

        rope_init_fn = modeling_rope_utils.ROPE_INIT_FUNCTIONS[rope_type]
        kwargs = {"layer_type": layer_type} if layer_type is not None else {}
        long_inv_freq, _ = rope_init_fn(
            self.config,
            device,
            seq_len=original_max_position_embeddings + 1,
            **kwargs,
        )
        original_inv_freq = original_inv_freq.to(device)

        # `seq_len` is a scalar, so this picks the long or short set for all positions, like an if/else but traceable
        return torch.where(seq_len > original_max_position_embeddings, long_inv_freq, original_inv_freq)

    def dynamic_frequency_update(self, position_ids, device, layer_type=None):
        """
        dynamic RoPE layers should recompute `inv_freq` when growing beyond the original sequence length (allow
        scaling); the original scale avoids losing precision with small sequences
        """
        seq_len = torch.max(position_ids) + 1
        if layer_type is None:
            rope_type = self.rope_type
            original_inv_freq = self.original_inv_freq
        else:
            rope_type = self.rope_type[layer_type]
            original_inv_freq = getattr(self, f"{layer_type}_original_inv_freq")

        rope_init_fn = modeling_rope_utils.ROPE_INIT_FUNCTIONS[rope_type]
        kwargs = {"layer_type": layer_type} if layer_type is not None else {}
        inv_freq, _ = rope_init_fn(
            self.config,
            device,
            seq_len=seq_len,
            **kwargs,
        )
        original_inv_freq = original_inv_freq.to(device)
        return torch.where(seq_len > self.original_max_seq_len, inv_freq, original_inv_freq)

    @wraps(rope_forward)
    def wrapper(self, x, position_ids, layer_type=None):
        rope_type = self.rope_type if layer_type is None else self.rope_type[layer_type]
        kwargs = {"layer_type": layer_type} if layer_type is not None else {}
        if "dynamic" in rope_type:
            inv_freq = dynamic_frequency_update(self, position_ids, device=x.device, **kwargs)
        elif rope_type == "longrope":
            inv_freq = longrope_frequency_update(self, position_ids, device=x.device, **kwargs)
        else:
            return rope_forward(self, x, position_ids, **kwargs)
        name = "inv_freq" if layer_type is None else f"{layer_type}_inv_freq"
        kept = getattr(self, name)
        output = rope_forward(with_buffer(self, name, inv_freq), x, position_ids, **kwargs)
        if torch.compiler.is_dynamo_compiling():
            self.register_buffer(name, kept, persistent=False)
        return output

    return wrapper


@patch(
    "transformers.modeling_rope_utils:dynamic_rope_update",
    family="transformers",
    name="dynamic_rope_update_v4",
    decorator=True,
    versions="transformers>=4.50,<5.0",
    why="frequencies that depend on the length are chosen by a Python comparison and kept on the module",
    see="https://github.com/pytorch/pytorch/issues/163791",
    obsolete="with transformers 5, which has a patch of its own for the same decorator",
    reproducer=longrope_on_both_sides_of_the_limit,
)
def dynamic_rope_update_v4(rope_forward):
    def longrope_frequency_update(self, position_ids, device):
        """Longrope uses long factor if sequence is larger than original pretraining length, short otherwise."""
        seq_len = torch.max(position_ids) + 1
        if hasattr(self.config, "original_max_position_embeddings"):
            original_max_position_embeddings = self.config.original_max_position_embeddings
        else:
            original_max_position_embeddings = self.config.max_position_embeddings
        long_inv_freq, _ = self.rope_init_fn(
            self.config, device, seq_len=original_max_position_embeddings + 1
        )
        original_inv_freq = self.original_inv_freq.to(device)
        return torch.where(seq_len > original_max_position_embeddings, long_inv_freq, original_inv_freq)

    def dynamic_frequency_update(self, position_ids, device):
        """
        dynamic RoPE layers should recompute `inv_freq` when growing beyond the original sequence length (allow
        scaling); the original scale avoids losing precision with small sequences
        """
        seq_len = torch.max(position_ids) + 1
        inv_freq, _ = self.rope_init_fn(self.config, device, seq_len=seq_len)
        original_inv_freq = self.original_inv_freq.to(device)
        return torch.where(seq_len > self.original_max_seq_len, inv_freq, original_inv_freq)

    @wraps(rope_forward)
    def wrapper(self, x, position_ids):
        if "dynamic" in self.rope_type:
            inv_freq = dynamic_frequency_update(self, position_ids, device=x.device)
        elif self.rope_type == "longrope":
            inv_freq = longrope_frequency_update(self, position_ids, device=x.device)
        else:
            return rope_forward(self, x, position_ids)
        kept = self.inv_freq
        output = rope_forward(with_buffer(self, "inv_freq", inv_freq), x, position_ids)
        if torch.compiler.is_dynamo_compiling():
            self.register_buffer("inv_freq", kept, persistent=False)
        return output

    return wrapper
