"""Forty tokens written by an exported prefill and an exported decode step are those of ``model.generate``.

    python generate_with_programs.py MODEL_TYPE

Run by a test under ``YOBX_PATCH``; the exit code is 0 only if all tokens are the same. Windows and RoPE limits are so
small that the forty tokens go past them.
"""

import inspect
import sys

import torch
import transformers

from yobx.torch import use_dyn_not_str
from yobx.torch.tiny_configs import tiny_config
from yobx.torch.tiny_models import get_tiny_model

TOKENS = 40
IS_5 = int(transformers.__version__.partition(".")[0]) >= 5


def with_rope(**parameters):
    """The attributes of a configuration that choose a RoPE with a limit of 16 positions."""
    if IS_5:
        limit = dict(original_max_position_embeddings=16) if parameters["rope_type"] == "longrope" else {}
        return {"rope_parameters": dict(parameters, rope_theta=10000.0, **limit)}
    if parameters["rope_type"] == "longrope":
        # Phi3Config of 4.x takes three entries, under the older of two names.
        parameters["type"] = parameters.pop("rope_type")
    return {"rope_scaling": parameters}


SMALL = {
    "llama": dict(max_position_embeddings=16, **with_rope(rope_type="dynamic", factor=2.0)),
    "mistral": dict(sliding_window=4),
    "gemma3_text": dict(sliding_window=4),
    "gpt_oss": dict(sliding_window=4),
    "phi3": dict(
        max_position_embeddings=64,
        original_max_position_embeddings=16,
        **with_rope(rope_type="longrope", short_factor=[1.0] * 4, long_factor=[2.0] * 4),
    ),
}


def export(model, inputs, shapes):
    """A program with the dynamic dimensions that ``shapes`` names."""
    return torch.export.export(model, (), kwargs=inputs, dynamic_shapes=use_dyn_not_str(shapes)).module()


def decoder_only(model_type):
    """Tokens of the programs of a causal language model, and of ``generate``."""
    over = SMALL.get(model_type, {})
    prefill = export(*get_tiny_model(model_type, "prefill", **over))
    model, inputs, shapes = get_tiny_model(model_type, "decode", length=1, **over)
    # Some models take their cache under a name of its own only, and ignore the usual one.
    names = inspect.signature(model.forward).parameters
    cache = next((name for name in ("cache", "cache_params") if name in names), "past_key_values")
    inputs[cache], shapes[cache] = inputs.pop("past_key_values"), shapes.pop("past_key_values")
    # A cache of transformers 4 that is no `Cache` does not know how many tokens it holds.
    counts = cache == "cache_params"
    if counts:
        inputs["cache_position"], shapes["cache_position"] = torch.tensor([5]), {}
        shapes[cache] = [{1: "batch"}] * len(torch.utils._pytree.tree_leaves(inputs[cache]))
    del shapes["input_ids"][1]
    masks_the_past = shapes["attention_mask"][1] != "new"
    if not masks_the_past:
        del shapes["attention_mask"][1]
    decode = export(model, inputs, shapes)

    prompt = torch.randint(3, 100, (3, 9), generator=torch.Generator().manual_seed(1))
    # A model with dynamic RoPE remembers the longest call.
    fresh = get_tiny_model(model_type, "prefill", **over).model
    mask = torch.ones_like(prompt)
    want = fresh.generate(
        prompt, attention_mask=mask, max_new_tokens=TOKENS, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    written, outputs = prompt, prefill(input_ids=prompt, attention_mask=mask)
    while True:
        new = outputs.logits[:, -1:].argmax(-1)
        written = torch.cat([written, new], dim=1)
        if written.shape[1] == want.shape[1]:
            return written, want
        mask = torch.ones_like(written if masks_the_past else new)
        past = {cache: outputs.cache_params if counts else outputs.past_key_values}
        if counts:
            past["cache_position"] = torch.tensor([written.shape[1] - 1])
        outputs = decode(input_ids=new, attention_mask=mask, **past)


def encoder_decoder(model_type):
    """Tokens of the programs of a sequence-to-sequence model, and of ``generate``."""
    torch.manual_seed(0)
    # With small weights it would write one token over and over.
    model = transformers.AutoModelForSeq2SeqLM.from_config(tiny_config(model_type, init_std=1.0)).eval()
    # What generate writes last when it has to stop, whatever the model says.
    model.generation_config.forced_eos_token_id = None

    def tokens(batch, length):
        ids = torch.randint(3, 100, (batch, length), generator=torch.Generator().manual_seed(length))
        return dict(input_ids=ids, attention_mask=torch.ones_like(ids))

    two = {0: "batch", 1: "seen"}
    first = tokens(2, 6) | dict(decoder_input_ids=torch.ones(2, 1, dtype=torch.long))
    shapes = dict(input_ids=two, attention_mask=two, decoder_input_ids={0: "batch"})
    prefill = export(model, first, shapes)
    outputs = model(**(first | dict(decoder_input_ids=torch.ones(2, 3, dtype=torch.long))))
    step = dict(
        attention_mask=first["attention_mask"],
        decoder_input_ids=first["decoder_input_ids"],
        encoder_outputs=(outputs.encoder_last_hidden_state,),
        past_key_values=outputs.past_key_values,
    )
    leaves = len(torch.utils._pytree.tree_leaves(outputs.past_key_values))
    decode = export(
        model,
        step,
        dict(
            attention_mask=two,
            decoder_input_ids={0: "batch"},
            encoder_outputs=(two,),
            past_key_values=[{0: "batch", 2: "written"}] * leaves,
        ),
    )
    prompt = tokens(3, 11)
    start = torch.full((3, 1), model.config.decoder_start_token_id)
    want = model.generate(**prompt, max_new_tokens=TOKENS, do_sample=False, num_beams=1, eos_token_id=None)
    written, outputs = start, prefill(**prompt, decoder_input_ids=start)
    hidden = outputs.encoder_last_hidden_state
    while True:
        new = outputs.logits[:, -1:].argmax(-1)
        written = torch.cat([written, new], dim=1)
        if written.shape[1] == want.shape[1]:
            return written, want
        outputs = decode(
            attention_mask=prompt["attention_mask"],
            decoder_input_ids=new,
            encoder_outputs=(hidden,),
            past_key_values=outputs.past_key_values,
        )


def main():
    model_type = sys.argv[1]
    with torch.no_grad():
        written, want = (encoder_decoder if model_type in ("t5", "bart") else decoder_only)(model_type)
    assert want.shape[1] >= TOKENS
    assert torch.equal(written, want), (written != want).any(dim=0).nonzero().flatten().tolist()
    print(f"{want[:, -TOKENS:].unique().numel()} different tokens")


if __name__ == "__main__":
    main()
