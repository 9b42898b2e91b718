"""What the cache layers of DeepSeek-V4 hold besides a window of keys; declares no patch.

How many entries there are is their tensor's size. The states that a window passes on to the next one are missing until there
was one; a program has a place for them in any case, where a gate of minus infinity says that there is nothing.
"""

from __future__ import annotations

import weakref
from typing import Any

from yobx.helpers.lazy import lazy

torch: Any = lazy("torch")

LAYERS = frozenset(["DeepseekV4HCACache", "DeepseekV4CSACache"])
COUNTED = "entry_count"
# States with a length of their own in dimension 1.
GROWING_STATES = ("buffer_kv_", "buffer_gate_", "compressed_kv_")
# By layer, with the state that they were made for: an unchanged layer must give the same tensors again.
_nothing_yet: weakref.WeakKeyDictionary[Any, tuple[Any, dict[str, dict[str, Any]]]] = weakref.WeakKeyDictionary()


def counts(layer: Any) -> dict[str, int]:
    """How many entries a layer has of each name."""
    return {
        name: entries.shape[1] if hasattr(entries, "shape") else 0 for name, entries in layer.compressed_kv.items()
    }


def passed_on(layer: Any, attribute: str, states: Any) -> Any:
    """An attribute of a layer, the states of no window in the place of those that are missing."""
    if attribute not in ("overlap_kv", "overlap_gate") or type(layer).__name__ not in LAYERS:
        return states
    seen = layer.buffer_kv["compressor"]
    if seen is None or all(state is not None for state in states.values()):
        return states
    known = _nothing_yet.get(layer)
    if known is None or known[0] is not seen:
        known = _nothing_yet[layer] = (seen, {"overlap_kv": {}, "overlap_gate": {}})
    made = known[1][attribute]
    for name, state in states.items():
        if state is None and name not in made:
            made[name] = _of_no_window(layer, attribute, name)
    return {name: made[name] if state is None else state for name, state in states.items()}


def _of_no_window(layer: Any, attribute: str, name: str) -> Any:
    entries = layer.compressed_kv[name]
    shape = (entries.shape[0], layer.compress_rate, entries.shape[2])
    if attribute == "overlap_kv":
        return layer.buffer_kv[name].new_zeros(shape)
    # A bias that models keep in 32 bits is added to the gates.
    gate = layer.buffer_gate[name]
    return gate.new_full(shape, -torch.inf, dtype=torch.promote_types(gate.dtype, torch.float32))
