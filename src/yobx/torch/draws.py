"""Sizes to try an exported program with: what its user declared dynamic, moved one by one and together.

Dimensions that have the same size in the sample are partners: they may have to move together (a batch), or may not
(a broadcast), so both is tried. A size that is the sum of two others in the sample (a mask over past and new tokens)
follows them. What eager does not take, it rejects, and the program has to reject it too: a draw that makes no sense
does no harm.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple


class Dimension(NamedTuple):
    """A dimension declared dynamic.

    Attributes:
        leaf: the position of its tensor among the flattened inputs.
        axis: its position in that tensor's shape.
        size: what it is in the sample.
        name: dimensions of one name are one; ``None`` for ``Dim.DYNAMIC`` and ``Dim.AUTO``, which are independent.
        least: the smallest size declared.
        most: the largest one, ``None`` for no limit.
    """

    leaf: int
    axis: int
    size: int
    name: str | None
    least: int
    most: int | None


Draw = dict[tuple[int, int], int]


def declared(leaves: list[Any], specs: list[Any]) -> list[Dimension]:
    """The dynamic dimensions of flattened inputs, given each leaf's own dynamic shapes (a dict, a sequence or None)."""
    found = []
    for position, (leaf, spec) in enumerate(zip(leaves, specs, strict=True)):
        if not hasattr(leaf, "shape"):
            continue
        axes = spec.items() if isinstance(spec, dict) else enumerate(spec or ())
        for axis, dim in axes:
            if dim is None or isinstance(dim, int) or getattr(getattr(dim, "type", None), "name", None) == "STATIC":
                continue
            axis = axis % leaf.dim()
            name = dim if isinstance(dim, str) else getattr(dim, "__name__", None)
            least = getattr(dim, "min", None)
            most = getattr(dim, "max", None)
            most = most if isinstance(most, int) and most < 2**31 else None
            found.append(Dimension(position, axis, int(leaf.shape[axis]), name, least or 0, most))
    return found


def draws(dimensions: list[Dimension]) -> Iterator[Draw]:
    """Sizes for every dimension, the sample's first; each draw comes once."""
    seen: set[tuple[int, ...]] = set()
    for sizes in _sizes(dimensions):
        fitted = tuple(
            max(dimension.least, size if dimension.most is None else min(size, dimension.most))
            for dimension, size in zip(dimensions, sizes, strict=True)
        )
        if fitted not in seen:
            seen.add(fitted)
            yield {(d.leaf, d.axis): size for d, size in zip(dimensions, fitted, strict=True)}


def _sizes(dimensions: list[Dimension]) -> Iterator[list[int]]:
    sample = [dimension.size for dimension in dimensions]
    partners = _partners(dimensions)
    free = [group for group in partners if group not in _sums(dimensions, partners)]
    yield sample
    # All of them together: everything grows, a 1 with the rest or not; everything is 1, everything is empty.
    for grow in (lambda n: n + 1, lambda n: 2 * n + 1, lambda n: 3 * n + 2, lambda n: 1, lambda n: 0):
        grown = {group: grow(dimensions[group[0]].size) for group in free}
        yield _moved(dimensions, partners, grown)
        yield _moved(dimensions, partners, {g: n for g, n in grown.items() if dimensions[g[0]].size != 1})
    # One group of partners moves, the others stay or have grown.
    for group in free:
        size = dimensions[group[0]].size
        for value in (0, 1, size + 1, size + 3):
            yield _moved(dimensions, partners, {group: value})
            rest = {other: dimensions[other[0]].size + 2 for other in free if other != group}
            yield _moved(dimensions, partners, {**rest, group: value})
    # A single dimension leaves its partners: to 1, as a broadcast allows, or away, as little else does.
    named = _named(dimensions)
    for index in range(len(dimensions)):
        together = named[index]
        for others in (0, 2):
            base = _moved(dimensions, partners, {g: dimensions[g[0]].size + others for g in free}) if others else sample
            for value in (1, sample[index] + 3):
                yield [value if i in together else size for i, size in enumerate(base)]
                yield [
                    base[i] if i in together else (value if sample[i] == sample[index] else base[i])
                    for i in range(len(base))
                ]


def _named(dimensions: list[Dimension]) -> list[list[int]]:
    """For every dimension, the positions of those that are one with it by name."""
    return [
        [
            i
            for i, other in enumerate(dimensions)
            if other is dimension or (dimension.name and other.name == dimension.name)
        ]
        for dimension in dimensions
    ]


def _partners(dimensions: list[Dimension]) -> list[tuple[int, ...]]:
    """Positions grouped by the sample's sizes; named dimensions of different names are in different groups."""
    groups: dict[Any, list[int]] = {}
    for index, dimension in enumerate(dimensions):
        groups.setdefault((dimension.size, dimension.name), []).append(index)
    return [tuple(group) for group in groups.values()]


def _sums(
    dimensions: list[Dimension], partners: list[tuple[int, ...]]
) -> dict[tuple[int, ...], tuple[tuple[int, ...], tuple[int, ...]]]:
    """Groups whose size in the sample is the sum of two others'."""
    found: dict[tuple[int, ...], tuple[tuple[int, ...], tuple[int, ...]]] = {}
    for group in partners:
        whole = dimensions[group[0]].size
        for left, right in itertools.combinations(partners, 2):
            fits = dimensions[left[0]].size + dimensions[right[0]].size == whole
            if fits and group not in (left, right) and left not in found and right not in found:
                found[group] = (left, right)
    return found


def _moved(dimensions: list[Dimension], partners: list[tuple[int, ...]], to: dict[tuple[int, ...], int]) -> list[int]:
    """The sample's sizes with some groups moved, and the sums that depend on them."""
    sizes = {group: to.get(group, dimensions[group[0]].size) for group in partners}
    for group, (left, right) in _sums(dimensions, partners).items():
        if group not in to:
            sizes[group] = sizes[left] + sizes[right]
    result = [0] * len(dimensions)
    for group, size in sizes.items():
        for index in group:
            result[index] = size
    return result
