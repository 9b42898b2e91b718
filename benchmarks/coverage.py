"""Which of transformers' architectures export, and how generally: plain, patched, with transformers' own exporter.

    python -m benchmarks.coverage --json docs/data/coverage.json
    python -m benchmarks.coverage --tenth --ways patched --against docs/data/coverage.json

Every case has a process of its own. Results are kept in a file next to the JSON, a line each: a run that was stopped
goes on where it was.
"""

from __future__ import annotations

import argparse
import collections
import concurrent.futures
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

CAUSAL = ("prefill", "decode", "batch_of_one")
OTHERS = {
    "encoder": ("bert", "roberta", "distilbert", "electra", "deberta-v2", "modernbert", "albert", "mpnet"),
    "seq2seq": ("t5", "bart", "mbart", "pegasus", "marian", "m2m_100"),
    "vision": ("vit", "deit", "swin", "dinov2", "beit", "convnext", "clip_vision_model"),
    "image": ("segformer", "convnext", "resnet"),
    "audio": ("wav2vec2", "hubert"),
    "speech": ("whisper",),
}
WAYS = {"plain": None, "patched": "torch,transformers", "exporter": None}
Case = tuple[str, str, str]


def cases(ways: list[str]) -> list[Case]:
    """Every causal language model in three scenarios, and a choice of the others."""
    from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

    pairs = [(model, scenario) for model in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES for scenario in CAUSAL]
    pairs += [(model, scenario) for scenario, models in OTHERS.items() for model in models]
    return [(model, scenario, way) for way in ways for model, scenario in pairs]


def run(way: str, pairs: list[tuple[str, str]], timeout: int) -> Iterator[dict[str, Any]]:
    """The outcome of some cases, one after another, as they come.

    Raises:
        RuntimeError: when the process that runs them ends before the last.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("YOBX_")}
    environment.update(OMP_NUM_THREADS="1", HF_HUB_OFFLINE="1")
    if WAYS[way]:
        environment["YOBX_PATCH"] = str(WAYS[way])
    command = [sys.executable, "-m", "benchmarks.coverage_case", "--timeout", str(timeout)]
    command += ["--exporter"] if way == "exporter" else []
    with tempfile.TemporaryFile("w+") as lines:
        lines.writelines(f"{model} {scenario}\n" for model, scenario in pairs)
        lines.seek(0)
        with subprocess.Popen(
            command, stdin=lines, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                if line.startswith("RESULT "):
                    yield {**json.loads(line.removeprefix("RESULT ")), "way": way}
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")


def summary(results: list[dict[str, Any]]) -> str:
    """A line per way and scenario: how many of those that run eagerly are general."""
    counts: dict[tuple[str, str], collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for result in results:
        counts[result["way"], result["scenario"]][result["stage"]] += 1
    lines = []
    for (way, scenario), stages in sorted(counts.items()):
        ran = sum(stages.values()) - stages["eager"]
        rest = ", ".join(f"{count} {stage}" for stage, count in sorted(stages.items()) if stage != "general")
        lines.append(f"{way:9} {scenario:13} {stages['general']:4} of {ran:4} general; {rest}")
    return "\n".join(lines)


def lost(results: list[dict[str, Any]], before: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results that were general in another table and are not now."""
    general = {(case["model"], case["scenario"], case["way"]) for case in before if case["stage"] == "general"}
    return [
        result
        for result in results
        if result["stage"] != "general" and (result["model"], result["scenario"], result["way"]) in general
    ]


def main() -> int:
    """Print the summary, and write the table as JSON. Exit code 1 when what was general in ``--against`` is not."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.coverage", description=__doc__)
    parser.add_argument("--ways", nargs="+", default=["plain", "patched"], choices=WAYS)
    parser.add_argument("--models", nargs="+", help="only these architectures")
    parser.add_argument("--scenarios", nargs="+", help="only these scenarios")
    parser.add_argument("--tenth", action="store_true", help="every tenth case, always the same ones")
    parser.add_argument("--json", type=Path, default=Path("coverage.json"), help="the table (default: %(default)s)")
    parser.add_argument("--against", type=Path, help="a table of an earlier run: nothing general there may be lost")
    parser.add_argument("--timeout", type=int, default=240, help="seconds for a case (default: %(default)s)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()

    wanted = [
        case
        for case in cases(options.ways)
        if (not options.models or case[0] in options.models) and (not options.scenarios or case[1] in options.scenarios)
    ][:: 10 if options.tenth else 1]
    kept = options.json.with_suffix(".jsonl")
    results = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    known = {(result["model"], result["scenario"], result["way"]) for result in results}
    missing: dict[str, list[tuple[str, str]]] = {}
    for model, scenario, way in wanted:
        if (model, scenario, way) not in known:
            missing.setdefault(way, []).append((model, scenario))
    shares = [(way, pairs[turn :: options.jobs]) for way, pairs in missing.items() for turn in range(options.jobs)]
    total = sum(len(pairs) for _, pairs in shares)
    bar = tqdm(total=total, disable=not sys.stderr.isatty())

    def work(share: tuple[str, list[tuple[str, str]]]) -> list[dict[str, Any]]:
        found = []
        for result in run(*share, options.timeout):
            file.write(json.dumps(result) + "\n")
            file.flush()
            found.append(result)
            bar.update()
        return found

    with bar, kept.open("a") as file, concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for found in pool.map(work, shares):
            results += found
    results = [result for result in results if (result["model"], result["scenario"], result["way"]) in set(wanted)]
    print(summary(results))
    import torch
    import transformers

    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    options.json.write_text(json.dumps({"schema": 1, "versions": versions, "cases": results}, indent=1))
    worse = lost(results, json.loads(options.against.read_text())["cases"]) if options.against else []
    for result in worse:
        print(f"no longer general: {result['model']} {result['scenario']} {result['way']}: {result['stage']}")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
