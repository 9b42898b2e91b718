"""Caches taken apart into tensors and put together again, so that a program can take and return them.

A ``DynamicCache`` flattens to ``key_0, value_0, key_1, value_1, …``; layers that hold other states (convolution,
recurrent, indexer) add them after their keys and values. The rest of a cache is its *context*: which kind each layer
is, with its window.

A sliding-window layer holds the last ``window - 1`` tokens and counts, in a Python integer, those that it has seen. The
flat form has no place for a number that changes from call to call, so its tensors are given the length that was seen,
zeros in front: the number is a size, which a program can take. The mask hides the zeros, and unflattening cuts them
off.
"""

from __future__ import annotations

import importlib
import json
import weakref
from typing import Any

from yobx.helpers.lazy import lazy
from yobx.torch.in_transformers.compressed_states import COUNTED, LAYERS, counts, passed_on

torch: Any = lazy("torch")
statically_known_true: Any = lazy("torch.fx.experimental.symbolic_shapes:statically_known_true")

# Attributes of a layer that follow from its tensors.
DERIVED = frozenset(
    ["device", "dtype", "batch_size", "max_batch_size", "num_heads", "k_head_dim", "v_head_dim"]
    + ["indexer_dtype", "indexer_device", COUNTED]
)
# torch.export flattens its inputs several times and knows them by identity: a layer that has not changed must give the
# same tensors again.
_padded: weakref.WeakKeyDictionary[Any, list[Any]] = weakref.WeakKeyDictionary()
GROWING = ("DynamicLayer", "DynamicSlidingWindowLayer")
# Layers with other states whose other half is a sliding one, and what of that follows from its keys.
HALF_SLIDING = LAYERS | {"LinearAttentionAndSlidingWindowAttentionLayer"}
OF_SLIDING = frozenset(["cumulative_length", "_sliding_window_tensor"])


def _path(cls: type) -> str:
    return f"{cls.__module__}:{cls.__qualname__}"


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


class CacheContext:
    """What a flattened cache is besides its tensors.

    Two contexts are equal when a program traced with one takes the other. It takes a sliding layer for one without a
    window and the reverse: both hold what was seen in the flat form, and a model masks by its configuration. So a cache
    made by ``DynamicCache()`` may stand for the one that the model makes from its configuration.
    """

    __slots__ = ("data", "names", "signature")

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        pair = [CacheContext(part) for part in data.get("pair", ())]
        self.names = list(data.get("leaves", ()))
        self.names += [prefix + name for prefix, part in zip(("", "cross_"), pair) for name in part.names]
        layers = [
            [layer["leaves"], "growing" if layer["kind"] == "growing" else layer] for layer in data.get("layers", ())
        ]
        parts = [data["class"], layers, data.get("state"), [part.signature for part in pair]]
        self.signature: str = json.dumps(parts, sort_keys=True)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CacheContext) and self.signature == other.signature

    def __hash__(self) -> int:
        return hash(self.signature)

    def __repr__(self) -> str:
        return f"{self.data['class'].partition(':')[2]}({', '.join(self.names)})"

    def dumps(self) -> str:
        return json.dumps(self.data)

    @classmethod
    def loads(cls, text: str) -> CacheContext:
        return cls(json.loads(text))


def _pack(value: Any, name: str, leaves: list[tuple[str, Any]]) -> Any:
    """The JSON form of an attribute, its tensors moved to the leaves."""
    if isinstance(value, torch.Tensor):
        leaves.append((name, value))
        return {"tensor": name}
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (list, tuple)):
        items = [_pack(item, f"{name}_{i}", leaves) for i, item in enumerate(value)]
        return {"list": items} if isinstance(value, list) else {"tuple": items}
    if isinstance(value, dict):
        return {"dict": [[key, _pack(item, f"{name}_{key}", leaves)] for key, item in value.items()]}
    if isinstance(value, torch.dtype):
        return {"dtype": str(value).rpartition(".")[2]}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if isinstance(value, torch.SymInt):
        # A counter of a layer that no patch knows: its value in the sample would be baked into the program.
        raise TypeError(
            f"{name} is a number that depends on the sizes of the inputs, a cache cannot carry it"
        )
    raise TypeError(f"{name} is a {type(value).__name__}, a cache that holds one cannot be flattened")


def _unpack(value: Any, tensors: dict[str, Any]) -> Any:
    if not isinstance(value, dict):
        return value
    ((kind, item),) = value.items()
    if kind == "tensor":
        return tensors[item]
    if kind == "dtype":
        return getattr(torch, item)
    if kind == "device":
        return torch.device(item)
    if kind == "dict":
        return {key: _unpack(entry, tensors) for key, entry in item}
    items = [_unpack(entry, tensors) for entry in item]
    return items if kind == "list" else tuple(items)


def _keys_and_values(layer: Any) -> list[Any]:
    """The keys and values of a layer; of a sliding one with zeros in front for the tokens that have left the window."""
    pair = [layer.keys, layer.values]
    if not layer.is_sliding:
        return pair
    gone = layer.cumulative_length - layer.keys.shape[-2]
    # Negative under transformers' own exporter, which lets a sliding layer grow and not count.
    if statically_known_true(gone <= 0):
        return pair
    known = _padded.get(layer)
    if known is None or known[0] is not layer.keys or known[1] is not layer.values:
        zeros = [tensor.new_zeros((*tensor.shape[:-2], gone, tensor.shape[-1])) for tensor in pair]
        known = _padded[layer] = [*pair, *(torch.cat(both, dim=-2) for both in zip(zeros, pair, strict=True))]
    return known[2:]


def _flatten_layer(layer: Any, index: int, leaves: list[tuple[str, Any]]) -> dict[str, Any]:
    """Append a layer's tensors to the leaves and describe the rest."""
    mine: list[tuple[str, Any]] = []
    name = type(layer).__name__
    if name in GROWING and type(layer).__module__ == "transformers.cache_utils":
        description: dict[str, Any] = {"kind": "growing", "class": _path(type(layer))}
        if name == "DynamicSlidingWindowLayer":
            description["window"] = layer.sliding_window
            if getattr(layer, "record_past", False):
                description["record_past"] = True
        # An initialised layer without a token may hold a tensor of one dimension, which stands for no state at all.
        if layer.keys is not None and layer.keys.dim() > 1:
            keys, values = _keys_and_values(layer)
            mine += [(f"key_{index}", keys), (f"value_{index}", values)]
    else:
        state: dict[str, Any] = {}
        pair = [getattr(layer, attribute, None) for attribute in ("keys", "values")]
        half = name in HALF_SLIDING and isinstance(pair[0], torch.Tensor) and pair[0].dim() > 1
        for attribute, prefix, tensor in zip(
            ("keys", "values"), ("key", "value"), _keys_and_values(layer) if half else pair
        ):
            if isinstance(tensor, torch.Tensor):
                state[attribute] = _pack(tensor, f"{prefix}_{index}", mine)
        # Sorted: a layer that was put together again has its attributes in another order.
        derived = sorted(set(vars(layer)) & (DERIVED | OF_SLIDING if half else DERIVED))
        for attribute, value in vars(layer).items():
            if attribute not in state and attribute not in derived:
                state[attribute] = _pack(passed_on(layer, attribute, value), f"{attribute}_{index}", mine)
        description = {"kind": "state", "class": _path(type(layer)), "state": state, "derived": derived}
    description["leaves"] = [leaf for leaf, _ in mine]
    leaves.extend(mine)
    return description


def _in_a_trace(tensor: Any) -> bool:
    """Whether a layer keeps all that it is given, as the patch of its ``update`` expects.

    The flag of torch is not up yet when the fake inputs of a trace are put together.
    """
    from torch._subclasses.fake_tensor import FakeTensor

    return torch.compiler.is_exporting() or isinstance(tensor, FakeTensor)


def _count(layer: Any) -> None:
    """Have a sliding layer count the tokens that its keys are for, and cut those to the window."""
    layer.cumulative_length = layer.keys.shape[-2]
    if hasattr(layer, "_sliding_window_tensor") or type(layer).__name__ in HALF_SLIDING:
        layer._sliding_window_tensor = torch.tensor(layer.sliding_window, dtype=torch.long, device=layer.device)
    if not getattr(layer, "record_past", False) and not _in_a_trace(layer.keys):
        layer.keys = layer.keys[:, :, -layer.sliding_window + 1 :, :]
        layer.values = layer.values[:, :, -layer.sliding_window + 1 :, :]


def _unflatten_layer(description: dict[str, Any], index: int, tensors: dict[str, Any]) -> Any:
    cls = _class(description["class"])
    if description["kind"] == "growing":
        window = description.get("window")
        layer = cls() if window is None else cls(sliding_window=window)
        if description["leaves"]:
            layer.keys, layer.values = (tensors[name] for name in description["leaves"])
            layer.is_initialized = True
            layer.dtype, layer.device = (
                getattr(layer.keys, "dtype", None),
                getattr(layer.keys, "device", None),
            )
        if window is None or not description["leaves"] or not hasattr(layer.keys, "shape"):
            return layer
        if description.get("record_past"):
            layer.record_past = True
        _count(layer)
        return layer
    layer = object.__new__(cls)
    for attribute, value in description["state"].items():
        setattr(layer, attribute, _unpack(value, tensors))
    first = next((tensors[name] for name in description["leaves"]), None)
    for attribute in description["derived"]:
        if attribute not in OF_SLIDING:
            setattr(layer, attribute, _derive(layer, attribute, first))
    if OF_SLIDING.issubset(description["derived"]) and hasattr(layer.keys, "shape"):
        _count(layer)
    return layer


def _derive(layer: Any, attribute: str, tensor: Any) -> Any:
    """An attribute that follows from the tensors of a layer, None as long as there are none."""
    if attribute == COUNTED:
        return counts(layer)
    if not hasattr(tensor, "shape"):
        return None
    if attribute.endswith("device"):
        return tensor.device
    if attribute.endswith("dtype"):
        return tensor.dtype
    if attribute in ("batch_size", "max_batch_size"):
        return tensor.shape[0]
    if attribute == "num_heads":
        return tensor.shape[1]
    return (layer.values if attribute == "v_head_dim" else layer.keys).shape[-1]


CACHE_OWN = frozenset(["layers", "layer_class_to_replicate", "offloading", "only_non_sliding", "prefetch_stream"])
CACHE_DERIVED = frozenset(["device", "dtype", "_dtype", "batch_size", "max_batch_size"])


def _flatten_named(cache: Any) -> tuple[list[tuple[str, Any]], CacheContext]:
    leaves: list[tuple[str, Any]] = []
    layers = [_flatten_layer(layer, i, leaves) for i, layer in enumerate(getattr(cache, "layers", ()))]
    state, derived = {}, []
    for attribute, value in vars(cache).items():
        if attribute in CACHE_DERIVED:
            derived.append(attribute)
        elif attribute not in CACHE_OWN:
            state[attribute] = _pack(value, attribute, leaves)
    more = getattr(cache, "layer_class_to_replicate", None)
    data: dict[str, Any] = {"class": _path(type(cache)), "layers": layers, "state": state, "derived": derived}
    if hasattr(cache, "layers"):
        data["more"] = more and _path(more)
    data["leaves"] = [name for name, _ in leaves]
    return leaves, CacheContext(data)


def _flatten_pair(cache: Any) -> tuple[list[tuple[str, Any]], CacheContext]:
    """An encoder-decoder cache: the tensors of the self-attention, then those of the cross-attention."""
    leaves, own = _flatten_named(cache.self_attention_cache)
    cross_leaves, cross = _flatten_named(cache.cross_attention_cache)
    data = {"class": _path(type(cache)), "pair": [own.data, cross.data]}
    return leaves + [(f"cross_{name}", tensor) for name, tensor in cross_leaves], CacheContext(data)


def _unflatten_pair(values: list[Any], context: CacheContext) -> Any:
    cache = object.__new__(_class(context.data["class"]))
    own, cross = (CacheContext(data) for data in context.data["pair"])
    cache.self_attention_cache = unflatten(values[: len(own.names)], own)
    cache.cross_attention_cache = unflatten(values[len(own.names) :], cross)
    # A layer of the cross-attention is filled once, from what the encoder gave.
    cache.is_updated = {i: layer.keys is not None for i, layer in enumerate(cache.cross_attention_cache.layers)}
    return cache


def _flatten_any(cache: Any) -> tuple[list[tuple[str, Any]], CacheContext]:
    return _flatten_pair(cache) if hasattr(cache, "cross_attention_cache") else _flatten_named(cache)


def flatten(cache: Any) -> tuple[list[Any], CacheContext]:
    """The tensors of a cache, and its context."""
    leaves, context = _flatten_any(cache)
    return [tensor for _, tensor in leaves], context


def flatten_with_keys(cache: Any) -> tuple[list[Any], CacheContext]:
    """As `flatten`, every tensor with its name."""
    from torch.utils._pytree import MappingKey

    leaves, context = _flatten_any(cache)
    return [(MappingKey(name), tensor) for name, tensor in leaves], context


def unflatten(values: Any, context: CacheContext) -> Any:
    """The cache that `flatten` took apart."""
    data = context.data
    if "pair" in data:
        return _unflatten_pair(list(values), context)
    tensors = dict(zip(context.names, values, strict=True))
    cache = object.__new__(_class(data["class"]))
    if "more" in data:
        cache.layers = [_unflatten_layer(layer, i, tensors) for i, layer in enumerate(data["layers"])]
        cache.layer_class_to_replicate = _class(data["more"]) if data["more"] else None
        cache.offloading = False
    for attribute, value in data["state"].items():
        setattr(cache, attribute, _unpack(value, tensors))
    for attribute in data["derived"]:
        setattr(cache, attribute, _derive(cache, attribute, next(iter(tensors.values()), None)))
    return cache
