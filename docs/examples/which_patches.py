import torch
from my_model import dynamic_shapes, sample

from yobx.torch import apply_patches_for_model

model, inputs = sample()
with apply_patches_for_model(patch_torch=True) as details:
    ep = torch.export.export(model, (), kwargs=inputs, dynamic_shapes=dynamic_shapes)

print("made or shaped nodes:")
for patch, nodes in details.patches_involved_in_graph(ep.graph):
    print(f"  {patch.family}:{patch.name}: {', '.join(node.name for node in nodes)}")
print("ran at all:")
print(" ", ", ".join(f"{patch.name} ({patch.runs})" for patch in details if patch.runs))
