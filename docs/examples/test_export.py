import pytest
import torch

from yobx import autopatch
from yobx.torch import apply_patches_for_model, verify


@pytest.fixture
def patches():
    with apply_patches_for_model(patch_torch=True) as details:
        yield details


def test_batch_of_one(patches):
    model, x = torch.nn.Linear(4, 2), torch.randn(1, 4)
    shapes = ({0: torch.export.Dim.DYNAMIC},)
    ep = torch.export.export(model, (x,), dynamic_shapes=shapes)
    verify(ep, model, (x,), dynamic_shapes=shapes).raise_if_narrow()


def test_no_patch_is_left():
    assert not autopatch.is_active()
