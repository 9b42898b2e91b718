"""The scope to put around an export, and what helps to write one. Importing it imports no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yobx.torch.patch import apply_patches_for_model, use_dyn_not_str

if TYPE_CHECKING:
    from yobx.torch.verification import verify

__all__ = ["apply_patches_for_model", "register_caches", "use_dyn_not_str", "verify"]


def register_caches() -> None:
    """Make transformers' cache classes pytree nodes, as loading a program that takes a cache needs it.

    Raises:
        ModuleNotFoundError: when transformers is not installed.
    """
    from yobx.torch.in_transformers import cache_classes

    cache_classes.register_caches()


def __getattr__(name: str) -> Any:
    if name == "verify":
        from yobx.torch.verification import verify

        return verify
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
