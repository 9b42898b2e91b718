"""``yobx run``: a script under patches, and nothing else changed."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys

from yobx.autopatch import families, startup
from yobx.commands import words

TEXT = """Run a script, or -m MODULE, as python would, with patches enabled.

The interpreter starts anew with YOBX_PATCH set, so the script sees its own sys.argv and __main__, its exit code and
its tracebacks are its own, signals reach it, and processes that it starts are patched too."""


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser(
        "run",
        help="run a script, or -m MODULE, as python would, with the patches enabled",
        description=TEXT,
        epilog="Example: yobx run --report report.html export.py --model tiny",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        usage="yobx run [--patch …] [--scope …] [--report FILE|--json] [--verbose] SCRIPT|-m MODULE [args…]",
    )
    parser.add_argument(
        "--patch", default="torch,transformers", help="families or patches, as in YOBX_PATCH (default: %(default)s)"
    )
    parser.add_argument(
        "--scope", default="export", choices=["export", "always"], help="when they are active (default: %(default)s)"
    )
    endings = ", ".join(startup.REPORTS)
    parser.add_argument("--report", metavar="FILE", help=f"write a report of every export to FILE ({endings})")
    parser.add_argument(
        "--json", action="store_true", help="when the script ends, print the report as JSON on stderr, if it exported"
    )
    parser.add_argument("--verbose", action="store_true", help="say on stderr what is patched")
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)
    parser.set_defaults(call=run)


def split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Our own arguments, and the command with its arguments, which may look like ours."""
    own = 0
    while own < len(arguments) and arguments[own].startswith("-") and arguments[own] not in ("-m", "-c", "-"):
        if arguments[own] == "--":
            return arguments[:own], arguments[own + 1 :]
        takes_value = arguments[own] in ("--patch", "--scope", "--report")
        own += 2 if takes_value else 1
    return arguments[:own], arguments[own:]


def run(arguments: argparse.Namespace) -> int:
    """Start the interpreter anew; there is no return, except where a process cannot be replaced.

    Raises:
        ValueError: for a patch, or a kind of report, that is unknown.
    """
    families.Selection.parse([arguments.patch])
    if arguments.report and not arguments.report.endswith(startup.REPORTS):
        raise ValueError(f"--report {arguments.report}: the name ends with one of {', '.join(startup.REPORTS)}")
    if arguments.report and arguments.json:
        raise ValueError(f"--report {arguments.report} and --json: one of them; a FILE that ends with .json is JSON")
    if not arguments.command:
        print("yobx run: name a script, or -m and a module", file=sys.stderr)
        return words.MISUSED
    environment = dict(os.environ, YOBX_PATCH=arguments.patch, YOBX_PATCH_SCOPE=arguments.scope)
    if arguments.report or arguments.json:
        environment["YOBX_PATCH_REPORT"] = arguments.report or "-"
    if arguments.verbose:
        environment["YOBX_PATCH_VERBOSE"] = "1"
    command = [sys.executable, *arguments.command]
    if not _read_at_start(environment):
        print("yobx run: the .pth file that reads YOBX_PATCH is not active; ask `yobx check`", file=sys.stderr)
        return words.WRONG
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.platform == "win32":
        # There a replaced process is another one, which nobody waits for.
        return subprocess.call(command, env=environment)
    return os.execve(sys.executable, command, environment)


def _read_at_start(environment: dict[str, str]) -> bool:
    """Whether an interpreter with this environment reads the variable; this one has tried, when it was set for it."""
    from yobx.commands import doctor

    return doctor.pth_is_there() or bool(doctor.reads_variable(environment))
