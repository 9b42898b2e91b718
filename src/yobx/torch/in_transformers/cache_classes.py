"""Cache classes made pytree nodes."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from yobx.autopatch import imports, versions
from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import effect
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.caches import CacheContext, flatten, flatten_with_keys, unflatten

torch: Any = lazy("torch")


def register_class(cls: type) -> bool:
    """Make a cache class a pytree node, unless somebody else has done so already.

    Args:
        cls: a subclass of ``transformers.cache_utils.Cache``.

    Returns:
        Whether the registration is ours.
    """
    from torch.fx import _pytree as fx_pytree
    from torch.utils import _pytree as pytree

    if cls in pytree.SUPPORTED_NODES:
        return False
    pytree.register_pytree_node(
        cls,
        flatten,
        unflatten,
        serialized_type_name=f"{cls.__module__}.{cls.__qualname__}",
        to_dumpable_context=CacheContext.dumps,
        from_dumpable_context=CacheContext.loads,
        flatten_with_keys_fn=flatten_with_keys,
    )
    if cls not in fx_pytree.SUPPORTED_NODES:
        fx_pytree.register_pytree_flatten_spec(cls, lambda cache, spec: flatten(cache)[0])
    return True


def _subclasses(cls: type) -> list[type]:
    found: list[type] = []
    direct: type
    for direct in cls.__subclasses__():
        found += [direct, *_subclasses(direct)]
    return found


# Caches of transformers 4 that are no subclass of `Cache`, by the model that defines them.
OTHERS = {
    "bamba": "HybridMambaAttentionDynamicCache",
    "falcon_h1": "FalconHybridMambaAttentionDynamicCache",
    "falcon_mamba": "FalconMambaCache",
    "granitemoehybrid": "HybridMambaAttentionDynamicCache",
    "jamba": "HybridMambaAttentionDynamicCache",
    "lfm2": "Lfm2HybridConvCache",
    "lfm2_moe": "Lfm2MoeHybridConvCache",
    "mamba": "MambaCache",
    "mamba2": "Mamba2Cache",
    "qwen3_next": "Qwen3NextDynamicCache",
    "xlstm": "xLSTMCache",
    "zamba": "ZambaHybridDynamicCache",
    "zamba2": "Zamba2HybridDynamicCache",
}


def _module_of(model: str) -> str:
    return f"transformers.models.{model}.modeling_{model}"


def _register_other(module: Any) -> None:
    cls = getattr(module, OTHERS[module.__name__.split(".")[2]], None)
    if cls is not None:
        register_class(cls)


def cache_in_the_output() -> Reproducer:
    from transformers import DynamicCache

    class Fills(torch.nn.Module):
        def forward(self, x):
            cache = DynamicCache()
            cache.update(x, x * 2, 0)
            return cache

    return Reproducer(
        Fills(),
        inputs=dict(x=torch.randn(2, 2, 5, 4)),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC, 2: torch.export.Dim.DYNAMIC}),
        accepts=[dict(x=torch.randn(n, 2, m, 4)) for n, m in ((3, 7), (1, 1))],
    )


@effect(
    "transformers.cache_utils",
    family="transformers",
    why="a cache that is no pytree node can be neither an input nor an output of a program",
    see="https://github.com/pytorch/pytorch/issues/136582",
    obsolete="when transformers registers its caches itself, as 4.50 to 4.55 did for DynamicCache",
    versions="transformers>=4.56",
    reproducer=cache_in_the_output,
)
def register_cache_classes(module: Any) -> None:
    """Register the cache classes, those of model files loaded later too; this stays for the process."""
    for cls in (module.Cache, *_subclasses(module.Cache)):
        register_class(cls)

    def __init_subclass__(cls: type, **kwargs: Any) -> None:
        super(module.Cache, cls).__init_subclass__(**kwargs)
        register_class(cls)

    if "__init_subclass__" not in vars(module.Cache):
        module.Cache.__init_subclass__ = classmethod(__init_subclass__)
    if versions.conflict("transformers<5") is None:
        for name in map(_module_of, OTHERS):
            imports.after(_register_other, name)
            if imports.finished(name):
                _register_other(sys.modules[name])


def register_caches() -> None:
    """Make the cache classes of transformers pytree nodes, as enabling the family does.

    A program that takes or returns a cache is loaded by ``torch.export.load`` only where these registrations have been
    made.
    """
    # The classes of most outputs, which register themselves.
    importlib.import_module("transformers.modeling_outputs")
    register_cache_classes(importlib.import_module("transformers.cache_utils"))
