"""Mixtures of experts that loop over the experts that were chosen, a number that depends on the data.

Up to transformers 4, and in a few models since, they loop over ``expert_hit``, the indices of the experts that some token has chosen, or over
all experts and skip the others. A program runs all of them, in the same order: one that no token has chosen gets no
token, and adds nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.rewriting import Passage, called, rewriting

if TYPE_CHECKING:
    from collections.abc import Callable

torch: Any = lazy("torch")

HIT = Passage(
    r"torch\.greater\(expert_mask\.sum\(dim=\(-1, -2\)\), 0\)\.nonzero\((?:as_tuple=False)?\)", "all_experts(expert_mask)"
)
# Its mask has a row more than there are experts.
HIT_OF_DBRX = HIT._replace(text="all_experts(expert_mask[: self.num_experts])")
KEYED = Passage(r"\{expert_idx\[0\]\}", "{int(expert_idx[0])}")
NONE = Passage(r"token_idx\.numel\(\) == 0", "False")
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
# Those of 5.x that are no grouped product.
LOOPS_LEFT = {
    "dbrx": ("DbrxExperts.forward", (HIT_OF_DBRX,), "transformers>=5.0"),
    "longcat_flash": ("LongcatFlashExperts.forward", (HIT, NONE), "transformers>=5.0,<5.25"),
    "nllb_moe": ("NllbMoeExperts.forward", (HIT, KEYED), "transformers>=5.0"),
    "switch_transformers": ("SwitchTransformersExperts.forward", (HIT, KEYED), "transformers>=5.0"),
}
# The layer that gives the experts their tokens, where they are not alone.
AROUND = {
    "DbrxExperts": "DbrxFFN",
    "LongcatFlashExperts": "LongcatFlashMoE",
    "NllbMoeExperts": "NllbMoeSparseMLP",
    "SwitchTransformersExperts": "SwitchTransformersSparseMLP",
}
# Routers that convert their weights in every call, which a module whose weights are fake does not allow.
CONVERTED = Passage(r"self\.classifier\.to\(self\.dtype\)", "of_dtype(self.classifier, self.dtype)")
ROUTERS = {
    "nllb_moe": "NllbMoeTop2Router._cast_classifier",
    "switch_transformers": "SwitchTransformersTop1Router.forward",
}


def of_dtype(module: Any, dtype: Any) -> Any:
    """A module with weights of a type; untouched when they have it."""
    return module if all(weight.dtype == dtype for weight in module.parameters()) else module.to(dtype)


def all_experts(expert_mask: Any) -> list[Any]:
    """The index of every expert, of the kind that the loop takes: a constant tensor with one element."""
    return [torch.tensor([index]) for index in range(expert_mask.shape[0])]


def _four_experts(model: str, name: str) -> Callable[[], Reproducer]:
    def few_tokens_for_four_experts() -> Reproducer:
        """A layer with four experts, alone, with so few tokens that some expert gets none."""
        import importlib

        module = importlib.import_module(f"transformers.models.{model}.modeling_{model}")
        cls = getattr(module, AROUND.get(name, name))
        layer = cls(_config(model), *([16] if model == "nllb_moe" else []))
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


def _config(model: str) -> Any:
    """A small configuration for a layer of experts."""
    from transformers import AutoConfig

    config = AutoConfig.for_model(model.replace("nllb_", "nllb-"))
    if hasattr(config, "thinker_config"):
        config = config.thinker_config
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    sizes = dict(hidden_size=32, intermediate_size=16, moe_intermediate_size=16, shared_expert_intermediate_size=16)
    sizes |= dict(num_local_experts=4, num_experts=4, num_experts_per_tok=2, moe_num_experts=4, moe_k=2)
    sizes |= dict(num_hidden_layers=2, moe_topk=2, num_shared_expert=1, n_group=1, topk_group=1)
    sizes |= dict(n_routed_experts=4, n_shared_experts=1, d_model=32, expert_ffn_hidden_size=16, zero_expert_num=0)
    sizes |= dict(d_ff=16, moe_num_experts=4, ffn_hidden_size=16, moe_top_k=2, expert_capacity=100)
    for part in (config, getattr(config, "ffn_config", None)):
        for key, value in sizes.items():
            if hasattr(part, key):
                setattr(part, key, [value] * 2 if isinstance(getattr(part, key), list) else value)
    return config


def _declare(model: str, method: str, passages: tuple[Passage, ...], versions: str, name: str, obsolete: str) -> None:
    patch(
        f"transformers.models.{model}.modeling_{model}:{method}",
        family="transformers",
        name=name,
        around=True,
        versions=versions,
        why="the loop runs over the experts that were hit, so their number depends on the data",
        see="https://github.com/huggingface/transformers/issues/38518",
        obsolete=obsolete,
        reproducer=_four_experts(model, method.partition(".")[0]),
        group=f"experts_of_{model}",
    )(rewriting(name, *passages, helpers=called(passages, (all_experts,))))


for _model, (_method, _passage) in LOOPS.items():
    _declare(
        _model,
        _method,
        (_passage,),
        "transformers>=4.50,<5.0",
        f"experts_of_{_model}",
        "with transformers 5, whose experts are one grouped product",
    )
for _model, (_method, _passages, _versions) in LOOPS_LEFT.items():
    _declare(
        _model,
        _method,
        _passages,
        _versions,
        f"experts_of_{_model}" + ("_v5" if _model in LOOPS else ""),
        "when the experts are one grouped product, as those of most models",
    )
for _model, _method in ROUTERS.items():
    patch(
        f"transformers.models.{_model}.modeling_{_model}:{_method}",
        family="transformers",
        name=f"router_of_{_model}",
        around=True,
        versions="transformers>=5.0",
        why="the router converts its weights to the type that they have, which weights that are fake do not allow",
        obsolete="when the model converts them once",
        reproducer=_four_experts(_model, LOOPS_LEFT[_model][0].partition(".")[0]),
        group=f"experts_of_{_model}",
    )(rewriting(f"router_of_{_model}", CONVERTED, helpers=(of_dtype,)))
