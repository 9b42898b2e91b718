"""The ``YOBX_*`` variables, read once at interpreter start by the ``.pth`` file, or by a ``sitecustomize``.

``YOBX_PATCH``          families, single patches, exclusions: ``torch,transformers``, ``all``, ``torch,-torch:name``
``YOBX_PATCH_SCOPE``    ``export`` (default) or ``always``
``YOBX_PATCH_VERBOSE``  ``1``: a line on stderr for every patch installed, skipped or failed
``YOBX_PATCH_STRICT``   ``1``: a bad value, a failed patch or a changed target is an error

They are ignored under ``-I`` and ``-E``, as Python's own variables are.
"""

from __future__ import annotations

import os
import sys

from yobx.autopatch import notices

_done = False


def _flag(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


def main() -> None:
    """Enable what ``YOBX_PATCH`` asks for. Called twice, it does nothing the second time.

    Raises:
        SystemExit: under ``YOBX_PATCH_STRICT=1``, when a variable has a bad value.
    """
    global _done
    wanted = os.environ.get("YOBX_PATCH", "")
    if _done or not wanted or sys.flags.ignore_environment:
        return
    _done = True
    notices.settings.verbose = _flag("YOBX_PATCH_VERBOSE")
    notices.settings.strict = _flag("YOBX_PATCH_STRICT")
    from yobx import autopatch

    try:
        autopatch.enable(wanted, scope=os.environ.get("YOBX_PATCH_SCOPE") or "export")
    except ValueError as error:
        message = f"YOBX_PATCH={wanted}: {error}"
        if notices.settings.strict:
            # An exception in a .pth line is printed and passed over: only an exit stops the interpreter.
            print(f"yobx: {message}", file=sys.stderr)
            sys.stderr.flush()
            os._exit(2)
        notices.complain(f"{message}. Nothing is patched.")
