"""transformers' own exporter, used as its users use it; a line of JSON says what each program takes."""

import copy
import json

import torch
from transformers.exporters import DynamoConfig, DynamoExporter

from yobx.torch.tiny_models import get_tiny_model

ROPE = dict(rope_type="dynamic", factor=2.0, rope_theta=10000.0)
CASES = {
    "llama": ("llama", {}, (2, 3, 5)),
    "batch of one": ("llama", {}, (1, 6, 0)),
    "dynamic RoPE": ("llama", dict(max_position_embeddings=16, rope_parameters=ROPE), (2, 3, 5)),
    "window": ("mistral", dict(sliding_window=4), (2, 3, 5)),
}
SHAPES = [(3, 2, 9), (2, 1, 20), (1, 1, 3)]


def step(model_type, over, batch, new, past):
    if not past:
        return get_tiny_model(model_type, "prefill", batch=batch, length=new, **over)[:2]
    model, inputs, _ = get_tiny_model(model_type, "decode", batch=batch, length=new, past=past, **over)
    inputs["cache"] = inputs.pop("past_key_values")
    return model, inputs


def outcome(model_type, over, sample):
    """``"general"``, or what went wrong."""
    model, inputs = step(model_type, over, *sample)
    # Left to itself it declares no more than Dim.AUTO, with which torch makes a size of one static.
    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    both = dict(input_ids=dynamic, attention_mask=dynamic)
    config = DynamoConfig(dynamic=True) if sample[2] else DynamoConfig(dynamic=True, dynamic_shapes=both)
    try:
        program = DynamoExporter().export(model, inputs, config=config).program.module()
    except Exception as error:
        return f"export: {type(error).__name__}"
    for shape in SHAPES:
        shape = (*shape[:2], shape[2] if sample[2] else 0)
        fresh, inputs = step(model_type, over, *shape)
        want = fresh(**copy.deepcopy(inputs)).logits
        try:
            difference = (program(**inputs).logits - want).abs().max().item()
        except Exception as error:
            return f"{shape}: {type(error).__name__}"
        if difference > 1e-4:
            return f"{shape}: differs by {difference}"
    return "general"


with torch.no_grad():
    print(json.dumps({name: outcome(*case) for name, case in CASES.items()}))
