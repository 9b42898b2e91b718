"""Attention within a window, computed in overlapping chunks: Longformer, and LED's encoder.

Four sizes are those of the sample: how much padding makes the sequence whole windows, and whether there is any; how many
chunks there are, which ``torch.div`` makes a tensor; and whether a token has global attention, which is data. What is
computed for global tokens is right for none of them too: there are then as many as no columns.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.chunks import up_to_whole_chunks
from yobx.torch.in_transformers.rewriting import Passage, called, rewriting, some_padding

torch: Any = lazy("torch")


def some_global(is_index_global_attn: Any, output_attentions: bool) -> Any:
    """Whether a token may have global attention. What is returned of the attention is data's to decide."""
    return is_index_global_attn.flatten().any().item() if output_attentions else True


QUOTIENT = r"torch\.div\((?P<size>seq_len), window_overlap, rounding_mode=\"trunc\"\)"
DIVIDED = r"\g<size> // window_overlap"
WHOLE_WINDOWS = Passage(
    r"\(attention_window - seq_len % attention_window\) % attention_window",
    "up_to_whole_chunks(seq_len, attention_window)",
)
UNFOLDED = (
    "return hidden_states.unfold(dimension=1, size=window_overlap * 2, step=window_overlap).transpose(2, 3)\n    "
)
IS_THERE_PADDING = Passage(r"if padding_len > 0:", "if some_padding(padding_len):")
END_OF_PADDING = Passage(r":-padding_len", r":hidden_states.shape[1] - padding_len", 3)
IS_THERE_A_GLOBAL_ONE = Passage(
    r"is_index_global_attn\.flatten\(\)\.any\(\)\.item\(\)", "some_global(is_index_global_attn, output_attentions)"
)
# The functions of a model, and what is replaced in each.
ATTENTION: dict[str, tuple[Passage, ...]] = {
    "forward": (Passage(r"\.view\(\s+len\(is_local_index_global_attn_nonzero\[0\]\), -1\s+\)", ".flatten(1)"),),
    "_get_global_attn_indices": (Passage(r"num_global_attn_indices\.max\(\)", r"\g<0>.item()"),),
    "_chunk": (Passage("if not onnx_export:", UNFOLDED + "if not onnx_export:"),),
    "_sliding_chunks_query_key_matmul": (Passage(QUOTIENT, DIVIDED),),
    "_sliding_chunks_matmul_attn_probs_value": (Passage(QUOTIENT, DIVIDED, 2),),
}
FUNCTIONS: dict[str, dict[str, dict[str, tuple[Passage, ...]]]] = {
    "longformer": {
        "LongformerSelfAttention": ATTENTION,
        "LongformerModel": {"_pad_to_window_size": (WHOLE_WINDOWS, IS_THERE_PADDING)},
        "LongformerEncoder": {"forward": (IS_THERE_A_GLOBAL_ONE,)},
    },
    "led": {
        "LEDEncoderSelfAttention": ATTENTION,
        "LEDEncoder": {
            "_pad_to_window_size": (WHOLE_WINDOWS, IS_THERE_PADDING),
            "forward": (IS_THERE_A_GLOBAL_ONE, IS_THERE_PADDING, END_OF_PADDING),
        },
    },
}
HELPERS = (up_to_whole_chunks, some_padding, some_global)


def _windows(model: str) -> Reproducer:
    """A model with windows of 4 on sequences of part of one, a whole one and several, without and with global tokens."""
    from transformers import AutoConfig, AutoModel

    config = AutoConfig.for_model(
        model, vocab_size=16, hidden_size=8, d_model=8, attention_window=4, num_attention_heads=2, intermediate_size=8,
        num_hidden_layers=1, encoder_layers=1, decoder_layers=1, encoder_attention_heads=2, decoder_attention_heads=2,
        encoder_ffn_dim=8, decoder_ffn_dim=8, use_cache=False,
    )  # fmt: skip
    whole = AutoModel.from_config(config)
    dynamic = torch.export.Dim.DYNAMIC
    shapes = {0: dynamic, 1: dynamic}
    names = ["input_ids", "attention_mask", "global_attention_mask"]

    def inputs(batch, length, tokens=0):
        ids = torch.arange(batch * length).reshape(batch, length) % 13 + 3
        seen = torch.ones_like(ids)
        return dict(zip(names, (ids, seen, (torch.arange(length) < tokens).long().expand(batch, -1))))

    return Reproducer(
        whole if model == "longformer" else whole.encoder,
        inputs=inputs(2, 6),
        dynamic_shapes=dict.fromkeys(names, shapes),
        accepts=[inputs(3, 9, 2), inputs(1, 4), inputs(2, 13, 1), inputs(1, 1)],
    )


for _model, _classes in FUNCTIONS.items():
    for _class, _methods in _classes.items():
        for _method, _passages in _methods.items():
            patch(
                f"transformers.models.{_model}.modeling_{_model}:{_class}.{_method}",
                family="transformers",
                name=f"{_method.lstrip('_')}_of_{_class.lower()}",
                around=True,
                versions="transformers>=4.50",
                why="how many windows there are, and whether a token is global, is asked in Python",
                obsolete="when the model asks neither, as its onnx_export does for the chunks",
                reproducer=partial(_windows, _model),
                group=f"windows_of_{_model}",
            )(
                rewriting(
                    f"{_method.lstrip('_')}_of_{_class.lower()}",
                    *_passages,
                    helpers=called(_passages, HELPERS),
                )
            )
