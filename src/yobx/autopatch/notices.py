"""What is said on stderr, and when a complaint becomes an error.

Nothing is printed unless asked for, except one line when something the user asked for could not be done.
"""

from __future__ import annotations

import sys


class Settings:
    """Process-wide settings, read once from the ``YOBX_*`` variables by :mod:`yobx.autopatch.startup`."""

    strict = False
    verbose = False
    report = ""


settings = Settings()
_said: set[str] = set()


class PatchError(RuntimeError):
    """A patch that was asked for cannot stand at its place; the message names both and what to do next."""


def say(message: str) -> None:
    """A line on stderr, and nowhere else: nothing is said where the program has none."""
    if sys.stderr is not None:
        print(f"yobx: {message}", file=sys.stderr, flush=True)


def complain(message: str, *, cause: BaseException | None = None) -> None:
    """Say once on stderr that something asked for could not be done.

    Raises:
        PatchError: instead of printing, when ``YOBX_PATCH_STRICT=1``.
    """
    if settings.strict:
        raise PatchError(message) from cause
    if message not in _said:
        _said.add(message)
        say(message)


def mention(message: str) -> None:
    """Say something on stderr, only under ``YOBX_PATCH_VERBOSE=1``."""
    if settings.verbose:
        say(message)
