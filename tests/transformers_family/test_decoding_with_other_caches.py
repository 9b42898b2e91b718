"""Caches with states, and with places that layers without attention leave empty, described by the shapes of keys."""

from __future__ import annotations

import pytest
import torch

from yobx.autopatch import activate
from yobx.helpers.reproducer import compare
from yobx.torch import use_dyn_not_str
from yobx.torch.tiny_models import get_tiny_model


@pytest.mark.parametrize("model_type", ["lfm2", "qwen3_next"])
def test_a_step_after_some_tokens_is_exported_for_any_number_of_them(model_type):
    with activate("torch", "transformers"), torch.no_grad():
        model, inputs, shapes = get_tiny_model(model_type, "decode")
        assert len(shapes["past_key_values"]) == 2
        program = torch.export.export(model, (), kwargs=inputs, dynamic_shapes=use_dyn_not_str(shapes)).module()
        for sizes in (dict(batch=3, length=1, past=7), dict(batch=1, length=4, past=9), dict(length=1, past=1)):
            expected = model(**get_tiny_model(model_type, "decode", **sizes).inputs)
            assert compare(expected, program(**get_tiny_model(model_type, "decode", **sizes).inputs), 1e-4) is None
