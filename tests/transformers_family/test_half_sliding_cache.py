"""A cache layer that has recurrent states and slides: it counts its tokens, as the sliding one alone does."""

import pytest

pytest.importorskip("torch")
cache_utils = pytest.importorskip("transformers.cache_utils")

if not hasattr(cache_utils, "LinearAttentionAndSlidingWindowAttentionLayer"):
    pytest.skip("this transformers has no such layer", allow_module_level=True)

import torch  # noqa: E402  # after the skips

from yobx.autopatch import activate, suspend  # noqa: E402

WINDOW = 4


def cache_of(batch, past):
    layer = cache_utils.LinearAttentionAndSlidingWindowAttentionLayer(sliding_window=WINDOW)
    cache = cache_utils.DynamicCache()
    cache.layers = [layer]
    states = torch.arange(float(past)).view(1, 1, -1, 1).expand(batch, 2, -1, 4).contiguous()
    layer.update(states, states)
    return cache


class Step(torch.nn.Module):
    def forward(self, new, cache):
        length, offset = cache.layers[0].get_mask_sizes(new.shape[2])
        keys, _ = cache.layers[0].update(new, new)
        seen = torch.arange(length) + offset > cache.layers[0].get_seq_length() - WINDOW
        return (keys * seen.to(keys.dtype)[:, None]).sum(dim=2), cache


def test_a_program_takes_more_tokens_than_the_window_and_gives_their_number():
    dynamic = torch.export.Dim.DYNAMIC
    with activate("transformers", "torch"):
        program = torch.export.export(
            Step(),
            (),
            kwargs=dict(new=torch.ones(2, 2, 3, 4), cache=cache_of(2, 3)),
            dynamic_shapes=dict(new={0: dynamic, 2: dynamic}, cache=[{0: dynamic, 2: dynamic}] * 2),
        ).module()
        for batch, past, more in ((2, 3, 3), (3, 9, 1), (1, 2, 7), (2, 4, 1)):
            new = torch.randn(batch, 2, more, 4)
            with suspend():
                expected, after = Step()(new, cache_of(batch, past))
            got, cache = program(new=new, cache=cache_of(batch, past))
            torch.testing.assert_close(got, expected)
            assert cache.layers[0].get_seq_length() == past + more
            torch.testing.assert_close(cache.layers[0].keys, after.layers[0].keys)
