"""What the sample happens to be, besides its sizes, does not show in the program."""

from __future__ import annotations

import pytest
import torch

from yobx.torch import apply_patches_for_model

ANY = torch.export.Dim.DYNAMIC


class Project(torch.nn.Module):
    def forward(self, x):
        return x @ torch.ones(3, 2)


SAMPLES = {
    "a slice of one": torch.randn(4, 7, 3)[:, 6:],
    "a slice of several": torch.randn(4, 7, 3)[:, 2:5],
    "transposed": torch.randn(7, 4, 3).transpose(0, 1),
    "expanded": torch.randn(4, 1, 3).expand(4, 5, 3),
}


@pytest.mark.parametrize("sample", SAMPLES.values(), ids=SAMPLES)
@pytest.mark.parametrize("strict", [False, True], ids=["non-strict", "strict"])
def test_sample_with_strides_of_its_own_gives_no_guard_on_them(sample, strict):
    with apply_patches_for_model(patch_torch=True):
        program = torch.export.export(Project(), (sample,), dynamic_shapes=({0: ANY, 1: ANY},), strict=strict).module()
    for shape in [(4, 1, 3), (2, 9, 3), (1, 1, 3), (5, 7, 3)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), Project()(x))
    sliced = torch.randn(3, 9, 3)[:, 4:]
    torch.testing.assert_close(program(sliced), Project()(sliced))


class WholeWindows(torch.nn.Module):
    def forward(self, x):
        windows = x.shape[1] // 8
        summed = x.narrow(1, 0, windows * 8).unflatten(1, (windows, 8)).sum(2)
        return -summed.unsqueeze(1)[..., 1::2]


def test_sample_of_no_whole_window_is_right_for_several():
    with apply_patches_for_model(patch_torch=True):
        program = torch.export.export(
            WholeWindows(), (torch.randn(2, 5, 4),), dynamic_shapes=({0: ANY, 1: ANY},)
        ).module()
    for shape in [(2, 5, 4), (1, 8, 4), (3, 25, 4)]:
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), WholeWindows()(x))
