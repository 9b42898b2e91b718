"""Configurations of transformers' architectures made tiny, so that a random model of each is built in a moment.

What a name means is the same in most architectures; the default configuration says which names one has. A few
architectures tie sizes to each other in their own way, and are corrected at the end.
"""

from __future__ import annotations

from typing import Any

WIDTH, HEADS, GROUPS, HEAD, LAYERS, VOCABULARY, POSITIONS, EXPERTS = 32, 4, 2, 8, 2, 128, 128, 4

LAYER_COUNTS = (
    "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers "
    "num_encoder_layers depth"
)

# What is made small, by what it counts. `None` and lists in the default configuration are left alone.
NAMES = (
    (WIDTH, "hidden_size n_embd d_model dim embedding_size word_embed_proj_dim"),
    (WIDTH, "moe_intermediate_size shared_expert_intermediate_size"),
    (2 * WIDTH, "intermediate_size n_inner ffn_dim d_ff ffn_hidden_size hidden_dim encoder_ffn_dim decoder_ffn_dim"),
    (LAYERS, LAYER_COUNTS),
    (HEADS, "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads"),
    (HEADS, "linear_num_heads linear_num_value_heads index_n_heads"),
    (GROUPS, "num_key_value_heads num_kv_heads multi_query_group_num linear_num_key_heads"),
    (HEAD, "head_dim d_kv qk_nope_head_dim qk_rope_head_dim v_head_dim attention_head_dim kv_channels"),
    (HEAD, "linear_head_dim linear_key_head_dim linear_value_head_dim index_head_dim"),
    (HEAD, "state_size mamba_d_state num_mel_bins hidden_size_per_layer_input"),
    (VOCABULARY, "vocab_size vocab_size_per_layer_input"),
    (POSITIONS, "max_position_embeddings n_positions n_ctx max_seq_len max_sequence_length"),
    (POSITIONS // 2, "max_source_positions max_target_positions"),
    (EXPERTS, "num_experts num_local_experts n_routed_experts time_step_rank"),
    (2, "num_experts_per_tok num_experts_per_token moe_topk top_k_experts"),
    (WIDTH // 2, "q_lora_rank kv_lora_rank sliding_window attention_window_size local_attention"),
    (1, "n_group num_expert_group topk_group first_k_dense_replace decoder_start_token_id bos_token_id"),
)
SIZES = {name: size for size, names in NAMES for name in names.split()}
SIZES.update(
    qk_head_dim=2 * HEAD,
    rotary_dim=HEAD // 2,
    pad_token_id=0,
    eos_token_id=2,
    image_size=32,
    patch_size=8,
)

SPEECH: dict[str, Any] = dict(
    conv_dim=(16, 16),
    conv_kernel=(8, 3),
    conv_stride=(4, 2),
    num_feat_extract_layers=2,
    num_conv_pos_embeddings=16,
    num_conv_pos_embedding_groups=2,
    mask_time_prob=0.0,
)
STATES = dict(mamba_n_heads=8, mamba_d_head=8, mamba_n_groups=1)

# Sizes that an architecture ties to others, or needs and does not give; layers of every kind that it mixes.
CORRECTIONS: dict[str, dict[str, Any]] = {
    "bamba": dict(STATES, attn_layer_indices=[1]),
    "cohere_compass_text": dict(rope_parameters={"full_attention": dict(rope_type="default", rope_theta=10000.0)}),
    "convnext": dict(num_stages=2, hidden_sizes=[8, 16], depths=[1, 1], patch_size=4),
    "dbrx": dict(
        attn_config=dict(kv_n_heads=2, clip_qkv=8.0, rope_theta=10000.0),
        ffn_config=dict(ffn_hidden_size=64, moe_num_experts=4, moe_top_k=2),
    ),
    "deepseek_v2": dict(num_experts_per_tok=2),
    "dory": dict(
        num_hidden_layers=4,
        n_input_layers=1,
        n_recurrent_layers=2,
        n_output_layers=1,
        layer_types=["sliding_attention", "full_attention"] * 2,
    ),
    "dots1": dict(n_routed_experts=4, n_shared_experts=1, num_experts_per_tok=2),
    "dots3_note_text": dict(head_dim=2 * HEAD),
    "falcon_h1": dict(STATES, mamba_d_ssm=64),
    "gemma3n_text": dict(intermediate_size=64, num_kv_shared_layers=0, activation_sparsity_pattern=[0.95, 0.0]),
    "glm5_next_text": dict(qk_rope_head_dim=0),
    "gpt_neo": dict(attention_types=[[["global", "local"], 1]]),
    "granitemoehybrid": dict(STATES, layer_types=["linear_attention", "full_attention"]),
    "hubert": SPEECH,
    "hunyuan_v1_dense": dict(head_dim=HEAD),
    "hunyuan_v1_moe": dict(head_dim=HEAD),
    # Its kernels are for GPUs, and transformers 4 raises without them.
    "jamba": dict(attn_layer_period=2, attn_layer_offset=1, mamba_dt_rank=4, use_mamba_kernels=False),
    "lfm2": dict(layer_types=["conv", "full_attention"], full_attn_idxs=[1]),
    "lfm2_moe": dict(layer_types=["conv", "full_attention"], num_dense_layers=1),
    "mamba2": dict(num_heads=8, head_dim=8, expand=2, n_groups=1),
    "ministral": dict(head_dim=HEAD),
    "nemotron": dict(num_key_value_heads=2),
    "nemotron_h": dict(
        num_hidden_layers=3,
        layers_block_type=["linear_attention", "moe", "full_attention"],
        mamba_num_heads=8,
        mamba_head_dim=8,
        n_groups=1,
    ),
    "qwen4_exp_text": dict(
        indexer_n_heads=HEADS, indexer_kv_heads=1, indexer_head_dim=HEAD, indexer_budget=8, indexer_compress_ratio=2
    ),
    "recurrent_gemma": dict(block_types=["recurrent", "attention"], lru_width=WIDTH),
    "reformer": dict(axial_pos_embds_dim=[16, 16], axial_pos_shape=[8, 16], attention_head_size=HEAD),
    "segformer": dict(
        num_encoder_blocks=2,
        hidden_sizes=[8, 16],
        depths=[1, 1],
        num_attention_heads=[1, 2],
        sr_ratios=[2, 1],
        patch_sizes=[3, 3],
        strides=[2, 2],
        mlp_ratios=[2, 2],
        decoder_hidden_size=16,
    ),
    "swin": dict(embed_dim=16, depths=[1, 1], num_heads=[2, 2], window_size=2, patch_size=2),
    "wav2vec2": SPEECH,
    "xmod": dict(default_language="en_XX"),
    "zamba": dict(
        attention_hidden_size=64,
        attention_head_dim=16,
        mamba_dt_rank=4,
        num_hidden_layers=4,
        layers_block_type=["linear_attention", "hybrid"] * 2,
    ),
    "zamba2": dict(attention_hidden_size=64, attention_head_dim=16, n_mamba_heads=8, mamba_headdim=8, adapter_rank=8),
    "zaya": dict(num_experts_per_tok=1),
}
# Sizes that follow from others there, and must not be given.
DERIVED = {"deepseek_v2": ["head_dim"], "deepseek_v3": ["head_dim"], "swin": ["num_hidden_layers", "hidden_size"]}


def tiny_config(model_type: str, **overrides: Any) -> Any:
    """The configuration of an architecture, made tiny.

    Args:
        model_type: as transformers names it: ``llama``, ``t5``, ``vit``.
        overrides: attributes with values of the caller's own.

    Raises:
        KeyError: for a type that the installed transformers does not know.
    """
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    config_class = CONFIG_MAPPING[model_type]
    given = {**_shrunk(config_class().to_dict()), **CORRECTIONS.get(model_type, {})}
    for name in DERIVED.get(model_type, ()):
        given.pop(name, None)
    return config_class(**{**given, **overrides})


def _shrunk(default: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for name, value in default.items():
        if name in SIZES and (value is not None or name == "pad_token_id") and not isinstance(value, (list, dict)):
            given[name] = SIZES[name]
        elif name.endswith("_config") and isinstance(value, dict) and value:
            given[name] = {**value, **_shrunk(value), **CORRECTIONS.get(value.get("model_type", ""), {})}
    if "kv_lora_rank" in given and "num_key_value_heads" in given:
        # Latent attention has as many keys as queries.
        given["num_key_value_heads"] = HEADS
    if default.get("per_layer_config"):
        # For layers by their number, of which there are fewer now.
        given["per_layer_config"] = {}
    layers = next((given[name] for name in LAYER_COUNTS.split() if name in given), LAYERS)
    for name in ("layer_types", "mlp_layer_types", "layers_block_type"):
        kinds = default.get(name)
        if isinstance(kinds, list):
            # One layer of every kind that fits, rather than the first few of one kind.
            given[name] = (list(dict.fromkeys(kinds)) * layers)[:layers]
    return given
