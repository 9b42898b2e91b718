"""Pages that are generated when the documentation is built: the catalogue of patches, the coverage, the benchmarks.

They are written to ``docs/generated`` and are not kept.
"""

from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
OUT = HERE / "generated"
DATA = HERE / "data"
FAMILIES = {
    "torch": "Patches of torch",
    "transformers": "Patches of transformers",
}


def escaped(text: str) -> str:
    """Plain text for a reStructuredText page."""
    return re.sub(r"([*`|\\]|_(?=\W|$))", r"\\\1", text)


def title(text: str, line: str) -> list[str]:
    """A heading."""
    return [text, line * len(text), ""]


def table(head: list[str], rows: list[list[str]], classes: str = "") -> list[str]:
    """A list table."""
    lines = [".. list-table::", "    :header-rows: 1"]
    if classes:
        lines.append(f"    :class: {classes}")
    lines.append("")
    for row in [head, *rows]:
        for index, cell in enumerate(row):
            lines.append(f"    {'* -' if index == 0 else '  -'} {cell}".rstrip())
    return [*lines, ""]


def read(name: str) -> Any:
    """A file of measurements, ``None`` when it was not made."""
    path = DATA / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else None


def releases(versions: dict[str, Any]) -> str:
    """``torch 2.13.0, transformers 5.24.0``."""
    return ", ".join(f"{name} {version}" for name, version in versions.items())


# -- the catalogue


def needed_by() -> dict[str, set[str]]:
    """By patch, the architectures whose programs it shaped, where the coverage run has written that down."""
    found: dict[str, set[str]] = {}
    for run in coverage_runs():
        for case in run["cases"]:
            for patch in case.get("patches") or ():
                found.setdefault(patch, set()).add(case["model"])
    return found


def patch_section(info: Any, conflict: str, seen: set[str], users: dict[str, set[str]]) -> list[str]:
    """One patch: its facts, and its diff as ``format_diff("rst")`` gives it."""
    from yobx.helpers.sources import from_def, source_of

    lines = info.format_diff("rst").splitlines()
    head = lines.index("=" * len(f"{info.family}: {info.name}"))
    anchor = lines[:2] if info.refid not in seen else []
    seen.add(info.refid)
    # Facts stand in the list below; what remains of the section is its diff.
    diff = lines[lines.index(".. code-block:: diff") :]
    kind = {
        "effect": "done once, when the module is loaded",
        "decorator": "decorates what the original decorates",
        "around": "calls the original",
    }
    how = next((text for name, text in kind.items() if getattr(info.core, name)), "")
    architectures = sorted(users.get(info.core.full_name, ()))
    shown = ", ".join(architectures[:12]) + (f" and {len(architectures) - 12} more" if len(architectures) > 12 else "")
    facts = {
        "Switch off": f"``YOBX_PATCH=…,-{info.core.full_name}``",
        "Target": f"``{info.target}``" + (f" ({how})" if how else ""),
        "Reason": escaped(info.why),
        "Versions": f"``{info.versions}``" if info.versions else "any",
        "On this page's build": f"skipped: {conflict}" if conflict else "applies",
        "Upstream": info.see,
        "Obsolete": escaped(info.obsolete),
        "Group": escaped(info.group or ""),
        "Involved in": escaped(shown),
    }
    listed = [f":{name}: {text}" for name, text in facts.items() if text]
    source = from_def(source_of(info.patch) or [])
    if info.core.effect or "no source to show: the original has none" not in info.make_diff():
        source = []
    body = ["What runs instead:", "", ".. code-block:: python", "", *(f"    {line}".rstrip() for line in source)]
    return [*anchor, *lines[head - 1 : head + 1], "", *listed, "", *diff, "", *(body if source else []), ""]


def patch_pages() -> None:
    """One page per family."""
    from yobx.autopatch import families, versions

    users = needed_by()
    for name, heading in FAMILIES.items():
        infos = [patch.info for patch in families.get(name).load().values()]
        conflicts = {}
        for info in infos:
            conflict = versions.conflict(info.versions)
            conflicts[info] = str(conflict or "")
            if conflict is None:
                importlib.import_module(info.core.module)
        package = versions.installed(families.get(name).package or name)
        seen: set[str] = set()
        lines = [f".. _patches-{name}:", "", *title(heading, "#")]
        lines += [
            f"{len(infos)} patches. The diffs are from the functions of {package}, with which this page was built.",
            "",
        ]
        rows = [[f"`{info.name} <#{anchor_of(info)}>`__", escaped(info.why)] for info in infos]
        lines += table(["patch", "reason"], rows)
        for info in infos:
            lines += patch_section(info, conflicts[info], seen, users)
        write(f"patches_{name}.rst", lines)


def anchor_of(info: Any) -> str:
    """The anchor that docutils gives to the section's title."""
    from docutils import nodes

    return nodes.make_id(f"{info.family}: {info.name}")


# -- coverage

STAGES = {
    "general": "general",
    "narrow": "narrow",
    "export": "export fails",
    "timeout": "too slow",
    "crash": "crash",
    "eager": "eager fails",
}


def coverage_runs() -> list[dict[str, Any]]:
    """The runs of ``benchmarks/coverage.py``: each with its versions and cases."""
    found = read("coverage.json")
    if found is None:
        return []
    return found if isinstance(found, list) else [found]


def coverage_page() -> None:
    """Architectures by scenarios, plain and patched."""
    lines = [".. _l-coverage:", "", *title("Coverage", "#")]
    runs = coverage_runs()
    if not runs:
        lines += ["No measurement is kept with these pages. To make one (it takes hours)::", ""]
        lines += ["    python -m benchmarks.coverage --json docs/data/coverage.json", "", "and build the pages again."]
        write("coverage.rst", lines)
        return
    lines += [
        "Tiny random models of transformers' architectures, exported by a script that never mentions yobx: plain, with",
        "``YOBX_PATCH=torch,transformers`` (patched), and where it was measured by transformers' ``DynamoExporter``",
        "(exporter). Every program is compared with a newly built eager model on the sample and on three other sizes.",
        "",
        ":general: it takes all of them, with the same numbers.",
        ":narrow: it rejects one, or computes another result.",
        ":export fails: the export raises.",
        ":eager fails: the model itself cannot be built or run in that scenario; it is not counted.",
        "",
        "The scenarios of language models: *prefill* gives a cache, *decode* takes one and gives one, *batch_of_one*",
        "is a sample of one sentence and no cache. ``python -m benchmarks.coverage`` measures it again.",
        "",
    ]
    for run in runs:
        lines += coverage_section(run)
    write("coverage.rst", lines)


def coverage_section(run: dict[str, Any]) -> list[str]:
    """One pair of versions."""
    cases = run["cases"]
    ways = [way for way in ("plain", "patched", "exporter") if any(case["way"] == way for case in cases)]
    scenarios = list(dict.fromkeys(case["scenario"] for case in cases))
    stages = [stage for stage in STAGES if any(case["stage"] == stage for case in cases)]
    lines = title(releases(run["versions"]), "=")
    summary = []
    for scenario in scenarios:
        for way in ways:
            of = [case["stage"] for case in cases if case["scenario"] == scenario and case["way"] == way]
            ran = len(of) - of.count("eager")
            share = f"{100 * of.count('general') / ran:.0f} %" if ran else ""
            summary.append([scenario, way, *(str(of.count(stage)) for stage in stages), share])
    lines += table(["scenario", "", *(STAGES[stage] for stage in stages), "general, of those that run"], summary)
    cells: dict[str, dict[str, dict[str, str]]] = {}
    for case in cases:
        stage = STAGES.get(case["stage"], case["stage"])
        cells.setdefault(case["model"], {}).setdefault(case["scenario"], {})[case["way"]] = stage
    lines += [f"In each cell: {' / '.join(ways)}.", ""]
    body = [
        [name, *(" / ".join(by[s].get(way, "-") for way in ways) if s in by else "" for s in scenarios)]
        for name, by in sorted(cells.items())
    ]
    return [*lines, *table(["architecture", *scenarios], body, classes="coverage")]


HEADS = {"plain": "plain", "patched": "with patches"}


def measured(run: dict[str, Any]) -> list[str]:
    """Of plain and patched, what a run has measured."""
    return [way for way in HEADS if any(case["way"] == way for case in run["cases"])]


def shares(run: dict[str, Any]) -> list[list[str]]:
    """Of each scenario: how many are general, in each of the ways."""
    found = []
    for scenario in dict.fromkeys(case["scenario"] for case in run["cases"]):
        cells = []
        for way in measured(run):
            of = [case["stage"] for case in run["cases"] if (case["scenario"], case["way"]) == (scenario, way)]
            ran = len(of) - of.count("eager")
            cells.append(f"{of.count('general')} of {ran}" if ran else "")
        found.append([SAID.get(scenario, scenario), *cells])
    return found


SAID = {
    "prefill": "language models, prefill with a cache",
    "decode": "language models, decode with a cache",
    "batch_of_one": "language models, no cache, from a batch of one",
    "nocache": "language models, no cache",
}


def readme_table() -> str:
    """What README says of the coverage: nothing where nothing was measured."""
    parts = []
    for run in coverage_runs():
        lines = [
            f"Tiny models of transformers' architectures ({releases(run['versions'])}): how many of those that run"
        ]
        lines += ["export to a program that takes every size that was tried, with eager's numbers.", ""]
        rows = [["", *(HEADS[way] for way in measured(run))], ["---"] * (1 + len(measured(run))), *shares(run)]
        lines += [f"| {' | '.join(row)} |" for row in rows]
        parts.append("\n".join(lines))
    return (
        "\n\n".join(parts)
        or "Which architectures were measured, and on which versions, is said on the page *Coverage* of the docs."
    )


def update_readme(path: Path) -> None:
    """Write the table into README, between its marks."""
    text = path.read_text(encoding="utf-8")
    text = re.sub(
        r"(<!-- coverage: .*? -->\n).*?(<!-- end -->)",
        lambda found: f"{found[1]}\n{readme_table()}\n\n{found[2]}",
        text,
        flags=re.DOTALL,
    )
    path.write_text(text, encoding="utf-8")


# -- benchmarks


def benchmarks_page() -> None:
    """What the patches cost."""
    lines = [".. _l-benchmarks:", "", *title("Benchmarks", "#")]
    found = read("benchmarks.json")
    if found is None:
        lines += ["No measurement is kept with these pages. To make one::", ""]
        lines += [
            "    pip install -e '.[transformers,benchmarks]'",
            "    python -m benchmarks --json docs/data/benchmarks.json",
        ]
        lines += ["", "and build the pages again."]
        write("benchmarks.rst", lines)
        return
    lines += [
        "What the patches cost, against the same thing without them. Both are measured in turn, pair by pair; a figure",
        "is the median of the pairs, with its quartiles. A figure beyond its bar is said to miss it.",
        "",
    ]
    rows = []
    for figure in found["figures"]:
        unit = "" if figure["unit"] == "ratio" else f" {figure['unit']}"
        low, high = figure["quartiles"]
        met = "" if figure["met"] else "**missed**"
        rows.append(
            [
                escaped(figure["what"]),
                f"{figure['median']:.3f}{unit}",
                f"{low:.3f} to {high:.3f}",
                f"{figure['bar']}{unit}",
                str(len(figure["values"])),
                met,
            ]
        )
    lines += table(["what", "median", "quartiles", "bar", "pairs", ""], rows)
    for figure in found["figures"]:
        if figure.get("profile"):
            lines += [f"Where the time of *{escaped(figure['what'])}* goes::", ""]
            lines += [*(f"    {line}".rstrip() for line in figure["profile"].splitlines()), ""]
    known = {**found.get("versions", {}), **found.get("machine", {})}
    lines += ["Measured with:", ""]
    lines += [f":{name.replace('_', ' ')}: {escaped(str(value))}" for name, value in known.items()]
    lines += ["", "Again: ``python -m benchmarks --json docs/data/benchmarks.json``."]
    write("benchmarks.rst", lines)


def runtimes_table() -> None:
    """What runtimes make of exported programs; a part of the page of instructions."""
    found = read("runtimes.json")
    command = "``YOBX_PATCH=torch python runtimes.py --json ../data/runtimes.json`` in ``docs/examples``"
    if found is None:
        write("runtimes.inc", [f"Not measured here: {command} does it."])
        return
    rows = [[row["runtime"], row["version"], escaped(row["case"]), escaped(row["outcome"])] for row in found["rows"]]
    lines = table(["runtime", "version", "program", "outcome"], rows)
    lines += [f"Run with {releases(found['versions'])}, on a CPU, by {command}.", ""]
    write("runtimes.inc", lines)


def command_line() -> None:
    """The commands in one table, then the help of each."""
    import argparse
    import os

    from yobx import cli

    os.environ["COLUMNS"] = "100"
    parser = cli.parser()
    commands = next(action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    said = {choice.dest: choice.help or "" for choice in commands._choices_actions}
    rows = [[f"``yobx {name}``", escaped(said.get(name, ""))] for name in commands.choices]
    lines = table(["command", "what it does"], rows)
    if parser.epilog:
        lines += [escaped(parser.epilog), ""]
    for name, command in commands.choices.items():
        lines += title(f"yobx {name}", "-")
        lines += [
            ".. code-block:: text",
            "",
            *(f"    {line}".rstrip() for line in command.format_help().splitlines()),
            "",
        ]
    write("command_line.inc", lines)


def write(name: str, lines: list[str]) -> None:
    """Write a page unless it stands there already."""
    text = "\n".join(lines).rstrip() + "\n"
    path = OUT / name
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def generate(app: object = None) -> None:
    """Write all of them."""
    OUT.mkdir(exist_ok=True)
    patch_pages()
    coverage_page()
    benchmarks_page()
    runtimes_table()
    command_line()


def setup(app: object) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("builder-inited", generate, priority=100)  # type: ignore[attr-defined]
    return {"parallel_read_safe": True, "parallel_write_safe": True}


if __name__ == "__main__":
    if "--readme" in sys.argv:
        update_readme(HERE.parent / "README.md")
    else:
        generate()
