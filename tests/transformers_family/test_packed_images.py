"""Images that are all of one size, which no argument tells; those of several sizes are the patch's reproducer."""

from __future__ import annotations

import torch
from transformers import PixtralVisionConfig, PixtralVisionModel

from yobx.torch import apply_patches_for_model


def test_images_of_pixtral_without_their_sizes():
    sizes = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=2)
    model = PixtralVisionModel(PixtralVisionConfig(image_size=16, patch_size=4, **sizes)).eval()
    dynamic = torch.export.Dim.DYNAMIC
    with apply_patches_for_model(patch_torch=True, patch_transformers=True, model=model):
        program = torch.export.export(
            model,
            (),
            dict(pixel_values=torch.randn(2, 3, 8, 16)),
            dynamic_shapes=dict(pixel_values={0: dynamic, 2: dynamic, 3: dynamic}),
            strict=False,
        ).module()
    for shape in ((2, 3, 8, 16), (1, 3, 4, 4), (3, 3, 16, 12), (2, 3, 9, 7)):
        images = torch.randn(shape)
        expected = model(pixel_values=images).last_hidden_state
        torch.testing.assert_close(program(pixel_values=images).last_hidden_state, expected, atol=1e-5, rtol=1e-4)
