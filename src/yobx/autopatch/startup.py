"""The ``YOBX_*`` variables, read once at interpreter start by the ``.pth`` file, or by a ``sitecustomize``.

``YOBX_PATCH``          families, single patches, exclusions: ``torch,transformers``, ``all``, ``torch,-torch:name``
``YOBX_PATCH_SCOPE``    ``export`` (default) or ``always``
``YOBX_PATCH_VERBOSE``  ``1``: a line on stderr for every patch installed, skipped or failed
``YOBX_PATCH_STRICT``   ``1``: a bad value, a failed patch or a changed target is an error
``YOBX_PATCH_REPORT``   a ``.txt``, ``.rst``, ``.html`` or ``.json`` file to write at the end of every export
``YOBX_PATCH_MARKS``    ``0``: do not mark the nodes that patches make and shape

They are ignored under ``-I`` and ``-E``, as Python's own variables are.
"""

from __future__ import annotations

import os
import sys

from yobx.autopatch import marks, notices

REPORTS = (".txt", ".rst", ".html", ".json")
_done = False


def _flag(name: str, default: str = "0") -> bool:
    return os.environ.get(name, default) not in ("", "0")


def _report() -> str:
    """Where to write reports.

    Raises:
        ValueError: for a file of another kind.
    """
    file = os.environ.get("YOBX_PATCH_REPORT", "")
    if file and file != "-" and not file.endswith(REPORTS):
        raise ValueError(f"YOBX_PATCH_REPORT={file}: the name ends with one of {', '.join(REPORTS)}")
    # The script may change its directory before it exports.
    return file if file in ("", "-") else os.path.abspath(file)


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
    marks.settings.on = _flag("YOBX_PATCH_MARKS", "1")
    try:
        notices.settings.report = _report()
    except ValueError as error:
        if notices.settings.strict:
            notices.say(f"{error}")
            os._exit(2)
        notices.complain(f"{error}. No report is written.")
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
