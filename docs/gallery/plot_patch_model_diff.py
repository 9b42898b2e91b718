"""
.. _l-plot-patch-model-diff:

Apply patches to a model and show the diff
==========================================

A tiny Llama, exported from a batch of one, with a cache. Which patches ran, which of them touched the graph, and
what one of them changes.
"""

# %%
# The model
# ---------

import matplotlib.pyplot as plt
import torch
import transformers

from yobx.torch import apply_patches_for_model, use_dyn_not_str
from yobx.torch.tiny_models import get_tiny_model

transformers.logging.set_verbosity_error()
model, inputs, dynamic_shapes = get_tiny_model("llama", "prefill", batch=1)
dynamic_shapes = use_dyn_not_str(dynamic_shapes)
print({name: tuple(value.shape) for name, value in inputs.items()})

# %%
# Without patches
# ---------------

try:
    torch.export.export(model, (), kwargs=inputs, dynamic_shapes=dynamic_shapes)
except Exception as error:
    print(type(error).__name__, "|", str(error).splitlines()[0][:160])

# %%
# With patches
# ------------

with apply_patches_for_model(patch_torch=True, patch_transformers=True, model=model) as details:
    ep = torch.export.export(model, (), kwargs=inputs, dynamic_shapes=dynamic_shapes)

for patch in details:
    if patch.runs:
        print(f"{patch.family}:{patch.name} ran {patch.runs} times")

# %%
# Which of them touched the graph
# -------------------------------
#
# A patch that ran may have done what the original would have done. Only one that made a node, or decided for it, is
# involved.

involved = details.patches_involved_in_graph(ep.graph)
for patch, nodes in involved:
    print(f"{patch.family}:{patch.name}: {len(nodes)} nodes, such as {nodes[0].name}")

# %%
# What one of them changes
# ------------------------

patch = details.find("broadcast_in_dim")
diff = patch.format_diff("raw")
print(diff)

# %%
# The same in colours
# -------------------

COLOURS = {"+": "#1a7f37", "-": "#cf222e", "@": "#8250df"}
lines = diff.splitlines()[:48]
figure, axes = plt.subplots(figsize=(11, 0.19 * len(lines) + 0.4))
axes.set_axis_off()
axes.set_title(f"{patch.family}:{patch.name}, {patch.target}", fontsize=10, loc="left")
for row, line in enumerate(lines):
    colour = COLOURS.get(line[:1], "#57606a")
    axes.text(0, -row, line[:120], family="monospace", fontsize=8, color=colour, va="top")
axes.set_ylim(-len(lines), 0.5)
figure.tight_layout()
plt.show()
