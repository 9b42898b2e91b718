"""Everything that a program does with a model besides exporting it, as one line of JSON: the bits of every result."""

import hashlib
import io
import json
import pickle
import tempfile
from pathlib import Path

import torch

from yobx.torch.tiny_models import get_tiny_model


def digest(*values):
    """The bits of tensors, bytes and lists of them."""
    found = hashlib.sha256()
    for value in values:
        raw = value.detach().contiguous().numpy().tobytes() if isinstance(value, torch.Tensor) else value
        found.update(raw)
    return found.hexdigest()


def results(model_type, **over):
    """The bits of what one model gives, by what is done with it."""

    def fresh():
        return get_tiny_model(model_type, "prefill", length=20, **over)

    model, inputs, _ = fresh()
    given = {}
    with torch.no_grad():
        outputs = model(**inputs)
        given["eager"] = digest(outputs.logits)
        given["generate"] = digest(
            fresh().model.generate(**inputs, max_new_tokens=8, do_sample=False, eos_token_id=None, pad_token_id=0)
        )
        given["compile"] = digest(torch.compile(fresh().model, backend="aot_eager")(**inputs).logits)
    model = fresh().model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(**inputs, labels=inputs["input_ids"]).loss.backward()
    optimizer.step()
    given["training"] = digest(*model.parameters())
    model = fresh().model
    # Of tensors, a pickle holds addresses.
    given["pickle"] = digest(pickle.dumps(type(model)), pickle.dumps(model.config))
    copied = pickle.loads(pickle.dumps(model))
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    given["pickled model"] = digest(copied(**inputs).logits)
    given["save"] = digest(stream.getvalue())
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        files = sorted(path for path in Path(folder).iterdir())
        given["save_pretrained"] = digest(*(path.name.encode() + path.read_bytes() for path in files))
    return given


def main():
    models = {"llama": dict(max_position_embeddings=16), "gemma3_text": dict(sliding_window=4)}
    print(json.dumps({name: results(name, **over) for name, over in models.items()}))


if __name__ == "__main__":
    main()
