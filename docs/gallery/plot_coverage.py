"""
.. _l-plot-coverage:

The coverage table as a picture
===============================

``python -m benchmarks.coverage`` exports transformers' architectures in several scenarios, plain and with patches, and
keeps what became of each. :ref:`l-coverage` has the whole table.
"""

# %%
# The measurements
# ----------------

import collections
import json
import os
from pathlib import Path

import matplotlib.pyplot as plt

data = Path(os.path.abspath("")).parent / "data" / "coverage.json"
runs = json.loads(data.read_text()) if data.exists() else []
runs = runs if isinstance(runs, list) else [runs]
for run in runs:
    print(", ".join(f"{name} {version}" for name, version in run["versions"].items()))
if not runs:
    print("there is no measurement beside these pages")

# %%
# How many are general
# --------------------
#
# An architecture that cannot be built or run in a scenario is not counted.

COLOURS = {"general": "#2da44e", "narrow": "#d4a72c", "export": "#cf222e", "timeout": "#8c959f", "crash": "#57606a"}
for run in runs:
    counts = collections.defaultdict(collections.Counter)
    for case in run["cases"]:
        counts[case["scenario"], case["way"]][case["stage"]] += 1
    for (scenario, way), stages in counts.items():
        ran = sum(stages.values()) - stages["eager"]
        print(f"{scenario:14} {way:9} {stages['general']:4} of {ran:4} general")

# %%
# The picture
# -----------
#
# One bar per scenario and way.

figure, axes = plt.subplots(max(1, len(runs)), 1, figsize=(9, 6 * max(1, len(runs))), squeeze=False)
for axis, run in zip(axes[:, 0], runs):
    counts = collections.defaultdict(collections.Counter)
    for case in run["cases"]:
        counts[case["scenario"], case["way"]][case["stage"]] += 1
    bars = sorted(counts, reverse=True)
    left = [0] * len(bars)
    for stage, colour in COLOURS.items():
        values = [counts[bar][stage] for bar in bars]
        if any(values):
            label = {"export": "export fails", "timeout": "too slow"}.get(stage, stage)
            axis.barh([f"{scenario}, {way}" for scenario, way in bars], values, left=left, color=colour, label=label)
        left = [a + b for a, b in zip(left, values)]
    axis.set_title(", ".join(f"{name} {version}" for name, version in run["versions"].items()), fontsize=10)
    axis.set_xlabel("architectures")
    axis.legend(loc="lower right")
if not runs:
    axes[0, 0].set_axis_off()
    axes[0, 0].text(
        0.5, 0.5, "python -m benchmarks.coverage\n--json docs/data/coverage.json", ha="center", family="monospace"
    )
figure.tight_layout()
plt.show()
