"""Tiny models to try an export on. Using them switches no patch on."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

SCENARIOS = ("nocache", "prefill", "decode", "encoder", "seq2seq", "vision", "image", "audio", "speech")


class TinyBroadcastAddModel(torch.nn.Module):
    """``x + y`` where only broadcasting relates the two shapes.

    ``x`` has the shape ``(batch, d1)`` and ``y`` ``(batch, d2)``; the result has ``(batch, d)`` where ``d`` is the
    larger of ``d1`` and ``d2`` unless one of them is 0. Turned by :func:`yobx.torch.use_dyn_not_str`, the four
    dimensions are independent.
    """

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """The sum of ``x`` and ``y``, broadcast against each other."""
        return x + y

    @classmethod
    def _export_inputs(cls) -> dict[str, torch.Tensor]:
        """A sample: ``x`` (2, 5) and ``y`` (2, 1)."""
        generator = torch.Generator().manual_seed(0)
        return {"x": torch.randn(2, 5, generator=generator), "y": torch.randn(2, 1, generator=generator)}

    @classmethod
    def _dynamic_shapes(cls) -> dict[str, dict[int, str]]:
        """The names of the dynamic dimensions."""
        return {"x": {0: "batch", 1: "d1"}, "y": {0: "batch", 1: "d2"}}


class TinyModel(NamedTuple):
    """A model with what its export needs.

    Attributes:
        model: with random weights, the same ones every time, in eval mode.
        inputs: keyword arguments of a sample.
        dynamic_shapes: for these, with names; :func:`yobx.torch.use_dyn_not_str` turns them.
    """

    model: Any
    inputs: dict[str, Any]
    dynamic_shapes: dict[str, Any]


def get_tiny_model(
    model_type: str, scenario: str, *, batch: int = 2, length: int = 6, past: int = 5, **overrides: Any
) -> TinyModel:
    """A tiny random model of one of transformers' architectures, with a sample and its dynamic shapes.

    Args:
        model_type: as transformers names it: ``llama``, ``t5``, ``vit``, ``wav2vec2``.
        scenario: for causal language models ``nocache``; ``prefill``, whose output has a cache; ``decode``, which takes
            one. ``encoder``; ``seq2seq``; ``vision`` (batch dynamic) and ``image`` (height and width too); ``audio``
            (a waveform); ``speech`` (features, and the tokens of a decoder).
        batch: rows of the sample.
        length: new tokens of the sample; of a picture or a waveform, a measure of its size.
        past: tokens in the cache of a ``decode`` sample.
        overrides: attributes of the configuration.

    Raises:
        ValueError: for an unknown scenario.
        KeyError: for an architecture that the installed transformers does not know, or that has no causal language
            model where the scenario asks for one.
    """
    if scenario not in SCENARIOS:
        raise ValueError(f"scenario is {scenario!r}; it is one of {', '.join(SCENARIOS)}")
    causal = scenario in ("nocache", "prefill", "decode")
    model = _build(model_type, causal, overrides)
    if scenario in ("nocache", "seq2seq", "speech"):
        model.config.use_cache = False
    inputs: dict[str, Any]
    shapes: dict[str, Any]
    if scenario in ("vision", "image"):
        side = 32 if scenario == "vision" else 32 * max(1, length // 3)
        inputs = {"pixel_values": _floats(batch, 3, 32, side)}
        shapes = {"pixel_values": {0: "batch", **({2: "height", 3: "width"} if scenario == "image" else {})}}
    elif scenario == "audio":
        inputs, shapes = {"input_values": _floats(batch, 160 * length)}, {"input_values": {0: "batch", 1: "samples"}}
    elif scenario == "speech":
        frames = 2 * model.config.max_source_positions
        inputs = {
            "input_features": _floats(batch, model.config.num_mel_bins, frames),
            "decoder_input_ids": _tokens(batch, length),
        }
        shapes = {"input_features": {0: "batch"}, "decoder_input_ids": {0: "batch", 1: "new"}}
    else:
        seen = past if scenario == "decode" else 0
        inputs = {
            "input_ids": _tokens(batch, seen + length)[:, seen:],
            "attention_mask": torch.ones(batch, seen + length, dtype=torch.long),
        }
        shapes = {"input_ids": {0: "batch", 1: "new"}, "attention_mask": {0: "batch", 1: "seen" if seen else "new"}}
        if scenario == "seq2seq":
            inputs["decoder_input_ids"] = _tokens(batch, max(1, length - 1))
            shapes["decoder_input_ids"] = {0: "batch", 1: "written"}
        if scenario == "decode":
            inputs["past_key_values"] = _cache(model, batch, past)
            tensors = len(_cache_tensors(inputs["past_key_values"]))
            shapes["past_key_values"] = [{0: "batch", 2: "past"}] * tensors
            if not tensors:
                # Without attention there is nothing of the past to mask, and some of these models take no mask of it.
                inputs["attention_mask"] = torch.ones(batch, length, dtype=torch.long)
                shapes["attention_mask"] = {0: "batch", 1: "new"}
    return TinyModel(model, inputs, shapes)


def _build(model_type: str, causal: bool, overrides: dict[str, Any]) -> Any:
    import transformers

    from yobx.torch.tiny_configs import tiny_config

    config = tiny_config(model_type, **overrides)
    if causal and hasattr(config, "is_decoder"):
        config.is_decoder = True
    torch.manual_seed(0)
    maker = transformers.AutoModelForCausalLM if causal else transformers.AutoModel
    return maker.from_config(config).eval()


def _cache(model: Any, batch: int, past: int) -> Any:
    """The cache after ``past`` tokens, as the model makes it."""
    tokens = _tokens(batch, past)
    with torch.no_grad():
        output = model(input_ids=tokens, attention_mask=torch.ones_like(tokens), use_cache=True)
    # State-space models of transformers 4 have another name for it.
    return output.cache_params if "cache_params" in output else output.past_key_values


def _cache_tensors(cache: Any) -> list[torch.Tensor]:
    parts = (getattr(cache, name, None) for name in ("self_attention_cache", "cross_attention_cache"))
    layers = [layer for part in (cache, *parts) for layer in getattr(part, "layers", ())]
    pairs = [tensor for layer in layers for tensor in (getattr(layer, "keys", None), getattr(layer, "values", None))]
    # Caches of transformers 4 that have lists instead, with empty tensors for layers without attention.
    lists = [getattr(cache, name, None) or [] for name in ("key_cache", "value_cache")]
    pairs += [tensor for pair in zip(*lists, strict=True) for tensor in pair if tensor is not None and tensor.dim() > 2]
    return [tensor for tensor in pairs if isinstance(tensor, torch.Tensor)]


def _tokens(batch: int, length: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1000 * batch + length)
    return torch.randint(3, 100, (batch, length), generator=generator)


def _floats(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))
