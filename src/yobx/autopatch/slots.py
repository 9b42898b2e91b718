"""The kinds of place where a patch can stand, and how each is found, filled and restored.

A slot knows one place: how to read the object that stands there, put another one there, and give the very object
back. A target is written ``module:path``, where the path is made of attributes and of keys in brackets:
``torch._refs:expand``, ``transformers.cache_utils:DynamicCache.update``,
``transformers.modeling_rope_utils:ROPE_INIT_FUNCTIONS[dynamic]``,
``torch._decomp:decomposition_table[torch.ops.aten.expand.default]``.
"""

from __future__ import annotations

import functools
import sys
import types

TYPE_CHECKING = False  # see yobx.autopatch
if TYPE_CHECKING:
    from typing import Protocol

    class Slot(Protocol):
        """One place where a patch can stand."""

        def key(self) -> Hashable:
            """The same for two slots of the same place."""

        def get(self) -> Any:
            """The raw object that stands there, ``MISSING`` when there is none."""

        def own(self) -> bool:
            """Whether the object is the place's own: it is written back, where an inherited one is uncovered."""

        def set(self, value: Any) -> None:
            """Put another object there."""

        def delete(self) -> None:
            """Uncover what the place inherits."""

    from collections.abc import Callable, Hashable
    from typing import Any

MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<missing>"})()


class TargetError(LookupError):
    """A target names a place that is not there, or that holds nothing that can be called."""


class AttributeSlot:
    """An attribute of a module or of a class: function, method, static or class method, property."""

    def __init__(self, owner: Any, name: str) -> None:
        self.owner = owner
        self.name = name

    def key(self) -> Hashable:
        return (id(self.owner), self.name)

    def get(self) -> Any:
        """The raw object that stands there, inherited or not; a static method as its descriptor."""
        value = self.owner.__dict__.get(self.name, MISSING)
        if value is not MISSING or not isinstance(self.owner, type):
            return value
        for scope in self.owner.__mro__:
            value = vars(scope).get(self.name, MISSING)
            if value is not MISSING:
                return value
        return MISSING

    def own(self) -> bool:
        """Whether the owner itself holds the attribute, rather than a base class."""
        return self.name in vars(self.owner)

    def set(self, value: Any) -> None:
        setattr(self.owner, self.name, value)

    def delete(self) -> None:
        delattr(self.owner, self.name)

    def __repr__(self) -> str:
        return f"{getattr(self.owner, '__qualname__', None) or self.owner.__name__}.{self.name}"


class ItemSlot:
    """An entry of a mapping: a registry by name, a table of operators.

    ``inherited`` says that the mapping finds the key in another one behind it, as ``collections.ChainMap`` does: the
    entry is then deleted, not written back, when the place is restored.
    """

    def __init__(self, mapping: Any, key: Any, inherited: bool = False) -> None:
        self.mapping = mapping
        self.item = key
        self.inherited = inherited

    def key(self) -> Hashable:
        return (id(self.mapping), "[]", self.item)

    def get(self) -> Any:
        try:
            return self.mapping[self.item]
        except KeyError:
            return MISSING

    def own(self) -> bool:
        return not self.inherited

    def set(self, value: Any) -> None:
        self.mapping[self.item] = value

    def delete(self) -> None:
        del self.mapping[self.item]

    def __repr__(self) -> str:
        return f"[{self.item}]"


class CellSlot:
    """A closure cell, where a decorator keeps the function that it decorates."""

    def __init__(self, cell: Any) -> None:
        self.cell = cell

    def key(self) -> Hashable:
        return (id(self.cell), "cell")

    def get(self) -> Any:
        try:
            return self.cell.cell_contents
        except ValueError:
            return MISSING

    def own(self) -> bool:
        return True

    def set(self, value: Any) -> None:
        self.cell.cell_contents = value

    def delete(self) -> None:
        del self.cell.cell_contents

    def __repr__(self) -> str:
        return "closure cell"


# What a class binds to its objects in the way of a function.
_BOUND = (types.FunctionType, types.MethodDescriptorType, types.WrapperDescriptorType)


def unwrap(raw: Any) -> tuple[Callable[..., Any], Callable[[Callable[..., Any]], Any]]:
    """The function inside a raw object, and how to dress another function in the same way.

    Raises:
        TargetError: when the object is none that a function can stand in for.
    """
    if isinstance(raw, staticmethod):
        return raw.__func__, staticmethod
    if isinstance(raw, classmethod):
        return raw.__func__, classmethod
    # A subclass of property does more than this one can: it is left alone.
    if type(raw) is property and raw.fget is not None:
        return raw.fget, lambda function: property(function, raw.fset, raw.fdel, raw.__doc__)
    if callable(raw) and not isinstance(raw, type):
        return raw, lambda function: function
    raise TargetError(f"{raw!r} is {'a class' if isinstance(raw, type) else 'not callable'}, a function was expected")


def unwrap_in(slot: Slot, raw: Any) -> tuple[Callable[..., Any], Callable[[Callable[..., Any]], Any]]:
    """Like :func:`unwrap`, for what a function has to do in a class to pass for what stands there.

    Something that is called without the object (a builtin), or binds to it in a way of its own (a wrapt wrapper), goes
    on doing so; what is inherited is looked up anew at every call, as Python does.

    Raises:
        TargetError: when the object is none that a function can stand in for.
    """
    function, dress = unwrap(raw)
    if not isinstance(slot, AttributeSlot) or not isinstance(slot.owner, type):
        return function, dress
    if function is raw and type(raw) not in _BOUND:
        if not hasattr(type(raw), "__get__"):
            return function, staticmethod
        function = functools.wraps(raw, updated=())(lambda self, /, *a, **k: raw.__get__(self, type(self))(*a, **k))
    return (function if slot.own() else _inherited(slot.owner, slot.name, raw, function)), dress


def _inherited(owner: type, name: str, raw: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """What a class inherits under a name, in the order of the receiver's own bases."""

    def inherited(*args: Any, **kwargs: Any) -> Any:
        if isinstance(raw, staticmethod):
            return getattr(super(owner, owner), name)(*args, **kwargs)
        receiver, *rest = args
        if isinstance(raw, property):
            return getattr(super(owner, receiver), name)
        if not isinstance(raw, classmethod) and not isinstance(receiver, owner):
            return function(*args, **kwargs)
        return getattr(super(owner, receiver), name)(*rest, **kwargs)

    return functools.wraps(function, updated=())(inherited)


def split_target(target: str) -> tuple[str, list[tuple[str, str]]]:
    """Split ``module:a.b[key]`` into the module and its steps ``("attribute", "a")``, …, ``("key", "key")``.

    Raises:
        ValueError: when the text is no target.
    """
    module, colon, path = target.partition(":")
    steps: list[tuple[str, str]] = []
    rest = f".{path}"
    while rest:
        if rest.startswith("["):
            key, bracket, rest = rest[1:].partition("]")
            steps.append(("key", key if bracket else ""))
        else:
            cut = min((i for i in (rest.find(".", 1), rest.find("[")) if i >= 0), default=len(rest))
            # Only a dot separates a name from what is before it.
            steps.append(("attribute", rest[1:cut] if rest[0] == "." and "]" not in rest[:cut] else ""))
            rest = rest[cut:]
    if not module or not colon or not all(text for _, text in steps):
        raise ValueError(
            f"{target!r} is not a target: write 'module:function', 'module:Class.method' or 'module:TABLE[key]'"
        )
    return module, steps


def _key(text: str) -> Any:
    """The key written in brackets: a dotted path of a loaded module, else the text itself."""
    root, dot, path = text.partition(".")
    value = sys.modules.get(root) if dot else None
    if value is None:
        return text
    for name in path.split("."):
        value = getattr(value, name, MISSING)
        if value is MISSING:
            raise TargetError(f"{text!r} is not there")
    return value


def find(module: Any, steps: list[tuple[str, str]]) -> Slot:
    """The slot at the end of a path that begins in a module.

    Raises:
        TargetError: names the step that is not there.
    """
    import wrapt

    owner, walked = module, getattr(module, "__name__", repr(module))
    for position, (kind, text) in enumerate(steps):
        slot: Slot = AttributeSlot(owner, text) if kind == "attribute" else ItemSlot(owner, _key(text))
        if position + 1 == len(steps):
            if slot.get() is MISSING:
                raise TargetError(f"{walked} has no {text!r}")
            return slot
        if kind == "key":
            owner = slot.get()
        else:
            try:
                _, _, owner = wrapt.resolve_path(owner, text)
            except AttributeError:
                owner = MISSING
        if owner is MISSING:
            raise TargetError(f"{walked} has no {text!r}")
        walked = f"{walked}.{text}"
    raise TargetError(f"{walked} is no place for a patch")
