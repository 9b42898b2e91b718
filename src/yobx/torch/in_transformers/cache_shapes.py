"""Dynamic shapes of a cache that holds more than keys and values.

``dynamic_shapes`` of a cache is a flat list: key_0, value_0, key_1, value_1, … A cache with recurrent layers also
flattens to states that have no length, one whose layers choose what they attend to also to the keys of an indexer, as long
as the others, one of compressed windows to those and to tokens of the next. A list that leaves them out is completed: the
only dimensions of theirs that may change are the batch and these lengths.
"""

from __future__ import annotations

from typing import Any

from yobx.helpers.lazy import lazy
from yobx.helpers.patch_helper import patch
from yobx.helpers.reproducer import Reproducer
from yobx.torch.in_transformers.caches import CacheContext
from yobx.torch.in_transformers.compressed_states import GROWING_STATES

torch: Any = lazy("torch")
pytree: Any = lazy("torch.utils._pytree")


def is_key_or_value(name: str) -> bool:
    return name.removeprefix("cross_").startswith(("key_", "value_"))


def _batch(tree: Any, shapes: Any) -> Any:
    """What was said of the first dimension of the first tensor that was described; None if nothing was."""
    if isinstance(shapes, dict) and isinstance(tree, torch.Tensor):
        return shapes.get(0)
    pairs: Any = ()
    if isinstance(tree, dict) and isinstance(shapes, dict):
        pairs = [(tree[key], shapes[key]) for key in tree if key in shapes]
    elif isinstance(tree, (list, tuple)) and isinstance(shapes, (list, tuple)):
        pairs = zip(tree, shapes)
    elif isinstance(tree, torch.Tensor) and isinstance(shapes, (list, tuple)) and shapes:
        return shapes[0]
    return next(filter(None, (_batch(*pair) for pair in pairs)), None)


def complete(tree: Any, shapes: Any, batch: Any) -> Any:
    """The dynamic shapes, with those of the states of caches that they leave out."""
    if isinstance(tree, dict) and isinstance(shapes, dict):
        return {key: complete(tree[key], shape, batch) if key in tree else shape for key, shape in shapes.items()}
    if not isinstance(shapes, (list, tuple)):
        return shapes
    if tree is None and not shapes:
        # A cache that a model has not made holds no keys and values
        return None
    if isinstance(tree, (list, tuple)):
        if len(tree) != len(shapes) or hasattr(shapes, "_fields"):
            return shapes
        return type(shapes)(complete(*pair, batch) for pair in zip(tree, shapes))
    node = pytree.SUPPORTED_NODES.get(type(tree))
    if node is None:
        return shapes
    leaves, context = node.flatten_fn(tree)
    if not isinstance(context, CacheContext):
        return shapes
    if len(shapes) == len(leaves):
        return shapes
    named = [is_key_or_value(name) for name in context.names]
    # Layers without attention have an empty tensor in the place of keys in some caches of transformers 4.
    held = [mine and leaf.dim() > 2 for mine, leaf in zip(named, leaves)]
    told = next((told for told in (named, held) if len(shapes) == sum(told)), None)
    if told is None:
        return shapes
    given = iter(shapes)
    return [
        next(given) if mine else _left_out(name, leaf, shapes, batch)
        for leaf, mine, name in zip(leaves, told, context.names)
    ]


def _left_out(name: str, state: Any, shapes: Any, batch: Any) -> dict[int, Any] | None:
    """The dynamic dimensions of a state that a list of those of keys and values leaves out."""
    if not state.dim() or state.shape == (0,):
        return None
    if name.startswith("indexer_keys_") and isinstance(shapes[0], dict):
        return {0: batch, 1: shapes[0].get(2)}
    if name.startswith(GROWING_STATES) and isinstance(shapes[0], dict):
        # They grow with the past, but not in step with it: a length of their own.
        past = shapes[0].get(2)
        known = past is None or isinstance(past, int) or past == torch.export.Dim.STATIC
        automatic = past == torch.export.Dim.AUTO
        return {0: batch, 1: None if known else torch.export.Dim.AUTO if automatic else torch.export.Dim.DYNAMIC}
    return {0: batch}


def a_cache_with_recurrent_states() -> Reproducer:
    """A cache of one recurrent layer, described by the shapes of its keys and values: there are none; nor are
    there any where a model has made no cache."""
    from transformers import cache_utils

    has_layers = hasattr(cache_utils, "LinearAttentionLayer")

    class Step(torch.nn.Module):
        def forward(self, x, cache, never_made):
            return x + (cache.layers[0].update_recurrent_state(x) if has_layers else cache.get_linear_cache(0))

    def inputs(batch):
        if has_layers:
            cache = cache_utils.DynamicCache()
            cache.layers = [cache_utils.LinearAttentionLayer()]
            cache.layers[0].update_recurrent_state(torch.ones(batch, 4))
        else:
            from transformers.models.minimax.modeling_minimax import MiniMaxCache

            cache = MiniMaxCache()
            cache.set_linear_cache(0, torch.ones(batch, 4))
        return dict(x=torch.randn(batch, 4), cache=cache, never_made=None)

    return Reproducer(
        Step(),
        inputs=inputs(2),
        dynamic_shapes=dict(x={0: torch.export.Dim.DYNAMIC}, cache=[], never_made=[]),
        accepts=[inputs(3), inputs(1)],
    )


@patch(
    "torch.export.dynamic_shapes:_tree_map_with_path",
    family="transformers",
    name="shapes_of_states",
    around=True,
    versions="transformers>=4.57",
    why="a cache with recurrent layers has states besides the keys and values that dynamic_shapes describe",
    obsolete="when torch takes dynamic shapes that describe a cache in part",
    reproducer=a_cache_with_recurrent_states,
)
def shapes_of_states(original, func, tree, *dynamic_shapes, tree_name=None):
    completed = [complete(tree, shapes, _batch(tree, shapes)) for shapes in dynamic_shapes]
    return original(func, tree, *completed, tree_name=tree_name)
