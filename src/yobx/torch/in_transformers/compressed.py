"""Attention to compressed windows: DeepSeek-V4, whose layers turn every few tokens into one entry.

How many windows are full, whether there is one, and how many entries are chosen are asked in Python. What is computed for
windows is right for none of them too: there are then no entries. Its cache holds the tokens of the window that is not
full yet and the entries so far; how many these are goes from call to call with their sizes.
"""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.rewriting import Passage, called, rewriting

torch: Any = lazy("torch")
statically_known_true: Any = lazy("torch.fx.experimental.symbolic_shapes:statically_known_true")


def after_previous(chunk_kv: Any, chunk_gate: Any, head_dim: int, cache_layer: Any, name: str) -> tuple[Any, Any]:
    """Both series of every window: the first of the window before it, and the second of its own.

    The first series of the last full window is what the cache keeps for the next call.
    """
    prior = (None, None) if cache_layer is None else (cache_layer.overlap_kv[name], cache_layer.overlap_gate[name])
    laid_out, last = [], []
    for chunk, before, nothing in zip((chunk_kv, chunk_gate), prior, (0.0, -torch.inf)):
        batch, windows, ratio, _ = chunk.shape
        before = chunk.new_full((batch, ratio, head_dim), nothing) if before is None else before.to(chunk.dtype)
        first = torch.cat([before.unsqueeze(1), chunk[..., :head_dim]], dim=1)
        laid_out.append(torch.cat([first.narrow(1, 0, windows), chunk[..., head_dim:]], dim=2))
        last.append(first.narrow(1, windows, 1).squeeze(1))
    if cache_layer is not None:
        cache_layer.overlap_kv[name], cache_layer.overlap_gate[name] = last
    return laid_out[0], laid_out[1]


def unless_alone(future: Any, seq_len: Any) -> Any:
    """What several tokens may not see; a single one sees every entry."""
    return future & (torch.scalar_tensor(seq_len, device=future.device) > 1)


def lacks_entries(kv: Any, attention_mask: Any) -> bool:
    """Whether a mask may be for fewer keys than there are."""
    return not statically_known_true(kv.shape[2] <= attention_mask.shape[-1])


HELPERS = (after_previous, unless_alone, lacks_entries)
WHOLE = Passage(r"kv\[:, :usable\], gate\[:, :usable\], 0", "kv.narrow(1, 0, usable), gate.narrow(1, 0, usable), 0")
EVEN_NONE = Passage(r"if chunk_kv\.shape\[1\] > 0:", "if True:")
# The width is not to be inferred where there is no window.
WINDOWS = Passage(r"\.view\(batch, n_windows, (ratio|self\.compress_rate), -1\)", r".unflatten(1, (n_windows, \1))", 2)
CHOSEN = (
    Passage(r"= min\(self\.index_topk, compressed_len\)", "= torch.sym_min(self.index_topk, compressed_len)"),
    Passage(r"if compressed_len > 0:", "if True:"),
)
MASKED = (
    Passage(r"if seq_len == 1 or compressed_len == 0:", "if False:"),
    Passage(
        r"(entry_indices\.view\(1, 1, 1, -1\) >= causal_threshold\.unsqueeze\(1\)\.unsqueeze\(-1\))",
        r"unless_alone(\1, seq_len)",
    ),
)
BIAS = Passage(r"block_bias\[\.\.\., :compressed_len\]", "block_bias.narrow(-1, 0, compressed_len)")
MASK = Passage(r"kv\.shape\[2\] > attention_mask\.shape\[-1\]", "lacks_entries(kv, attention_mask)")


def _overlapping(name: str) -> Passage:
    text = f'new_kv, new_gate = after_previous(chunk_kv, chunk_gate, self.head_dim, cache_layer, "{name}")\n'
    return Passage(r"new_kv = chunk_kv\.new_zeros(?:.*\n)*?(?=\n +(?:#.*\n +)*compressed = self\.kv_norm)", text)


# The functions of the model, and what is replaced in each.
FUNCTIONS: dict[str, tuple[Passage, ...]] = {
    "DeepseekV4HCACompressor": (WHOLE, EVEN_NONE, WINDOWS, *MASKED),
    "DeepseekV4CSACompressor": (WHOLE, EVEN_NONE, WINDOWS, _overlapping("compressor"), BIAS),
    "DeepseekV4Indexer": (WHOLE, EVEN_NONE, WINDOWS, _overlapping("indexer"), *CHOSEN),
    "DeepseekV4Attention": (MASK,),
}


def _model() -> Any:
    """One layer of each kind, with windows of 2 and of 4 tokens, of which 2 entries are chosen."""
    from transformers import DeepseekV4Config, DeepseekV4Model

    sparse, heavy = "compressed_sparse_attention", "heavily_compressed_attention"
    torch.manual_seed(0)
    config = DeepseekV4Config(
        vocab_size=16, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, head_dim=8, q_lora_rank=4, o_groups=1,
        o_lora_rank=4, moe_intermediate_size=8, n_routed_experts=2, num_experts_per_tok=1, max_position_embeddings=64,
        layer_types=[sparse, heavy], compress_rates={sparse: 2, heavy: 4}, partial_rotary_factor=0.5, sliding_window=4,
        mlp_layer_types=["moe"] * 2, index_n_heads=2, index_head_dim=8, index_topk=2, hc_mult=2, hc_sinkhorn_iters=2,
    )  # fmt: skip
    model = DeepseekV4Model(config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def _tokens(batch: int, length: int) -> Any:
    return (torch.arange(batch * length).reshape(batch, length) * 5) % 13 + 1


def sequences_of_no_window_and_several() -> Reproducer:
    model = _model()

    class Alone(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids):
            return self.model(input_ids, use_cache=False).last_hidden_state

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Alone(),
        inputs=dict(input_ids=_tokens(2, 6)),
        dynamic_shapes=dict(input_ids={0: dynamic, 1: dynamic}),
        accepts=[dict(input_ids=_tokens(n, m)) for n, m in ((3, 9), (1, 1), (2, 3), (1, 4), (2, 12))],
    )


for _class, _passages in FUNCTIONS.items():
    patch(
        f"transformers.models.deepseek_v4.modeling_deepseek_v4:{_class}.forward",
        family="transformers",
        name=f"windows_of_{_class.lower()}",
        around=True,
        versions="transformers>=5.24",
        why="how many windows of tokens are full, and whether one is, is asked in Python",
        obsolete="when the model computes what it does for windows for none of them too",
        reproducer=sequences_of_no_window_and_several,
        group="windows_of_deepseek_v4",
    )(rewriting(f"windows_of_{_class.lower()}", *_passages, helpers=called(_passages, HELPERS)))


def steps_that_fill_windows() -> Reproducer:
    """New tokens after a past of less than the sliding window and of more, before a window is full and after."""
    from transformers import DynamicCache

    model = _model()

    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, input_ids, cache):
            output = self.model(input_ids, cache=cache, use_cache=True)
            states = [
                value
                for layer in output.cache.layers
                for name in ("buffer_kv", "buffer_gate", "compressed_kv", "overlap_kv")
                for value in getattr(layer, name, {}).values()
            ]
            return output.last_hidden_state, states

    def inputs(batch, past, new):
        cache = DynamicCache(config=model.config)
        with torch.no_grad():
            model(_tokens(batch, past), cache=cache, use_cache=True)
        return dict(input_ids=_tokens(batch, new), cache=cache)

    dynamic = torch.export.Dim.DYNAMIC
    return Reproducer(
        Step(),
        inputs=inputs(2, 5, 3),
        dynamic_shapes=dict(input_ids={0: dynamic, 1: dynamic}, cache=[{0: dynamic, 2: dynamic}] * 4),
        accepts=[inputs(*sizes) for sizes in ((3, 2, 7), (1, 9, 1), (2, 1, 2), (2, 8, 4), (1, 3, 1))],
    )


CACHE: dict[str, Any] = dict(
    family="transformers",
    versions="transformers>=5.24",
    reproducer=steps_that_fill_windows,
    group="windows_of_deepseek_v4",
)


@patch(
    "transformers.models.deepseek_v4.modeling_deepseek_v4:DeepseekV4HCACache.update",
    name="compressed_layer_update",
    why="cutting the keys to the window asks whether they are longer, and fixes what the sample answered",
    see="https://github.com/huggingface/transformers/pull/47900",
    obsolete="when a sliding layer decodes past its window in one graph",
    **CACHE,
)
def compressed_layer_update(self, key_states, value_states, *args, **kwargs):
    """
    Shared sliding-window K=V update body. V4 uses shared-KV MQA, so `keys` and
    `values` point to the same storage on every layer.
    """
    if not self.is_initialized:
        self.lazy_initialization(key_states, value_states)
    self.cumulative_length += key_states.shape[-2]
    # Nothing is cut: the mask hides what has left the window, and unflattening the result cuts it
    self.keys = torch.cat([self.keys, key_states], dim=-2)
    self.values = self.keys
    return self.keys, self.keys


patch(
    "transformers.models.deepseek_v4.modeling_deepseek_v4:DeepseekV4HCACache.store_compression_weights",
    name="store_compression_weights",
    around=True,
    why="whether tokens wait for their window to be full is asked in Python",
    obsolete="when the layer joins tokens to those that wait for any number of these",
    **CACHE,
)(
    rewriting(
        "store_compression_weights",
        Passage(r" and buffered_kv\.shape\[1\]", ""),
        Passage(r"kv\[:, :usable\], gate\[:, :usable\]", "kv.narrow(1, 0, usable), gate.narrow(1, 0, usable)"),
        helpers=(),
    )
)


patch(
    "transformers.models.deepseek_v4.modeling_deepseek_v4:DeepseekV4HCACache.update_compressor_states",
    name="update_compressor_states",
    around=True,
    why="whether a window was filled is asked in Python",
    obsolete="when the layer adds entries to the others for any number of them",
    **CACHE,
)(rewriting("update_compressor_states", Passage(r"elif compressed\.shape\[1\] > 0:", "else:"), helpers=()))
