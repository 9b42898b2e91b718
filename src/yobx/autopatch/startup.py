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

    scope = os.environ.get("YOBX_PATCH_SCOPE") or "export"
    try:
        autopatch.enable(wanted, scope=scope)
    except Exception as error:
        # A family of another package may raise anything while it is read.
        kind = "" if isinstance(error, (ValueError, notices.PatchError)) else f"{type(error).__name__}: "
        variable = f"YOBX_PATCH={wanted}" if scope in autopatch.SCOPES else f"YOBX_PATCH_SCOPE={scope}"
        message = f"{variable}: {kind}{error}"
        if notices.settings.strict:
            # An exception in a .pth line is printed and passed over: only an exit stops the interpreter.
            notices.say(message)
            os._exit(2)
        notices.complain(f"{message}. Nothing is patched.")
