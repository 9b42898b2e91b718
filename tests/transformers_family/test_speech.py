"""The speech encoders of both versions of SeamlessM4T: any batch, any length."""

from __future__ import annotations

import importlib

import pytest
import torch

from yobx.torch import apply_patches_for_model
from yobx.torch.tiny_configs import tiny_config

SIZES = dict(
    speech_encoder_layers=2,
    speech_encoder_attention_heads=4,
    speech_encoder_intermediate_size=64,
    feature_projection_input_dim=16,
)
ENCODERS = {"seamless_m4t": "SeamlessM4TSpeechEncoder", "seamless_m4t_v2": "SeamlessM4Tv2SpeechEncoder"}


def features(batch, length, hidden=0):
    return dict(
        input_features=torch.randn(batch, length, 16, generator=torch.Generator().manual_seed(length)),
        attention_mask=(torch.arange(length) < length - hidden).long().expand(batch, -1),
    )


@pytest.mark.parametrize("model_type", ENCODERS)
@pytest.mark.parametrize("sample", [(2, 20), (1, 20)], ids=["two", "one"])
def test_speech_encoder_takes_any_batch_and_any_length(model_type, sample):
    module = importlib.import_module(f"transformers.models.{model_type}.modeling_{model_type}")
    torch.manual_seed(0)
    model = getattr(module, ENCODERS[model_type])(tiny_config(model_type, **SIZES)).eval()
    dynamic = {0: torch.export.Dim.DYNAMIC, 1: torch.export.Dim.DYNAMIC}
    with torch.no_grad(), apply_patches_for_model(patch_torch=True, patch_transformers=True, model=model):
        program = torch.export.export(
            model, (), kwargs=features(*sample), dynamic_shapes=dict(input_features=dynamic, attention_mask=dynamic)
        ).module()
    for inputs in (features(3, 33), features(1, 16), features(2, 40, hidden=5)):
        with torch.no_grad():
            torch.testing.assert_close(
                program(**inputs).last_hidden_state, model(**inputs).last_hidden_state, atol=1e-4, rtol=1e-4
            )
