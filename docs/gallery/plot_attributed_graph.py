"""
.. _l-plot-attributed-graph:

The graph, with what the patches touched in colours
===================================================

Every node that a replacement made, or decided for, is marked while the graph is traced. ``details.draw`` shows them. It
needs graphviz: its Python package (``pip install 'yobx[report]'``) and its programs.
"""

# %%
# A model
# -------

import matplotlib.pyplot as plt
import torch

from yobx.torch import apply_patches_for_model


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x, bias):
        scores = x @ x.transpose(1, 2) + bias
        return torch.relu(self.linear(scores.softmax(-1) @ x)).sum(-1)


ANY = torch.export.Dim.DYNAMIC
inputs = dict(x=torch.randn(1, 5, 8), bias=torch.zeros(1, 5, 5))
dynamic_shapes = dict(x={0: ANY, 1: ANY}, bias={0: ANY, 1: ANY, 2: ANY})

with apply_patches_for_model(patch_torch=True) as details:
    ep = torch.export.export(Attention(), (), kwargs=inputs, dynamic_shapes=dynamic_shapes)

# %%
# Who touched what
# ----------------

for patch, nodes in details.patches_involved_in_graph(ep.graph):
    print(f"{patch.family}:{patch.name}: {', '.join(node.name for node in nodes)}")
    print(f"    {patch.why}")

# %%
# The picture
# -----------
#
# Coloured nodes were touched, one colour a patch. A file called ``graph.svg`` would be sharp at any size.

details.draw(ep.graph, "graph.png")
picture = plt.imread("graph.png")
height, width = picture.shape[:2]
figure, axes = plt.subplots(figsize=(9, 9 * height / width))
axes.imshow(picture)
axes.set_axis_off()
figure.tight_layout()
plt.show()
