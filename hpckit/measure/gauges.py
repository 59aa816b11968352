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

    `places` are where in the list of all gauges the rows of `values` belong, `most` is the greatest
    of each; what was measured nowhere in the block has no row.
    """

    def __init__(self, names: Sequence[str], columns: Mapping[str, Column | None]) -> None:
        whole: list[tuple[int, Column]] = []
        self.partial: list[tuple[int, Floats, NDArray[np.bool_]]] = []
        for place, name in enumerate(names):
            column = columns[name]
            if column is None:
                continue
            mask = _mask(column)
            if mask is ALL:
                whole.append((place, column))
            elif mask.any():
                self.partial.append((place, column.astype(np.float64), mask))
        self.places = np.array([place for place, _ in whole], np.intp)
        self.values = np.empty((len(whole), _rows(columns)))
        self.most = np.empty(len(whole))
        for row, (_, column) in enumerate(whole):
            self.values[row] = column
            self.most[row] = column.max()  # of its own numbers, which are smaller


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
            self._add(table.places, table.values, table.most, weight_us.astype(np.float64))
        for place, values, mask in table.partial:
            where = np.array([place], np.intp)
            known = values[mask][None, :]
            self._add(where, known, known.max(axis=1), weight_us[mask].astype(np.float64))

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

    def _add(
        self, places: NDArray[np.intp], values: Floats, most: Floats, weight_us: Floats
    ) -> None:
        self._sum[places] += values @ weight_us
        self._weight_us[places] += weight_us.sum()
        if not self._weight_us[places].all():
            self._plain_sum[places] += values.sum(axis=1)
            self._plain[places] += values.shape[1]
        self._most[places] = np.maximum(self._most[places], most)


def _mask(column: Column) -> Mask:
    if column.dtype.kind != "f":
        return measured_mask(column)
    missing = np.isnan(column)
    return ~missing if missing.any() else ALL


def _rows(columns: Mapping[str, Column | None]) -> int:
    return next((len(one) for one in columns.values() if one is not None), 0)
