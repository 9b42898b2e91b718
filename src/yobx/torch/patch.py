"""The scope that applies the patches inside an export pipeline, and a helper for dynamic shapes."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from yobx.autopatch import control, families

if TYPE_CHECKING:
    from collections.abc import Iterable

    from yobx.autopatch.patches import Patch
    from yobx.helpers.patch_helper import PatchInfo


def apply_patches_for_model(
    patch_torch: bool = False,
    patch_transformers: bool = False,
    verbose: int = 0,
    model: Any = None,
    extra_patches: Iterable[PatchInfo] | None = None,
) -> control.Scope:
    """Patches for the length of a ``with`` block, in this thread; the originals stand there again after it.

    The block's value is a :class:`~yobx.helpers.patch_helper.PatchDetails`. Blocks nest, and may be open in several
    threads at once, with or without :func:`yobx.autopatch.enable`.

    Args:
        patch_torch: apply the torch family.
        patch_transformers: apply the transformers family.
        verbose: 1 or more: say on stderr what is applied.
        model: the module to be exported. With it, only those patches of the transformers family apply that it can
            need: those of its own modeling files, and of the shared code that these import. Without it, all apply.
        extra_patches: a program's own patches; they go over built-in ones of the same target.

    Raises:
        PatchError: under ``YOBX_PATCH_STRICT=1``, when a patch cannot be applied; nothing is applied then.
    """
    names = [name for name, asked in (("torch", patch_torch), ("transformers", patch_transformers)) if asked]
    selection = families.Selection(names, without=_not_needed(model) if patch_transformers else ())
    extra = {part.core.number: part.core for info in extra_patches or () for part in info.with_dependencies()}
    if verbose:
        chosen = {patch.number: patch for patch in (*selection.patches(), *extra.values())}
        what = f" for {type(model).__name__}" if model is not None else ""
        print(f"yobx: {len(chosen)} patches{what}", file=sys.stderr)
        for patch in chosen.values():
            print(f"yobx:   {patch.full_name} of {patch.target}", file=sys.stderr)
    return control.scope_of(selection, list(extra.values()))


def _not_needed(model: Any) -> list[Patch]:
    """The patches of transformers that a model has no use for: none is known of what is no module."""
    if not hasattr(model, "modules"):
        return []
    # Reads the declarations of the family, which whoever does not ask for it need not wait for.
    from yobx.torch.in_transformers.needs import not_needed

    return not_needed(families.get("transformers").load().values(), model)


def use_dyn_not_str(dynamic_shapes: Any) -> Any:
    """Turn the names in nested dynamic shapes into ``torch.export.Dim.DYNAMIC``; everything else is kept.

    ``{"x": {0: "batch", 1: "d1"}}`` becomes ``{"x": {0: Dim.DYNAMIC, 1: Dim.DYNAMIC}}``: two dimensions of the same
    name are no longer tied to each other.
    """
    import torch

    if isinstance(dynamic_shapes, str):
        return torch.export.Dim.DYNAMIC
    if isinstance(dynamic_shapes, dict):
        return type(dynamic_shapes)((key, use_dyn_not_str(value)) for key, value in dynamic_shapes.items())
    if isinstance(dynamic_shapes, tuple) and hasattr(dynamic_shapes, "_fields"):
        return type(dynamic_shapes)(*map(use_dyn_not_str, dynamic_shapes))
    if isinstance(dynamic_shapes, (list, tuple)):
        return type(dynamic_shapes)(map(use_dyn_not_str, dynamic_shapes))
    return dynamic_shapes
