"""A cache of compressed windows: a program takes what it gave, and an eager model goes on from there."""

import copy

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers.models.deepseek_v4")

import torch  # after the skips
from transformers import DynamicCache

from yobx.autopatch import activate, suspend
from yobx.torch.in_transformers.compressed import steps_that_fill_windows


def test_a_program_goes_on_from_what_it_gave_and_so_does_the_model():
    step = steps_that_fill_windows()
    model = step.model.model
    dynamic = torch.export.Dim.DYNAMIC
    shapes = dict(input_ids={0: dynamic, 1: dynamic}, cache=[{0: dynamic, 2: dynamic}] * 4)
    with activate("transformers", "torch"), torch.no_grad():
        program = torch.export.export(model, (), kwargs=copy.deepcopy(step.inputs), dynamic_shapes=shapes).module()
        tokens = (torch.arange(26).reshape(2, 13) * 7) % 13 + 1
        caches = [DynamicCache(config=model.config) for _ in range(2)]
        with suspend():
            # Before any window is full: what one passes on to the next is missing
            for cache in caches:
                model(tokens[:, :1], cache=cache, use_cache=True)
        for first, last in ((1, 2), (2, 5), (5, 6), (6, 10)):
            output = program(input_ids=tokens[:, first:last], cache=cache)
            cache = output.cache
            with suspend():
                expected = model(tokens[:, first:last], cache=caches[0], use_cache=True).last_hidden_state
            torch.testing.assert_close(output.last_hidden_state, expected, atol=1e-4, rtol=1e-4)
            assert cache.get_seq_length() == last
            assert cache.layers[0].entry_count == dict(compressor=last // 2, indexer=last // 2)
            assert cache.layers[1].entry_count == dict(compressor=last // 4)
        with suspend():
            expected, got = (model(tokens[:, 10:], cache=each, use_cache=True) for each in (caches[0], cache))
    torch.testing.assert_close(got.last_hidden_state, expected.last_hidden_state, atol=1e-4, rtol=1e-4)
