"""``apply_patches_for_model(model=...)`` applies what the model can need, and no less."""

from __future__ import annotations

import pytest
import torch

from yobx.autopatch import versions
from yobx.torch import apply_patches_for_model, use_dyn_not_str
from yobx.torch.tiny_models import get_tiny_model

SHARED = {"modeling_rope_utils", "cache_utils", "masking_utils", "integrations.sdpa_attention"}
# What encoders, and models with a cache of their own, import besides in transformers 5.
MASKS = {"masking_utils"} if versions.conflict("transformers>=5.0") is None else set()
CACHES = {"cache_utils"} if MASKS else set()


def applied(model):
    """The modules of transformers in which functions are patched for a model, named from ``transformers.`` on."""
    with apply_patches_for_model(patch_transformers=True, model=model) as details:
        targets = [patch.target.partition(":")[0] for patch in details if ":" in patch.target]
    return {target.removeprefix("transformers.") for target in targets if target.startswith("transformers.")}


def test_without_a_model_the_whole_family_applies():
    assert {"models.dinov2.modeling_dinov2", *SHARED} <= applied(None)


@pytest.mark.parametrize(
    ("model_type", "scenario", "shared", "own"),
    [
        ("llama", "nocache", SHARED, set()),
        ("gpt2", "nocache", SHARED - {"modeling_rope_utils"}, set()),
        ("dinov2", "vision", MASKS | {"integrations.sdpa_attention"}, {"dinov2"}),
        ("jamba", "nocache", MASKS | CACHES | {"integrations.sdpa_attention"}, {"jamba"}),
    ],
)
def test_a_model_has_the_patches_of_its_files_and_of_what_they_import(model_type, scenario, shared, own):
    found = applied(get_tiny_model(model_type, scenario).model)
    assert {name.split(".")[1] for name in found if name.startswith("models.")} == own
    assert found & SHARED == shared


def test_a_model_inside_another_one_counts():
    class Wrapper(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = get_tiny_model("dinov2", "vision").model

    assert "models.dinov2.modeling_dinov2" in applied(Wrapper())


def test_code_that_is_not_of_transformers_counts_by_what_it_imports(sandbox):
    module = sandbox.load(
        """
        import torch
        from transformers.modeling_rope_utils import dynamic_rope_update
        from transformers.models.jamba.modeling_jamba import JambaMLP

        class Remote(torch.nn.Module):
            pass
        """
    )
    found = applied(module.Remote())
    assert "modeling_rope_utils" in found
    assert {name for name in found if name.startswith("models.")} == {"models.jamba.modeling_jamba"}


@pytest.mark.parametrize(("model_type", "scenario"), [("llama", "prefill"), ("dinov2", "image"), ("jamba", "nocache")])
def test_what_applies_is_enough(model_type, scenario):
    model, inputs, shapes = get_tiny_model(model_type, scenario)
    model.config.use_cache = scenario == "prefill"
    shapes = use_dyn_not_str(shapes)
    with apply_patches_for_model(patch_torch=True, patch_transformers=True, model=model), torch.no_grad():
        program = torch.export.export(model, (), kwargs=inputs, dynamic_shapes=shapes).module()
        other = get_tiny_model(model_type, scenario, batch=1, length=9).inputs
        torch.testing.assert_close(program(**other)[0], model(**other)[0], atol=1e-4, rtol=1e-4)
