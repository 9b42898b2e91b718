"""Which patches of transformers can matter to a model; declares none.

A model runs the code of its classes, and what that code's module has imported by name. So a patch inside a modeling file
matters to a model that has classes of that file, or of one that imports from it (trust_remote_code files do); a patch of
shared code, such as RoPE, caches or masks, to a model whose files import that code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from yobx.autopatch.patches import Patch

# Shared code that modeling files reach through an object of another module: a table of attention functions.
REACHED_THROUGH = {"transformers.integrations.sdpa_attention": "transformers.modeling_utils"}
# No file of a model's own: what these import, the model need not use.
SHARED = ("builtins", "torch", "transformers")


def _imported(module: ModuleType) -> Iterator[str]:
    """The modules that the globals of a module come from."""
    for value in list(vars(module).values()):
        origin = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None)
        yield origin if isinstance(origin, str) else type(value).__module__


def _is_of_a_model(name: str) -> bool:
    return name.startswith("transformers.models.") or name.partition(".")[0] not in SHARED


def modules_used(model: Any) -> set[str]:
    """The names of the modules that a model's code is in, or takes something from by name."""
    used: set[str] = set()
    waiting = {cls.__module__ for part in model.modules() for cls in type(part).__mro__}
    own = set(waiting)
    while waiting:
        name = waiting.pop()
        used.add(name)
        module = sys.modules.get(name)
        # The files of a model's classes, and those of other models that they import from.
        if module is not None and _is_of_a_model(name) and (name in own or name.startswith("transformers.models.")):
            waiting.update(set(_imported(module)) - used)
    return used


def not_needed(patches: Iterable[Patch], model: Any) -> list[Patch]:
    """The patches of transformers' modules that a model has no use for."""
    used = modules_used(model)
    return [
        patch
        for patch in patches
        if patch.module.startswith("transformers.")
        and not patch.effect
        and used.isdisjoint({patch.module, REACHED_THROUGH.get(patch.module, patch.module)})
    ]
