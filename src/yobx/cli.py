"""The ``yobx`` command: run a script with patches, and show what they are and what they did."""

from __future__ import annotations

import argparse
import os
import sys
from typing import TYPE_CHECKING

from yobx import __version__
from yobx.commands import doctor, listing, report, run, words

if TYPE_CHECKING:
    from collections.abc import Sequence

TEXT = """Patches that make torch.export produce programs as general as the eager model.

Start with `yobx run your_script.py`: it runs your script as python would, with the patches active inside every
torch.export.export. `yobx list` says what they are, `yobx check` whether they fit what you have installed."""


def parser() -> argparse.ArgumentParser:
    """The command's arguments."""
    top = argparse.ArgumentParser(
        prog="yobx", description=TEXT, epilog=words.EXIT_CODES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    top.add_argument("--version", action="version", version=f"yobx {__version__}")
    commands = top.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for command in (run, listing, doctor, report):
        command.add(commands)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; 0 when all is well, 1 when something is wrong, 2 for words it does not know."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    command: list[str] = []
    if given[:1] == ["run"]:
        # What follows the script is the script's, whatever it looks like.
        own, command = run.split(given[1:])
        given = ["run", *own]
    parsed = parser().parse_args(given)
    if command:
        parsed.command = command
    try:
        return int(parsed.call(parsed))
    except ValueError as error:
        print(f"yobx: {error}", file=sys.stderr)
        return words.MISUSED
    except ModuleNotFoundError as error:
        if error.name not in ("packaging", "wrapt", "torch"):
            raise
        print(f"yobx: {error}; install yobx with what it depends on: pip install yobx", file=sys.stderr)
        return words.WRONG
    except BrokenPipeError:
        # Whoever read the output has seen enough, as `head` has.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return words.WELL
    except KeyboardInterrupt:
        return 130
