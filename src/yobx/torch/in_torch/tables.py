"""Where torch keeps its Python implementations of operators besides the modules that define them.

The decomposition tables, and every operator's own table of kernels, hold the functions themselves: replacing the name
in ``torch._refs`` changes nothing there. ``run_decompositions`` and fake tensors look them up in these tables.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from yobx.autopatch.slots import MISSING, ItemSlot
from yobx.helpers.patch_helper import look_through

if TYPE_CHECKING:
    from yobx.autopatch.slots import Slot


class KernelSlot:
    """An entry of an operator's table of Python kernels; what the operator remembers of it is forgotten on a change."""

    def __init__(self, operator: Any, dispatch_key: Any) -> None:
        self.operator = operator
        self.dispatch_key = dispatch_key

    def key(self) -> Hashable:
        return (id(self.operator), "kernel", self.dispatch_key)

    def get(self) -> Any:
        return self.operator.py_kernels.get(self.dispatch_key, MISSING)

    def own(self) -> bool:
        return True

    def set(self, value: Any) -> None:
        self.operator.py_kernels[self.dispatch_key] = value
        self.operator._dispatch_cache.clear()

    def delete(self) -> None:
        del self.operator.py_kernels[self.dispatch_key]
        self.operator._dispatch_cache.clear()

    def __repr__(self) -> str:
        return f"the {self.dispatch_key} kernel of {self.operator}"


def tables() -> Iterator[tuple[Any, Callable[[Any], Slot]]]:
    """The decomposition tables and the kernel tables of their operators."""
    decompositions = sys.modules.get("torch._decomp")
    for table in getattr(decompositions, "global_decomposition_table", {}).values():
        yield table, partial(ItemSlot, table)
        for operator in list(table):
            yield operator.py_kernels, partial(KernelSlot, operator)
    # Inductor keeps a copy of what it found there when it was loaded.
    copied = getattr(sys.modules.get("torch._inductor.decomposition"), "decompositions", None)
    if copied is not None:
        yield copied, partial(ItemSlot, copied)


look_through(tables)
