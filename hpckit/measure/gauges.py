"""Gauges of a block of samples as a table of numbers, their means and their extremes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.sample_time import Numbers
from hpckit.model.samples import MISSING

Mask = NDArray[np.bool_] | None
"""Which samples measured a column; None: all of them."""

Column = NDArray[Any]
Floats = NDArray[np.float64]

ALL: Final = None


def measured_mask(values: Column) -> Mask:
    """Which values of a column are measured, by the number of its size that says "not"."""
    missing = MISSING[values.dtype.itemsize]
    if int(values.max()) != missing:
        return ALL
    mask: NDArray[np.bool_] = values != missing
    return mask


class Table:
    """Gauges of a block, a row each: `whole` have no gap, `partial` are with the mask of theirs.

    `places` are where in the list of all gauges the rows of `values` belong; what was measured
    nowhere in the block has no row.
    """

    def __init__(self, names: Sequence[str], columns: Mapping[str, Column | None]) -> None:
        whole: list[int] = []
        self.partial: list[tuple[int, Floats, NDArray[np.bool_]]] = []
        for place, name in enumerate(names):
            column = columns[name]
            mask = _mask(column)
            if mask is ALL:
                whole.append(place)
            elif column is not None and mask.any():
                self.partial.append((place, column.astype(np.float64), mask))
        self.places = np.array(whole, np.intp)
        self.values = np.empty((len(whole), _rows(columns)))
        for row, place in enumerate(whole):
            self.values[row] = columns[names[place]]


class GaugeTable:
    """Time-weighted means and extremes of some gauges.

    A lone sample has no time before it: without any weight the mean is that of the samples.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._places = {name: place for place, name in enumerate(names)}
        count = len(names)
        self._sum, self._weight_us = np.zeros(count), np.zeros(count)
        self._plain_sum, self._plain = np.zeros(count), np.zeros(count)
        self._most = np.full(count, -np.inf)

    def add(self, table: Table, weight_us: Numbers) -> None:
        """The next block."""
        if len(table.places):
            self._add(table.places, table.values, weight_us.astype(np.float64))
        for place, values, mask in table.partial:
            where = np.array([place], np.intp)
            self._add(where, values[mask][None, :], weight_us[mask].astype(np.float64))

    def mean(self, name: str, unit: float = 1.0) -> float | None:
        """The mean × `unit`, None where nothing was measured."""
        place = self._places[name]
        if self._weight_us[place]:
            return float(self._sum[place] / self._weight_us[place] * unit)
        if self._plain[place]:
            return float(self._plain_sum[place] / self._plain[place] * unit)
        return None

    def most(self, name: str) -> float | None:
        """The greatest of what was measured."""
        most = float(self._most[self._places[name]])
        return None if most == -np.inf else most

    def _add(self, places: NDArray[np.intp], values: Floats, weight_us: Floats) -> None:
        self._sum[places] += values @ weight_us
        self._weight_us[places] += weight_us.sum()
        if not self._weight_us[places].all():
            self._plain_sum[places] += values.sum(axis=1)
            self._plain[places] += values.shape[1]
        self._most[places] = np.maximum(self._most[places], values.max(axis=1))


def _mask(column: Column | None) -> NDArray[np.bool_] | None:
    if column is None:
        return np.zeros(0, np.bool_)
    if column.dtype.kind != "f":
        return measured_mask(column)
    missing = np.isnan(column)
    return ~missing if missing.any() else ALL


def _rows(columns: Mapping[str, Column | None]) -> int:
    return next((len(one) for one in columns.values() if one is not None), 0)
