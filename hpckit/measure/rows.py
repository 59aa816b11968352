"""The rows of a sample file by GPU, and their columns as numbers: NaN is "not measured"."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hpckit.model.samples import MISSING
from hpckit.model.series import GPU_DTYPE, SampleChunk

BLOCK_ROWS: Final = 8192
"""Rows that are folded at once: 590 kB, which stays in a core's own cache."""

Rows = NDArray[np.void]
Floats = NDArray[np.float64]
Times = NDArray[np.int64]
_BYTES: Final = np.dtype((np.void, GPU_DTYPE.itemsize))
"""A row as bytes: rows are copied whole then, not field by field."""


def rows_by_gpu(chunk: SampleChunk) -> Iterator[tuple[int, Times, Rows]]:
    """For each GPU with rows: its place in `chunk.meta.gpus`, times and rows in their order.

    Samplers write the GPUs in turn; then these are views, else copies.
    """
    places = np.ascontiguousarray(chunk.gpu["gpu"])
    turn = _turn(places, len(chunk.meta.gpus))
    if turn is not None:
        for first, place in enumerate(turn.tolist()):
            yield place, chunk.gpu_ns[first :: len(turn)], chunk.gpu[first :: len(turn)]
        return
    for place in np.flatnonzero(np.bincount(places, minlength=1)).tolist():
        at = np.flatnonzero(places == place)
        yield place, chunk.gpu_ns[at], chunk.gpu[at]


def _turn(places: NDArray[np.uint8], most: int) -> NDArray[np.uint8] | None:
    """The places that repeat all through, None if there is no such order."""
    if not len(places):
        return places
    again = np.flatnonzero(places[1 : most + 1] == places[0])
    gpus = int(again[0]) + 1 if len(again) else len(places)
    turn = places[:gpus]
    if gpus > most or len(places) % gpus or len(set(turn.tolist())) < gpus:
        return None
    return turn if bool((places.reshape(-1, gpus) == turn).all()) else None


def measured(rows: Rows, name: str) -> Floats:
    """A column as numbers, NaN where it was not measured. Raises ValueError for no such column."""
    column = rows[name]
    values: Floats = column.astype(np.float64)
    missing = values >= float(
        MISSING[column.dtype.itemsize]
    )  # of 8 bytes: 2^64, as near as it gets
    if missing.any():
        values[missing] = np.nan
    return values


def counter_steps(rows: Rows, name: str, most: float | Floats | None = None) -> Floats:
    """By how much a counter grew from each row to the next, in its unit; one less than rows.

    Differences are taken modulo the column's size: a counter that passed its largest number grew
    as well. A step above `most` (one number, or one a step; None: half the column's range) is a
    counter that began anew, and NaN as a step from or to "not measured" is.
    """
    column = rows[name]
    bits = 8 * column.dtype.itemsize
    steps: Floats = np.subtract(column[1:], column[:-1]).astype(np.float64)
    is_missing = column == MISSING[column.dtype.itemsize]
    limit = 2.0 ** (bits - 1) if most is None else most
    steps[is_missing[1:] | is_missing[:-1] | (steps > limit)] = np.nan
    return steps


def median(values: Floats) -> float:
    """The middle of some numbers, one at least; np.median loads modules that nothing else needs."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    parted = np.partition(values, (low, high))
    return float(parted[low] + parted[high]) / 2


class RowBlock:
    """Rows that wait until there are enough: blocks are the same however the rows arrive."""

    def __init__(self) -> None:
        self._times = np.empty(BLOCK_ROWS, np.int64)
        self._rows = np.empty(BLOCK_ROWS, _BYTES)
        self._count = 0

    def filled(self, times_ns: Times, rows: Rows) -> Iterator[tuple[Times, Rows]]:
        """Full blocks, each valid until the next is asked for."""
        at, rows = 0, rows.view(_BYTES)
        while at < len(rows):
            if not self._count and len(rows) - at >= BLOCK_ROWS:
                end = at + BLOCK_ROWS
                yield times_ns[at:end], rows[at:end].view(GPU_DTYPE)
                at = end
                continue
            count = min(BLOCK_ROWS - self._count, len(rows) - at)
            self._times[self._count : self._count + count] = times_ns[at : at + count]
            self._rows[self._count : self._count + count] = rows[at : at + count]
            self._count, at = self._count + count, at + count
            if self._count == BLOCK_ROWS:
                yield from self.rest()

    def rest(self) -> Iterator[tuple[Times, Rows]]:
        """What waits, if anything does."""
        count, self._count = self._count, 0
        if count:
            yield self._times[:count], self._rows[:count].view(GPU_DTYPE)
