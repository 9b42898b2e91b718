"""Run every benchmark, print one table, write JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from importlib import metadata
from pathlib import Path

import pyperf

from benchmarks.pairs import Figure

PARTS = ("calls", "models", "processes")


def table(figures: list[Figure]) -> str:
    """One row per figure: the median of the pairs, its quartiles, the bar."""
    rows = [("what", "median", "quartiles", "bar", "")]
    for figure in figures:
        unit = "" if figure.unit == "ratio" else f" {figure.unit}"
        low, high = figure.spread
        verdict = "" if figure.met else "MISSED"
        rows.append(
            (figure.what, f"{figure.median:.3f}{unit}", f"{low:.3f} to {high:.3f}", f"{figure.bar}{unit}", verdict)
        )
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)


def as_json(figures: list[Figure]) -> dict[str, object]:
    """The figures with their samples, and what pyperf knows of the machine and of Python."""
    known = pyperf.Run([1.0], collect_metadata=True).get_metadata()
    kept = ("python_version", "python_implementation", "cpu_count", "cpu_model_name", "platform")
    return {
        "schema": 1,
        "versions": {name: metadata.version(name) for name in ("torch", "transformers")},
        "machine": {name: known[name] for name in kept if name in known},
        "figures": [
            {**vars(figure), "median": figure.median, "quartiles": figure.spread, "met": figure.met}
            for figure in figures
        ],
    }


def main() -> int:
    """Exit code 1 when a bar is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", help=f"which to run: {', '.join(PARTS)} (default: all)")
    parser.add_argument("--json", type=Path, help="where to write the figures")
    options = parser.parse_args()
    figures: list[Figure] = []
    for part in options.parts or PARTS:
        for figure in importlib.import_module(f"benchmarks.{part}").figures():
            print(table([figure]).splitlines()[1], file=sys.stderr, flush=True)
            figures.append(figure)
    print(table(figures))
    for figure in figures:
        if figure.profile:
            print(f"\n{figure.what} misses its bar:\n{figure.profile}")
    if options.json:
        options.json.write_text(json.dumps(as_json(figures), indent=1))
    return 0 if all(figure.met for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
