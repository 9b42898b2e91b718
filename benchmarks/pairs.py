"""Measuring two things alternately, so that what else the machine does falls on both."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

Sample = Callable[[], float]


@dataclass
class Figure:
    """What was measured of one thing, against plain.

    Attributes:
        what: in words.
        unit: ``ratio``, or the unit of a difference: ``ms``, ``ns``, ``MB``.
        bar: the largest value that is good.
        values: one per pair: the ratio of both sides, or their difference.
        plain, patched: the samples of each side, in seconds (bytes for ``MB``).
        profile: where the time goes, of a figure that misses its bar.
    """

    what: str
    unit: str
    bar: float
    values: list[float] = field(default_factory=list)
    plain: list[float] = field(default_factory=list)
    patched: list[float] = field(default_factory=list)
    profile: str = ""

    def explained(self, profile: Callable[[], str]) -> Figure:
        """The same; with a profile when the bar is missed."""
        if not self.met:
            self.profile = profile()
        return self

    @property
    def median(self) -> float:
        """The median of the pairs."""
        return statistics.median(self.values)

    @property
    def spread(self) -> tuple[float, float]:
        """The first and third quartile of the pairs."""
        low, _, high = statistics.quantiles(self.values, n=4)
        return low, high

    @property
    def met(self) -> bool:
        """Whether the bar is met."""
        return self.median <= self.bar


SCALE = {"ms": 1e3, "ns": 1e9, "MB": 1 / 2**20}


def paired(what: str, unit: str, bar: float, plain: Sample, patched: Sample, pairs: int) -> Figure:
    """Take both samples ``pairs`` times, each first in turn, after one of each that does not count."""
    figure = Figure(what, unit, bar)
    plain(), patched()
    for turn in range(pairs):
        if turn % 2:
            right, left = patched(), plain()
        else:
            left, right = plain(), patched()
        figure.plain.append(left)
        figure.patched.append(right)
        figure.values.append(right / left if unit == "ratio" else (right - left) * SCALE[unit])
    return figure


def absolute(what: str, unit: str, bar: float, sample: Sample, count: int) -> Figure:
    """Something that plain Python has no counterpart of: its own time."""
    return paired(what, unit, bar, lambda: 0.0, sample, count)
