"""Cache layers whose Python arithmetic bakes a size into the program."""

from __future__ import annotations

import inspect
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer

torch: Any = lazy("torch")


def _states(name: str, batch: int, length: int) -> dict[str, Any]:
    return {name: torch.randn(batch, 2, length, 4)}


def a_sliding_layer(past: int = 3, new: int = 2) -> Reproducer:
    """A layer with a window of 4 that takes new tokens and says what the mask must cover."""
    from transformers.cache_utils import DynamicSlidingWindowLayer

    class Sliding(torch.nn.Module):
        def forward(self, past, new):
            layer = DynamicSlidingWindowLayer(sliding_window=4)
            layer.update(past, past)
            query = torch.arange(new.shape[2]) if takes_positions else new.shape[2]
            kv_length, kv_offset = layer.get_mask_sizes(query)
            keys, _ = layer.update(new, new)
            # What the mask lets through: the same sum, whether the layer has cut the rest off or not
            positions = torch.arange(kv_length) + kv_offset
            visible = (positions > layer.get_seq_length() - 4).to(keys.dtype)
            return (keys * visible[:, None]).sum(dim=2)

    takes_positions = "cache_position" in inspect.signature(DynamicSlidingWindowLayer.get_mask_sizes).parameters
    dynamic = torch.export.Dim.DYNAMIC

    def inputs(batch, past, new):
        return _states("past", batch, past) | _states("new", batch, new)

    return Reproducer(
        Sliding(),
        inputs=inputs(2, past, new),
        dynamic_shapes=dict(past={0: dynamic, 2: dynamic}, new={0: dynamic, 2: dynamic}),
        accepts=[inputs(3, 2, 1), inputs(2, 4, 3), inputs(2, 9, 1), inputs(1, 2, 7)],
    )


@patch(
    "transformers.cache_utils:DynamicSlidingWindowLayer.update",
    family="transformers",
    name="sliding_window_update",
    versions="transformers>=5.0",
    why="cutting the keys to the window asks whether they are longer, and fixes what the sample answered",
    see="https://github.com/huggingface/transformers/pull/47900",
    obsolete="when a sliding layer decodes past its window in one graph",
    reproducer=a_sliding_layer,
    group="sliding_window",
)
def sliding_window_update(self, key_states, value_states, *args, **kwargs):
    """
    Update the key and value caches in-place, and return the necessary keys and value states.

    Args:
        key_states (`torch.Tensor`): The new key states to cache.
        value_states (`torch.Tensor`): The new value states to cache.

    Returns:
        tuple[`torch.Tensor`, `torch.Tensor`]: The key and value states.
    """
    # Lazy initialization
    if not self.is_initialized:
        self.lazy_initialization(key_states, value_states)

    self.cumulative_length += key_states.shape[-2]

    # Nothing is cut: the mask hides what has left the window, and unflattening the result cuts it
    self.keys = torch.cat([self.keys, key_states], dim=-2)
    self.values = torch.cat([self.values, value_states], dim=-2)
    return self.keys, self.values


@patch(
    "transformers.cache_utils:DynamicSlidingWindowLayer.get_mask_sizes",
    family="transformers",
    name="sliding_window_mask_sizes",
    versions="transformers>=5.0",
    why="whether the window is full is asked in Python",
    see="https://github.com/huggingface/transformers/pull/47900",
    obsolete="when a sliding layer decodes past its window in one graph",
    reproducer=a_sliding_layer,
    group="sliding_window",
)
def sliding_window_mask_sizes(self, query_length):
    """Return the length and offset of the cache, used to generate the attention mask"""
    # Right for a layer that was cut, too: what it lacks has left the window
    kept = self.keys.shape[-2] if self.is_initialized else 0
    kv_offset = self.cumulative_length - kept
    kv_length = kept + query_length
    return kv_length, kv_offset


@patch(
    "transformers.cache_utils:DynamicSlidingWindowLayer.update",
    family="transformers",
    name="sliding_window_update_v4",
    versions="transformers>=4.56,<5.0",
    why="cutting the keys to the window asks whether they are longer, and fixes what the sample answered",
    see="https://github.com/huggingface/transformers/pull/47900",
    obsolete="with transformers 5, which has a patch of its own",
    reproducer=a_sliding_layer,
    group="sliding_window",
)
def sliding_window_update_v4(self, key_states, value_states, cache_kwargs=None):
    """
    Update the key and value caches in-place, and return the necessary keys and value states.

    Args:
        key_states (`torch.Tensor`): The new key states to cache.
        value_states (`torch.Tensor`): The new value states to cache.
        cache_kwargs (`dict[str, Any]`, *optional*): Additional arguments for the cache.

    Returns:
        tuple[`torch.Tensor`, `torch.Tensor`]: The key and value states.
    """
    # Lazy initialization
    if not self.is_initialized:
        self.lazy_initialization(key_states)

    self.cumulative_length += key_states.shape[-2]

    # Nothing is cut: the mask hides what has left the window, and unflattening the result cuts it
    self.keys = torch.cat([self.keys, key_states], dim=-2)
    self.values = torch.cat([self.values, value_states], dim=-2)
    return self.keys, self.values


@patch(
    "transformers.cache_utils:DynamicSlidingWindowLayer.get_mask_sizes",
    family="transformers",
    name="sliding_window_mask_sizes_v4",
    versions="transformers>=4.56,<5.0",
    why="whether the window is full is asked in Python",
    see="https://github.com/huggingface/transformers/pull/47900",
    obsolete="with transformers 5, which has a patch of its own",
    reproducer=a_sliding_layer,
    group="sliding_window",
)
def sliding_window_mask_sizes_v4(self, cache_position):
    """Return the length and offset of the cache, used to generate the attention mask"""
    query_length = cache_position.shape[0]
    # Right for a layer that was cut, too: what it lacks has left the window
    kept = self.keys.shape[-2] if self.is_initialized else 0
    kv_offset = self.cumulative_length - kept
    kv_length = kept + query_length
    return kv_length, kv_offset
