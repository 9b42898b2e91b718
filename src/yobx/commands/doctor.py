"""``yobx check``: what is installed, whether patches are switched on by the environment, and whether each one fits."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import platform
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from yobx import __version__
from yobx.autopatch import control, imports, notices, patches, versions
from yobx.commands import words

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yobx.helpers.patch_helper import PatchInfo

TEXT = """Look for what keeps patches from working here: versions, the .pth file that reads YOBX_PATCH, other
installations of yobx, and for every patch whether its target is there, fits, is what the patch was written for, and
is nobody else's."""

PTH = "yobx_autopatch.pth"

OK, NOTE, PROBLEM = "ok", "note", "problem"


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at.

    Attributes:
        check: what was looked for.
        subject: where: a package, a file, a patch.
        status: ``ok``, ``note`` (worth knowing) or ``problem`` (something does not work).
        message: what was found, and what to do about it.
        details: lines that show it, such as a diff.
    """

    check: str
    subject: str
    status: str
    message: str
    details: tuple[str, ...] = field(default=())


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "check",
        help="a doctor: what is installed, and whether every patch fits it",
        description=TEXT,
        epilog=words.EXIT_CODES + " A note is no problem.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="families or patches; default: all")
    parser.add_argument(
        "--needed",
        action="store_true",
        help="run every patch's reproducer with and without it: which are needed, superfluous, of no help any more",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--verbose", action="store_true", help="print also what is well")
    parser.set_defaults(call=check)


def check(arguments: argparse.Namespace) -> int:
    """Print what was found; 1 when there is a problem."""
    infos = words.chosen(arguments.names)
    if arguments.needed:
        from yobx.commands import needed

        findings = needed.findings(infos)
    else:
        findings = look(infos)
    paint = words.Paint()
    colours = {OK: "green", NOTE: "yellow", PROBLEM: "red"}
    found = []
    for finding in findings:
        found.append(finding)
        shown = finding.status != OK or finding.check in ("version", "needed") or arguments.verbose
        if arguments.json or not shown:
            continue
        status = paint(f"{finding.status:<8}", colours[finding.status])
        print(f"{status} {finding.subject}: {finding.message}", flush=True)
        for line in words.diff_lines(paint, finding.details):
            print(f"         {line}")
    counts = {status: sum(one.status == status for one in found) for status in (OK, NOTE, PROBLEM)}
    if arguments.json:
        words.print_json({"schema": "yobx.check/1", "counts": counts, "findings": [asdict(one) for one in found]})
    else:
        print(f"{counts[OK]} well, {counts[NOTE]} to note, {counts[PROBLEM]} wrong")
    return words.WRONG if counts[PROBLEM] else words.WELL


def look(infos: list[PatchInfo]) -> Iterator[Finding]:
    """Everything that can be looked at without running a model."""
    yield from environment()
    yield from switched_on()
    yield from namesakes()
    if not all(map(imports.installed, ("wrapt", "packaging"))):
        yield Finding("target", "patches", PROBLEM, "not looked at: install what yobx depends on (pip install yobx)")
        return
    loadable: dict[str, str] = {}
    fitting = []
    for info in infos:
        finding = _fit(info, loadable)
        yield finding
        if finding.status == OK and finding.check == "target":
            fitting.append(info)
    from yobx.commands import originals, others

    known = originals.Known.read()
    statuses = {"known": OK, "sourceless": OK, "edited": PROBLEM}
    for info in fitting:
        verdict = originals.compare(info, known)
        yield Finding("source", info.core.full_name, statuses.get(verdict.kind, NOTE), verdict.message, verdict.diff)
    yield from others.wrapped(fitting)
    yield from others.captured(fitting)


def environment() -> Iterator[Finding]:
    """The versions of Python and of the packages that matter."""
    yield Finding("version", "python", OK, f"{platform.python_version()} on {platform.platform()}")
    yield Finding("version", "yobx", OK, f"{__version__} in {Path(__file__).parents[1]}")
    for package, needed in (("torch", True), ("transformers", False), ("wrapt", True), ("packaging", True)):
        version = versions.installed_version(package)
        if version is None or not imports.installed(package):
            message = "not installed: there is nothing to patch" if package == "torch" else "not installed"
            yield Finding("version", package, PROBLEM if needed else NOTE, message)
        else:
            yield Finding("version", package, OK, version)


def pth_files() -> list[Path]:
    """Our ``.pth`` file, wherever Python reads such files."""
    import site

    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    found = {os.path.realpath(folder): Path(folder) / PTH for folder in folders}
    return [path for path in found.values() if path.is_file()]


def pth_is_there() -> bool:
    """Whether the file is there and holds the line that it should."""
    return any("yobx.autopatch.startup" in path.read_text(encoding="utf-8", errors="replace") for path in pth_files())


def reads_variable(environment: dict[str, str] | None = None) -> str:
    """What a new interpreter says of ``YOBX_PATCH``: empty when it does not read it; its error when it fails to."""
    code = "import sys; print('yobx.autopatch.startup' in sys.modules)"
    variables = {**(environment or os.environ), "YOBX_PATCH": "torch"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=variables)
    return "yes" if done.stdout.strip() == "True" else ""


def switched_on() -> Iterator[Finding]:
    """Whether ``YOBX_PATCH`` is read at interpreter start."""
    files = pth_files()
    reads = reads_variable()
    if reads and files:
        yield Finding("start", str(files[0]), OK, "active: YOBX_PATCH is read when Python starts")
    elif reads:
        yield Finding("start", PTH, OK, "YOBX_PATCH is read when Python starts, by a sitecustomize")
    elif files:
        text = files[0].read_text(encoding="utf-8", errors="replace").splitlines()
        message = "does not work: it is broken, or yobx cannot be imported when it runs; install yobx again"
        yield Finding("start", str(files[0]), PROBLEM, message, tuple(text[:5]))
    else:
        message = "not found where Python reads such files: YOBX_PATCH does nothing"
        yield Finding("start", PTH, PROBLEM, f"{message}; install yobx with pip, or use the sitecustomize")
    if sys.flags.ignore_environment:
        yield Finding("start", "python -E", NOTE, "YOBX_PATCH is ignored, as Python's own variables are")


def namesakes() -> Iterator[Finding]:
    """Other distributions that install a package of our name."""
    from importlib import metadata

    own = os.path.realpath(Path(__file__).parents[1])
    names = sorted({name for name in metadata.packages_distributions().get("yobx", []) if name != "yobx"})
    for name in names:
        message = f"{name} {metadata.version(name)} installs a package called yobx too: one hides the other"
        yield Finding("namesake", name, PROBLEM, f"{message}; uninstall one")
    for folder in sys.path:
        place = os.path.join(folder or os.curdir, "yobx")
        if os.path.isfile(os.path.join(place, "__init__.py")) and os.path.realpath(place) != own:
            yield Finding("namesake", place, PROBLEM, f"another package called yobx; the one that runs is {own}")
    if not names:
        yield Finding("namesake", "yobx", OK, "no other distribution installs a package called yobx")


def _fit(info: PatchInfo, loadable: dict[str, str]) -> Finding:
    """Whether a patch can stand at its places."""
    name = info.core.full_name
    package = info.core.module.partition(".")[0]
    conflict = versions.conflict(info.versions)
    if not imports.installed(package):
        return Finding("skipped", name, OK, f"{package} is not installed")
    if conflict is not None:
        return Finding("skipped", name, OK, f"{conflict}")
    if info.core.module not in loadable:
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                importlib.import_module(info.core.module)
            loadable[info.core.module] = ""
        except ModuleNotFoundError as error:
            if info.core.effect and info.core.module.startswith(f"{error.name}"):
                return Finding("skipped", name, OK, f"{versions.installed(info.core.module)} has no {info.core.module}")
            loadable[info.core.module] = f"{error}"
        except BaseException as error:
            loadable[info.core.module] = f"{type(error).__name__}: {error}"
    if loadable[info.core.module]:
        return Finding("target", name, PROBLEM, f"{info.core.module} cannot be imported: {loadable[info.core.module]}")
    strict, notices.settings.strict = notices.settings.strict, False
    try:
        with contextlib.redirect_stderr(io.StringIO()), control.Scope(lambda: [info.core]):
            state, reason = info.state, info.reason
    finally:
        notices.settings.strict = strict
    if state != patches.INSTALLED:
        message = f"{info.target} ({versions.installed(info.core.module)}): {state}: {reason}"
        return Finding("target", name, PROBLEM, f"{message}; switch it off with YOBX_PATCH=…,-{name}")
    return Finding("target", name, OK, f"{info.target}: {reason}")
