"""Means and extremes of a column over time, of those samples that measured it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.sample_time import Numbers
from hpckit.model.samples import MISSING

Mask = NDArray[np.bool_] | None
"""Which samples measured a column; None: all of them."""

Column = NDArray[Any]

ALL: Final = None


def measured_mask(values: Column) -> Mask:
    """Which values of a column are measured, by the number of its size that says "not"."""
    missing = MISSING[values.dtype.itemsize]
    if int(values.max()) != missing:
        return ALL
    return values != missing


def pick(values: Column, mask: Mask) -> Column:
    """The values of a mask."""
    return values if mask is ALL else values[mask]


class Gauge:
    """The time-weighted mean and the extremes of what was measured; exact in whole numbers.

    A lone sample has no time before it: without any weight the mean is that of the samples.
    """

    def __init__(self) -> None:
        self._sum = 0
        self._weight_us = 0
        self._plain_sum = 0
        self._plain = 0
        self.least: int | None = None
        self.most: int | None = None

    def add(self, values: Numbers, weight_us: Numbers) -> None:
        """More measured values, none of them missing."""
        if not len(values):
            return
        self._sum += int(np.dot(values, weight_us))
        self._weight_us += int(weight_us.sum())
        if not self._weight_us:
            self._plain_sum += int(values.sum())
            self._plain += len(values)
        least, most = int(values.min()), int(values.max())
        self.least = least if self.least is None else min(self.least, least)
        self.most = most if self.most is None else max(self.most, most)

    def mean(self, unit: float = 1.0) -> float | None:
        """The mean × `unit`, None where nothing was measured."""
        if self._weight_us:
            return self._sum / self._weight_us * unit
        return self._plain_sum / self._plain * unit if self._plain else None
