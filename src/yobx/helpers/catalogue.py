"""Reading a family: every module of its package declares patches when it is imported."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable


def declare_all(package: str, path: Iterable[str]) -> None:
    """Import every module of a package, in the order of their names."""
    for module in sorted(pkgutil.iter_modules(path), key=lambda found: found.name):
        importlib.import_module(f"{package}.{module.name}")
