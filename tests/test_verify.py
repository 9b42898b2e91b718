"""``yobx.torch.verify`` tells a general program from a narrow one, and a narrow one from a wrong one."""

from __future__ import annotations

import pytest
import torch

from yobx.torch import apply_patches_for_model, use_dyn_not_str, verify
from yobx.torch.tiny_models import TinyBroadcastAddModel
from yobx.torch.verification import NarrowProgramError

ANY = torch.export.Dim.DYNAMIC


class Add(torch.nn.Module):
    def forward(self, x, y):
        return x + y


def export(model, kwargs, dynamic_shapes):
    return torch.export.export(model, (), kwargs=kwargs, dynamic_shapes=dynamic_shapes)


def test_plain_broadcast_is_reported_as_narrow_with_its_guard():
    kwargs = {"x": torch.randn(3, 4), "y": torch.randn(3, 4)}
    shapes = {"x": {0: ANY, 1: ANY}, "y": {0: ANY, 1: ANY}}
    report = verify(export(Add(), kwargs, shapes), Add(), (), kwargs, shapes)
    assert not report.ok
    rejected = [trial for trial in report.trials if trial.outcome == "rejected"]
    assert any("y.size()[0] == x.size()[0]" in trial.why for trial in rejected)
    with pytest.raises(NarrowProgramError, match="NOT general"):
        report.raise_if_narrow()


def test_patched_broadcast_is_general_and_fails_where_eager_fails():
    model, kwargs = TinyBroadcastAddModel(), TinyBroadcastAddModel._export_inputs()
    shapes = use_dyn_not_str(TinyBroadcastAddModel._dynamic_shapes())
    with apply_patches_for_model(patch_torch=True):
        program = export(model, kwargs, shapes)
    report = verify(program, model, (), kwargs, shapes)
    assert report.ok, str(report)
    assert {trial.outcome for trial in report.trials} == {"equal", "both fail"}
    report.raise_if_narrow()


def test_program_of_another_model_is_reported_as_different():
    class Sub(torch.nn.Module):
        def forward(self, x, y):
            return x - y

    args, shapes = (torch.randn(3, 4), torch.randn(3, 4)), ({0: ANY}, {0: ANY})
    program = torch.export.export(Add(), args, dynamic_shapes=shapes)
    report = verify(program, Sub(), args, None, shapes)
    assert not report.ok
    assert "differs by" in str(report)


def test_program_that_takes_what_eager_rejects_is_reported():
    class First(torch.nn.Module):
        def forward(self, x, y):
            return x * 2

    kwargs, shapes = {"x": torch.randn(3, 4), "y": torch.randn(3, 4)}, {"x": {0: ANY}, "y": {0: ANY}}
    report = verify(export(First(), kwargs, shapes), Add(), (), kwargs, shapes)
    assert "accepted" in {trial.outcome for trial in report.trials}
    assert not report.ok


def test_declared_ranges_and_tied_names_are_kept_to():
    batch = torch.export.Dim("batch", min=2, max=6)
    kwargs = {"x": torch.randn(3, 4), "y": torch.randn(3, 4)}
    shapes = {"x": {0: batch}, "y": {0: batch}}
    report = verify(export(Add(), kwargs, shapes), Add(), (), kwargs, shapes)
    assert report.ok, str(report)
    assert {trial.shapes for trial in report.trials} >= {"x (2, 4), y (2, 4)", "x (6, 4), y (6, 4)"}


def test_shapes_of_an_input_that_is_not_there_are_refused():
    kwargs, shapes = {"x": torch.randn(3, 4), "y": torch.randn(3, 4)}, {"x": {0: ANY}, "y": {0: ANY}}
    program = export(Add(), kwargs, shapes)
    with pytest.raises(ValueError, match="'z'"):
        verify(program, Add(), (), kwargs, {"z": {0: ANY}})


def test_decode_step_with_a_cache():
    from transformers import GPT2Config, GPT2LMHeadModel

    from yobx import autopatch

    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=64, n_positions=64)).eval()
    with autopatch.activate(), torch.no_grad():
        cache = model(input_ids=torch.randint(3, 60, (2, 5))).past_key_values
        kwargs = {
            "input_ids": torch.randint(3, 60, (2, 3)),
            "attention_mask": torch.ones(2, 8, dtype=torch.long),
            "past_key_values": cache,
        }
        both = {0: ANY, 1: ANY}
        shapes = {"input_ids": both, "attention_mask": both, "past_key_values": [{0: ANY, 2: ANY}] * 4}
        program = export(model, kwargs, shapes)
    report = verify(program, model, (), kwargs, shapes)
    assert report.ok, str(report)
    # A longer past with its mask, found as the sum of past and new tokens, runs: it is not only rejected by both.
    assert sum(trial.outcome == "equal" for trial in report.trials) >= 8, str(report)
