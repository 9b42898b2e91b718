"""Export a language model: the prefill, which makes a cache, and the decode step, which takes one and returns it.

    python export_llm.py                     a tiny random Llama with dynamic-NTK RoPE
    python export_llm.py --model qwen3       another causal language model, by its type in transformers
    python export_llm.py --onnx              to ONNX, run by onnxruntime

Both programs come from one prompt, a batch of one, and must take any batch, any length and any past. They are compared
with the model on six other shapes, on both sides of the length where RoPE changes its frequencies, and write twelve
tokens, which must be those of ``model.generate``. The exit code is 0 only if all of it matches.
"""

import argparse
import copy
import sys
import warnings

import torch
from torch.utils._pytree import tree_leaves, tree_unflatten
from transformers import AutoConfig, AutoModelForCausalLM, logging

logging.set_verbosity_error()
warnings.filterwarnings("ignore", category=FutureWarning)

LIMIT = 32
SIZES = dict(
    vocab_size=128,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    sliding_window=16,
    max_position_embeddings=LIMIT,
)
# gpt2 and its like have names of their own, and no position beyond the last one that they learned.
OTHER_SIZES = dict(vocab_size=128, n_embd=32, n_layer=2, n_head=4, n_positions=128)
SHAPES = [(2, 3, 1), (3, 9, 2), (1, 30, 1), (1, 31, 1), (2, 31, 3), (1, 50, 1)]  # batch, past, new tokens
ANY = torch.export.Dim.DYNAMIC


def build(model_type):
    """A model with random weights, the same ones every time."""
    default = AutoConfig.for_model(model_type).to_dict()
    sizes = OTHER_SIZES if "n_embd" in default else {k: v for k, v in SIZES.items() if default.get(k) is not None}
    if default.get("layer_types"):
        sizes["layer_types"] = sorted(set(default["layer_types"]))[:2] * (2 // len(set(default["layer_types"])) or 1)
    if model_type == "llama":
        scaling = "rope_parameters" if "rope_parameters" in default else "rope_scaling"
        sizes[scaling] = dict(default.get(scaling) or {}, rope_type="dynamic", factor=2.0)
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **sizes)).eval()


def tokens(batch, length):
    ids = torch.randint(3, 100, (batch, length), generator=torch.Generator().manual_seed(batch + 10 * length))
    return dict(input_ids=ids, attention_mask=torch.ones_like(ids))


def step(model_type, batch, past, new):
    """The arguments of a decode step: new tokens, and the cache of the past ones."""
    inputs = tokens(batch, past + new)
    seen = {name: value[:, :past] for name, value in inputs.items()}
    cache = build(model_type)(**seen).past_key_values
    return dict(input_ids=inputs["input_ids"][:, past:], attention_mask=inputs["attention_mask"], past_key_values=cache)


def export(model, inputs, onnx):
    """A program that takes the inputs by name, whatever their batch and their lengths."""
    shapes = {name: {0: ANY, 1: ANY} for name in ("input_ids", "attention_mask")}
    if "past_key_values" in inputs:
        # A cache is described by its tensors in order: key_0, value_0, key_1, value_1, …
        shapes["past_key_values"] = [{0: ANY, 2: ANY}] * len(tree_leaves(inputs["past_key_values"]))
    if not onnx:
        return torch.export.export(model, (), kwargs=inputs, dynamic_shapes=shapes).module()
    import onnxruntime

    program = torch.onnx.export(model, (), kwargs=inputs, dynamic_shapes=shapes, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]

    def run(**inputs):
        feeds = {name: leaf.numpy() for name, leaf in zip(names, tree_leaves(inputs), strict=True)}
        outputs = [torch.from_numpy(array) for array in session.run(None, feeds)]
        return tree_unflatten(outputs, program.exported_program.call_spec.out_spec)

    return run


def difference(program, model, inputs):
    """The largest difference between what a program and the model give: the logits and the cache."""
    got, want = program(**copy.deepcopy(inputs)), model(**copy.deepcopy(inputs))
    pairs = [(got.logits, want.logits)]
    for ours, theirs in zip(got.past_key_values.layers, want.past_key_values.layers, strict=True):
        pairs += [(ours.keys, theirs.keys), (ours.values, theirs.values)]
    return max(torch.inf if a.shape != b.shape else (a - b).abs().max().item() for a, b in pairs)


def generate(prefill, decode, input_ids, count):
    """Greedy generation with the two programs."""
    outputs = prefill(input_ids=input_ids, attention_mask=torch.ones_like(input_ids))
    while True:
        new = outputs.logits[:, -1:].argmax(-1)
        input_ids, count = torch.cat([input_ids, new], dim=1), count - 1
        if not count:
            return input_ids
        mask = torch.ones_like(input_ids)
        outputs = decode(input_ids=new, attention_mask=mask, past_key_values=outputs.past_key_values)


@torch.no_grad()
def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", default="llama", help="a model type of transformers")
    parser.add_argument("--onnx", action="store_true", help="export to ONNX and run with onnxruntime")
    options = parser.parse_args()

    prefill = export(build(options.model), tokens(1, 7), options.onnx)
    decode = export(build(options.model), step(options.model, 1, 6, 1), options.onnx)

    good = True
    print(f"{'batch':>7}{'past':>7}{'new':>7}{'prefill':>12}{'decode':>12}")
    for batch, past, new in SHAPES:
        # A model that has seen a long sequence may remember it; a program does not. Hence a new model each time.
        first = difference(prefill, build(options.model), tokens(batch, past + new))
        second = difference(decode, build(options.model), step(options.model, batch, past, new))
        good &= max(first, second) < 1e-4
        print(f"{batch:7}{past:7}{new:7}{first:12.1e}{second:12.1e}")

    prompt = tokens(2, LIMIT - 6)
    want = build(options.model).generate(
        **prompt, max_new_tokens=12, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    same = torch.equal(generate(prefill, decode, prompt["input_ids"], 12), want)
    print(f"twelve tokens generated: {'those of' if same else 'not those of'} model.generate")
    return 0 if good and same else 1


if __name__ == "__main__":
    sys.exit(main())
