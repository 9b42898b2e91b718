"""What is attributed to the rotary patch is what the model has no need of with the default embedding."""

from __future__ import annotations

from importlib.metadata import version

import pytest
from scripts import run_json, without

pytest.importorskip("transformers")

MODELS = """
import transformers
sizes = dict(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, num_hidden_layers=2, intermediate_size=48,
             vocab_size=99, max_position_embeddings=64, use_cache=False)
version_4 = transformers.__version__.startswith("4.")

def llama(kind):
    if kind == "default":
        config = transformers.LlamaConfig(**sizes)
    elif version_4:
        config = transformers.LlamaConfig(**sizes, rope_scaling=dict(rope_type=kind, factor=2.0))
    else:
        config = transformers.LlamaConfig(**sizes, rope_parameters=dict(rope_type=kind, factor=2.0, rope_theta=1e4))
    return transformers.LlamaForCausalLM(config).eval()

def gemma(full, sliding):
    part = lambda kind: dict(rope_type=kind, rope_theta=1e4) | ({} if kind == "default" else dict(factor=2.0))
    config = transformers.Gemma3TextConfig(
        **sizes, head_dim=8, layer_types=["full_attention", "sliding_attention"], sliding_window=8,
        rope_parameters=dict(full_attention=part(full), sliding_attention=part(sliding)))
    return transformers.Gemma3ForCausalLM(config).eval()

def traced(model, strict=False):
    inputs = dict(input_ids=torch.arange(14).reshape(2, 7))
    shapes = dict(input_ids={0: D, 1: D})
    with apply_patches_for_model(patch_torch=True, patch_transformers=True) as details:
        program = torch.export.export(model, (), kwargs=inputs, dynamic_shapes=shapes, strict=strict)
        return details, program, program.run_decompositions()

def rotary(details, program):
    pairs = details.patches_involved_in_graph(program.graph)
    return [n for info, nodes in pairs if info.name.startswith("dynamic_rope_update") for n in nodes]
"""

LLAMA = (
    MODELS
    + """
strict = sys.argv[1] == "strict"
details, plain, plain_inside = traced(llama("default"), strict)
rope_details, rope, rope_inside = traced(llama("dynamic"), strict)
out = [[targets(p), targets(r), sorted(str(n.target) for n in rotary(rope_details, r))]
       for p, r in ((plain, rope), (plain_inside, rope_inside))]
try:
    torch.export.save(rope, sys.argv[2])
except Exception as error:
    # Masks of transformers 4 are made by an operator that torch cannot save.
    assert version_4, error
    import os
    os.remove(sys.argv[2])
names = [node.name for node in rotary(rope_details, rope)]
print(json.dumps([out, found(details, plain), names]))
"""
)


def unchecked(targets):
    return [target for target in targets if target != "aten._assert_tensor_metadata.default"]


@pytest.mark.parametrize("mode", ["plain", "strict"])
def test_dynamic_rope_of_llama(tmp_path, mode):
    if mode == "strict" and version("transformers").startswith("4."):
        pytest.skip("the rotary patch of transformers 4 registers a buffer, which strict export does not trace")
    file = tmp_path / "llama.pt2"
    pairs, of_plain, names = run_json(LLAMA, mode, file, cwd=tmp_path)
    assert of_plain == {}
    for default, dynamic, attributed in pairs:
        if version("torch").startswith("2.9."):
            # There a check is known by the conversion behind it, which a decomposition may leave out.
            default, dynamic, attributed = map(unchecked, (default, dynamic, attributed))
        assert attributed == without(dynamic, default)
        assert len(attributed) > 10
    if not file.exists():
        return
    load = """
    from yobx.torch import register_caches
    register_caches()
    print(json.dumps(found(autopatch.details(), torch.export.load(sys.argv[1]))))
    """
    (loaded,) = run_json(load, file, cwd=tmp_path).values()
    assert loaded == names


def test_each_layer_type_of_gemma3(tmp_path):
    code = (
        MODELS
        + """
if version_4:
    print("null")
    sys.exit()
out = []
_, plain, plain_inside = traced(gemma("default", "default"))
for kinds in (("dynamic", "default"), ("dynamic", "dynamic")):
    details, program, inside = traced(gemma(*kinds))
    out += [[targets(p), targets(r), sorted(str(n.target) for n in rotary(details, r))]
            for p, r in ((plain, program), (plain_inside, inside))]
print(json.dumps(out))
"""
    )
    out = run_json(code, cwd=tmp_path)
    if out is None:
        pytest.skip("transformers 4 has no rotary parameters per layer type")
    sizes = []
    for default, dynamic, attributed in out:
        assert attributed == without(dynamic, default)
        sizes.append(len(attributed))
    assert 0 < sizes[0] < sizes[2]
