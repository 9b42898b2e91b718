"""Which version of a package is installed, and whether a patch is meant for it."""

from __future__ import annotations

import functools
import re
import sys
from typing import Any, NamedTuple


class VersionConflict(NamedTuple):
    """An installed version that a patch is not meant for.

    Attributes:
        requirement: what the patch asks for, such as ``torch>=2.9,<2.14``.
        found: the installed version, ``None`` when the package is not installed.
    """

    requirement: str
    found: str | None

    def __str__(self) -> str:
        return f"meant for {self.requirement}, {self.found or 'not'} installed"


def installed_version(package: str) -> str | None:
    """The version of an importable package, without importing it."""
    version = getattr(sys.modules.get(package), "__version__", None)
    if version is not None:
        return str(version)
    return _metadata_version(package)


@functools.cache
def _metadata_version(package: str) -> str | None:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def installed(module: str) -> str:
    """``torch 2.13.0`` for a module of torch: what a message says of a target's package."""
    package = module.partition(".")[0]
    return f"{package} {installed_version(package) or 'not installed'}"


@functools.cache
def release(version: str) -> str:
    """Only the release segment: a nightly ``2.16.0.dev1`` is in neither ``<2.16`` nor ``>=2.16`` under PEP 440."""
    from packaging.version import Version

    return Version(version).base_version


@functools.cache
def _parsed(requirement: str) -> tuple[str, Any]:
    """The package and the versions that a requirement names; ``packaging.requirements`` takes 15 ms to be imported."""
    from packaging.specifiers import SpecifierSet

    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return name, SpecifierSet(requirement[len(name) :])


@functools.cache
def _satisfies(requirement: str, version: str) -> bool:
    return bool(_parsed(requirement)[1].contains(release(version)))


def conflict(requirement: str | None) -> VersionConflict | None:
    """What keeps a requirement such as ``torch>=2.9,<2.14`` from being met, or ``None``.

    Versions are compared by their release segment: ``2.13.0+cpu`` is 2.13.0 and ``2.16.0.dev1`` is 2.16.0.

    Raises:
        ValueError: the versions cannot be read (``packaging.specifiers.InvalidSpecifier``).
    """
    if requirement is None:
        return None
    found = installed_version(_parsed(requirement)[0])
    if found is not None and _satisfies(requirement, found):
        return None
    return VersionConflict(requirement, found)
