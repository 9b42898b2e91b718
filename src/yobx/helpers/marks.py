"""What a replacement says of itself while a graph is traced, so that reports can tell what it did."""

from __future__ import annotations

from yobx.autopatch import marks
from yobx.autopatch.marks import decided, passing

__all__ = ["decided", "passing", "switch"]


def switch(on: bool) -> bool:
    """Mark the nodes that patches make and shape, or do not; gives what it was. ``YOBX_PATCH_MARKS=0`` is the same."""
    before, marks.settings.on = marks.settings.on, on
    return before
