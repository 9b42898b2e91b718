"""Which version of a package is installed, and whether a patch is meant for it."""

from __future__ import annotations

import functools
import sys
from typing import NamedTuple


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
def _satisfies(requirement: str, version: str) -> bool:
    from packaging.requirements import Requirement

    return Requirement(requirement).specifier.contains(release(version))


def conflict(requirement: str | None) -> VersionConflict | None:
    """What keeps a requirement such as ``torch>=2.9,<2.14`` from being met, or ``None``.

    Versions are compared by their release segment: ``2.13.0+cpu`` is 2.13.0 and ``2.16.0.dev1`` is 2.16.0.
    """
    if requirement is None:
        return None
    from packaging.requirements import Requirement

    found = installed_version(Requirement(requirement).name)
    if found is not None and _satisfies(requirement, found):
        return None
    return VersionConflict(requirement, found)
