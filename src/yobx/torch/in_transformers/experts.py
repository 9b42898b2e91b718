"""Mixtures of experts that loop over the experts that were chosen, a number that depends on the data.

Up to transformers 4 the models loop over ``expert_hit``, the indices of the experts that some token has chosen, or over
all experts and skip the others. A program runs all of them, in the same order: one that no token has chosen gets no
token, and adds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.rewriting import Passage, rewriting

if TYPE_CHECKING:
    from collections.abc import Callable

torch: Any = lazy("torch")

HIT = Passage(
    r"torch\.greater\(expert_mask\.sum\(dim=\(-1, -2\)\), 0\)\.nonzero\(\)", "all_experts(expert_mask)"
)
EMPTY = Passage(r"(?:top_x|token_idx)\.shape\[0\] == 0", "False")
CHOSEN = Passage(r"token_indices\.numel\(\) > 0", "True")
# The methods of 4.5x that hold such a loop, by the model that defines them, and what is replaced.
LOOPS = {
    "dbrx": ("DbrxExperts.forward", EMPTY),
    "deepseek_v3": ("DeepseekV3MoE.moe", CHOSEN),
    "dots1": ("Dots1MoE.moe", CHOSEN),
    "ernie4_5_moe": ("Ernie4_5_MoeSparseMoeBlock.forward", HIT),
    "glm4_moe": ("Glm4MoeMoE.moe", CHOSEN),
    "glm4v_moe": ("Glm4vMoeTextMoE.moe", CHOSEN),
    "gpt_oss": ("GptOssExperts.forward", HIT),
    "hunyuan_v1_moe": ("HunYuanMoEV1Moe.forward", HIT),
    "jamba": ("JambaSparseMoeBlock.forward", EMPTY),
    "longcat_flash": ("LongcatFlashMoE.moe", CHOSEN),
    "minimax": ("MiniMaxSparseMoeBlock.forward", HIT),
    "mixtral": ("MixtralSparseMoeBlock.forward", HIT),
    "phimoe": ("PhimoeSparseMoeBlock.forward", EMPTY),
    "qwen2_moe": ("Qwen2MoeSparseMoeBlock.forward", HIT),
    "qwen3_moe": ("Qwen3MoeSparseMoeBlock.forward", HIT),
    "qwen3_next": ("Qwen3NextSparseMoeBlock.forward", HIT),
    "qwen3_omni_moe": ("Qwen3OmniMoeThinkerTextSparseMoeBlock.forward", HIT),
}


def all_experts(expert_mask: Any) -> list[Any]:
    """The index of every expert, of the kind that the loop takes: a constant tensor with one element."""
    return [torch.tensor([index]) for index in range(expert_mask.shape[0])]


def _four_experts(model: str, name: str) -> Callable[[], Reproducer]:
    def few_tokens_for_four_experts() -> Reproducer:
        """A layer with four experts, alone, with so few tokens that some expert gets none."""
        import importlib

        module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
        # The experts of dbrx are given by the layer around them.
        cls = getattr(module, name.replace("DbrxExperts", "DbrxFFN"))
        config = _config(model, cls)
        layer = cls(config)
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=0.2)

        class Experts(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = layer

            def forward(self, x):
                if "Experts" not in cls.__name__:
                    result = self.layer(x)
                    return result[0] if isinstance(result, tuple) else result
                scores = x.reshape(-1, x.shape[-1])[:, :4].softmax(-1)
                chosen = scores.topk(2, dim=-1)[1]
                weights = torch.zeros_like(scores).scatter(1, chosen, scores.gather(1, chosen))
                return self.layer(x, router_indices=chosen, routing_weights=weights)

        dynamic = torch.export.Dim.DYNAMIC
        return Reproducer(
            Experts(),
            inputs=dict(x=torch.randn(2, 3, 32)),
            dynamic_shapes=dict(x={0: dynamic, 1: dynamic}),
            accepts=[dict(x=torch.randn(1, 1, 32)), dict(x=torch.randn(3, 7, 32))],
            atol=1e-4,
        )

    return few_tokens_for_four_experts


def _config(model: str, cls: Any) -> Any:
    """A small configuration for a layer of experts."""
    from transformers import AutoConfig

    config = AutoConfig.for_model(model)
    if hasattr(config, "thinker_config"):
        config = config.thinker_config
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    sizes = dict(hidden_size=32, intermediate_size=16, moe_intermediate_size=16, shared_expert_intermediate_size=16)
    sizes |= dict(num_local_experts=4, num_experts=4, num_experts_per_tok=2, moe_num_experts=4, moe_k=2)
    sizes |= dict(num_hidden_layers=2, moe_topk=2, num_shared_expert=1, n_group=1, topk_group=1)
    sizes |= dict(n_routed_experts=4, n_shared_experts=1, d_model=32, expert_ffn_hidden_size=16, zero_expert_num=0)
    for key, value in sizes.items():
        if hasattr(config, key):
            setattr(config, key, [value] * 2 if isinstance(getattr(config, key), list) else value)
    return config


for _model, (_method, _passage) in LOOPS.items():
    patch(
        f"transformers.models.{_model}.modeling_{_model}:{_method}",
        family="transformers",
        name=f"experts_of_{_model}",
        around=True,
        versions="transformers>=4.50,<5.0",
        why="the loop runs over the experts that were hit, so their number depends on the data",
        see="https://github.com/huggingface/transformers/issues/38518",
        obsolete="with transformers 5, whose experts are one grouped product",
        reproducer=_four_experts(_model, _method.partition(".")[0]),
    )(rewriting(f"experts_of_{_model}", _passage, helpers=(all_experts,) if _passage is HIT else ()))
