"""The scope to put around an export, and what helps to write one. Importing it imports no torch."""

from __future__ import annotations

from yobx.torch.patch import apply_patches_for_model, use_dyn_not_str

__all__ = ["apply_patches_for_model", "register_caches", "use_dyn_not_str"]


def register_caches() -> None:
    """Make transformers' cache classes pytree nodes, as loading a program that takes a cache needs it.

    Raises:
        ModuleNotFoundError: when transformers is not installed.
    """
    from yobx.torch.in_transformers import caches

    caches.register_caches()
