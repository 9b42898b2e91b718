"""Cache layers whose Python arithmetic bakes a size into the program."""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch

torch: Any = lazy("torch")


@patch(
    "transformers.cache_utils:DynamicLayer.lazy_initialization",
    family="transformers",
    versions="transformers>=5.0",
    why="a first token is concatenated to a tensor of one dimension, a form of torch.cat that other runtimes reject",
    obsolete="when lazy_initialization of transformers makes a tensor of four dimensions",
    reproducer=None,
)
def lazy_initialization(self, key_states, value_states):
    self.device = key_states.device
    self.keys = key_states.new_empty((*key_states.shape[:-2], 0, key_states.shape[-1]))
    self.values = value_states.new_empty((*value_states.shape[:-2], 0, value_states.shape[-1]))
    self.is_initialized = True


@patch(
    "transformers.cache_utils:DynamicLayer.get_seq_length",
    family="transformers",
    versions="transformers>=4.56",
    why="asking whether the keys have any element demands that the past be at least one token long",
    obsolete="when get_seq_length of transformers is the size alone",
    reproducer=None,
)
def get_seq_length(self):
    """Returns the sequence length of the cached states."""
    if not self.is_initialized or self.keys.dim() == 1:
        return 0
    return self.keys.shape[-2]


@patch(
    "transformers.cache_utils:DynamicSlidingWindowLayer.update",
    family="transformers",
    name="sliding_window_update",
    versions="transformers>=4.56",
    why="cutting the keys to the window compares a symbolic length with it, and the counter is a constant of the program",
    see="https://github.com/huggingface/transformers/pull/47900",
    obsolete="when a sliding layer decodes past its window in one graph, see huggingface/transformers#49542",
    reproducer=None,
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
    obsolete="when a sliding layer decodes past its window in one graph, see huggingface/transformers#49542",
    reproducer=None,
    group="sliding_window",
)
def sliding_window_mask_sizes(self, query_length):
    """Return the length and offset of the cache, used to generate the attention mask"""
    # Right for a layer that was cut, too: what it lacks has left the window
    kept = self.keys.shape[-2] if self.is_initialized else 0
    kv_offset = self.cumulative_length - kept
    kv_length = kept + query_length
    return kv_length, kv_offset
