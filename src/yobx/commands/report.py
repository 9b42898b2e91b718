"""``yobx report``: which patches touched a saved program."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import sys
import warnings
from pathlib import Path
from typing import Any

from yobx.commands import words

TEXT = "Which patches emitted or shaped nodes of a program that torch.export.save wrote. They need not be enabled."


def add(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Describe the command."""
    parser = commands.add_parser("report", help=TEXT, description=TEXT, epilog=words.EXIT_CODES)
    parser.add_argument("file", metavar="FILE.pt2", help="the saved program")
    formats = ["raw", "rst", "html", "json"]
    parser.add_argument("--format", choices=formats, help="default: raw, or what --output ends with")
    parser.add_argument("--json", action="store_true", help="the same as --format json")
    parser.add_argument("-o", "--output", metavar="FILE", help="write there instead of printing")
    parser.set_defaults(call=report)


def report(arguments: argparse.Namespace) -> int:
    """Load the program, and tell."""
    file = Path(arguments.file)
    if not file.is_file():
        print(f"yobx report: there is no file {file}", file=sys.stderr)
        return words.WRONG
    try:
        program = load(file)
    except ModuleNotFoundError as error:
        print(f"yobx report: {error}: a saved program is read by the package that wrote it", file=sys.stderr)
        return words.WRONG
    except Exception as error:
        print(f"yobx report: {file} is no program that can be loaded here: {error}", file=sys.stderr)
        return words.WRONG
    from yobx.attribution import data
    from yobx.attribution.involved import involved
    from yobx.attribution.report import text_of
    from yobx.attribution.written import SUFFIXES

    output = Path(arguments.output) if arguments.output else None
    format = "json" if arguments.json else arguments.format or SUFFIXES.get(output.suffix if output else "", "raw")
    found = involved((), program.graph)
    for info, _ in found:
        # A diff is made from what is installed here.
        with contextlib.suppress(ImportError):
            importlib.import_module(info.core.module)
    told = data.report([data.program(found, program.graph, file.name)], [info for info, _ in found])
    text = text_of(told, format)
    if output is None:
        print(text)
    else:
        output.write_text(text, encoding="utf-8")
    return words.WELL


def load(file: Path) -> Any:
    """The program; transformers' caches are made known when it needs them."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return torch.export.load(file)
        except Exception:
            from yobx.autopatch import imports

            if not imports.installed("transformers"):
                raise
            from yobx.torch import register_caches

            register_caches()
            return torch.export.load(file)
