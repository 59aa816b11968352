"""The rows of a sample file by GPU, and their columns as numbers: NaN is "not measured"."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.account.sample_format import MISSING
from hpckit.account.sample_time import Numbers, Stretch
from hpckit.account.samples import GPU_DTYPE, SampleChunk
from hpckit.account.values import Curve, Throttling

BLOCK_ROWS: Final = 16384
"""Rows that are folded at once: their columns take 1 MB, as a core's own cache."""

Rows = NDArray[np.void]
Floats = NDArray[np.float64]
Times = NDArray[np.int64]


def rows_by_gpu(chunk: SampleChunk) -> Iterator[tuple[int, Times, Rows]]:
    """For each GPU with rows: its place in `chunk.meta.gpus`, times and rows in their order.

    Samplers write the GPUs in turn; then these are views, else copies.
    """
    places = np.ascontiguousarray(chunk.gpu["gpu"])
    for place, mine in _rows_of(places, len(chunk.meta.gpus)):
        yield place, chunk.gpu_ns[mine], chunk.gpu[mine]


def _rows_of(
    places: NDArray[np.uint8], gpus: int
) -> Iterator[tuple[int, slice | NDArray[np.intp]]]:
    """For each GPU with rows its place, and which rows they are: a slice where GPUs take turns."""
    turn = _turn(places, gpus)
    if turn is not None:
        for first, place in enumerate(turn.tolist()):
            yield place, slice(first, None, len(turn))
        return
    for place in np.flatnonzero(np.bincount(places, minlength=1)).tolist():
        yield place, np.flatnonzero(places == place)


def _turn(places: NDArray[np.uint8], most: int) -> NDArray[np.uint8] | None:
    """The places that repeat all through, None if there is no such order."""
    if not len(places):
        return places
    again = np.flatnonzero(places[1 : most + 1] == places[0])
    gpus = int(again[0]) + 1 if len(again) else len(places)
    turn = places[:gpus]
    if gpus > most or len(places) % gpus or len(set(turn.tolist())) < gpus:
        return None
    return turn if bool((places[gpus:] == places[:-gpus]).all()) else None


def median(values: Floats) -> float:
    """The middle of some numbers, one at least; np.median loads modules that nothing else needs."""
    low, high = (len(values) - 1) // 2, len(values) // 2
    parted = np.partition(values, (low, high))
    return float(parted[low] + parted[high]) / 2


Column = NDArray[Any]


Columns = Mapping[str, Column]

_COLUMNS: Final = tuple(
    name for name in GPU_DTYPE.names or () if name not in ("dt_us", "gpu", "mem_mhz", "reserved")
)


class RowBlocks:
    """The rows of a node's GPUs by column, a GPU's when there are enough of them.

    Blocks are the same however rows arrive. Each is valid until the next is asked for.
    """

    def __init__(self) -> None:
        self._uuids: tuple[str, ...] = ()
        self._counts: list[int] = []
        self._times = np.empty((0, BLOCK_ROWS), np.int64)
        self._columns = {name: np.empty((0, BLOCK_ROWS), GPU_DTYPE[name]) for name in _COLUMNS}

    def filled(self, chunk: SampleChunk, shift_ns: int = 0) -> Iterator[GpuBlock]:
        """Full blocks with these rows, whose clock is `shift_ns` behind."""
        gpus = chunk.meta.gpus
        turn = _turn(np.ascontiguousarray(chunk.gpu["gpu"]), len(gpus))
        uuids = tuple(gpus[place].uuid for place in ([] if turn is None else turn.tolist()))
        self._add_gpus(uuids or [gpu.uuid for gpu in gpus])
        if uuids == self._uuids and len(set(self._counts)) == 1:
            yield from self._put(slice(0, len(uuids)), chunk.gpu_ns + shift_ns, chunk.gpu)
            return
        for place, times_ns, rows in rows_by_gpu(chunk):
            slot = self._uuids.index(gpus[place].uuid)
            yield from self._put(slice(slot, slot + 1), times_ns + shift_ns, rows)

    def rest(self) -> Iterator[GpuBlock]:
        """What waits."""
        for slot in range(len(self._uuids)):
            yield from self._taken(slot)

    def _add_gpus(self, uuids: Iterable[str]) -> None:
        new = tuple(uuid for uuid in uuids if uuid not in self._uuids)
        if new:
            self._uuids += new
            self._counts += [0] * len(new)
            self._times = _with_room(self._times, len(new))
            self._columns = {name: _with_room(one, len(new)) for name, one in self._columns.items()}

    def _put(self, slots: slice, times_ns: Times, rows: Rows) -> Iterator[GpuBlock]:
        """Add rows of GPUs that take turns, of which equally many wait."""
        shape, at = (-1, slots.stop - slots.start), 0
        times, turns = times_ns.reshape(shape), rows.reshape(shape)
        while at < len(times):
            waiting = self._counts[slots.start]
            count = min(BLOCK_ROWS - waiting, len(times) - at)
            taken, free = slice(at, at + count), (slots, slice(waiting, waiting + count))
            self._times[free] = times[taken].T
            for name, column in self._columns.items():
                column[free] = turns[name][taken].T
            at += count
            for slot in range(slots.start, slots.stop):
                self._counts[slot] += count
                if self._counts[slot] == BLOCK_ROWS:
                    yield from self._taken(slot)

    def _taken(self, slot: int) -> Iterator[GpuBlock]:
        count, self._counts[slot] = self._counts[slot], 0
        if count:
            columns = {name: column[slot, :count] for name, column in self._columns.items()}
            yield self._uuids[slot], self._times[slot, :count], columns


def _with_room(columns: Column, more: int) -> Column:
    """These, and room for more: pages that are never written take no time and no memory."""
    grown = np.empty((len(columns) + more, BLOCK_ROWS), columns.dtype)
    grown[: len(columns)] = columns
    return grown


GpuBlock = tuple[str, Times, Columns]
"""Rows of a GPU (its UUID): their times, and they by column."""


Mask = NDArray[np.bool_] | None
"""Which samples measured a column; None: all of them."""

ALL: Final = None


def measured_mask(values: Column) -> Mask:
    """Which values of a column are measured, by the number of its size that says "not"."""
    missing = MISSING[values.dtype.itemsize]
    if int(values.max()) != missing:
        return ALL
    mask: NDArray[np.bool_] = values != missing
    return mask


class Block(NamedTuple):
    """Gauges that were measured in the same rows: by place in the list of all, `most` of each."""

    places: NDArray[np.intp]
    values: Floats
    most: Floats
    where: slice | NDArray[np.bool_]


class Table:
    """Gauges of some rows: those without a gap are one block, each with gaps is one of its own."""

    def __init__(self, names: Sequence[str], columns: Mapping[str, Column | None]) -> None:
        whole: list[tuple[int, Column, float]] = []
        self.blocks: list[Block] = []
        for place, name in enumerate(names):
            if (column := columns.get(name)) is None:
                continue
            most = column.max()  # of its own numbers, which are smaller
            is_float = column.dtype.kind == "f"
            if np.isnan(most) if is_float else int(most) == MISSING[column.dtype.itemsize]:
                mask = ~np.isnan(column) if is_float else column != most
                if mask.any():
                    known = column.astype(np.float64)[mask][None, :]
                    self.blocks.append(Block(np.array([place]), known, known.max(axis=1), mask))
            else:
                whole.append((place, column, float(most)))
        if whole:
            places, columns_of, mosts = zip(*whole, strict=True)
            values = np.empty((len(whole), len(columns_of[0])))
            for row, column in zip(values, columns_of, strict=True):
                row[:] = column
            self.blocks.insert(0, Block(np.array(places), values, np.array(mosts), slice(None)))


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
        """The next rows."""
        for places, values, most, where in table.blocks:
            weights_us = weight_us[where].astype(np.float64)
            self._sum[places] += np.einsum("ij,j->i", values, weights_us)  # `@` starts threads
            self._weight_us[places] += weights_us.sum()
            if not self._weight_us[places].all():
                self._plain_sum[places] += values.sum(axis=1)
                self._plain[places] += values.shape[1]
            self._most[places] = np.maximum(self._most[places], most)

    def mean(self, name: str, unit: float = 1.0) -> float | None:
        """The mean × `unit`, None where nothing was measured."""
        place = self._places[name]
        if self._weight_us[place]:
            return float(self._sum[place] / self._weight_us[place] * unit)
        if self._plain[place]:
            return float(self._plain_sum[place] / self._plain[place] * unit)
        return None

    def most(self, name: str, unit: float = 1.0) -> float | None:
        """The greatest of what was measured × `unit`."""
        most = float(self._most[self._places[name]])
        return None if most == -np.inf else most * unit


# A point is the mean of the samples in one of equal pieces of the held time, at the mean of their
# moments, with the least and the greatest of them: a spike of one sample is in the envelope.

MOST_POINTS: Final = 2000
"""As many as a screen has columns of pixels; a series then has 64 kB."""

LEAST_POINTS: Final = 100
_POINTS_OF_A_JOB: Final = 100_000


def points_for(gpus: int) -> int:
    """How many points a series should have in a report of so many GPUs, for its memory and size."""
    return max(LEAST_POINTS, min(MOST_POINTS, _POINTS_OF_A_JOB // max(1, gpus)))


class Series(NamedTuple):
    """What a curve is called, its unit, and by what the sampled numbers are multiplied for it."""

    name: str
    unit: str
    factor: float = 1.0


class CurveTable:
    """Curves of one GPU, in the order of the table's gauges: `series` are the first of them."""

    def __init__(self, series: Sequence[Series], held_us: int, pieces: int) -> None:
        self._series, self._held_us, self._pieces = tuple(series), held_us, pieces
        shape = (len(self._series), pieces)
        self._count, self._at_us, self._sum = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self._low, self._high = np.full(shape, np.inf), np.full(shape, -np.inf)

    def add(self, table: Table, at_us: Numbers) -> None:
        """The next rows, taken at these moments; what is outside the held time is not drawn."""
        for places, values, _, where in table.blocks:
            curves = int(np.searchsorted(places, len(self._series)))
            mine_us = at_us[where]
            first = int(np.searchsorted(mine_us, 0))
            end = int(np.searchsorted(mine_us, self._held_us, "right"))
            if curves and first < end:
                self._add(places[:curves], values[:curves, first:end], mine_us[first:end])

    def curves(self, origin_s: float, gap_us: int) -> tuple[Curve, ...]:
        """Those of which anything was measured, their moments from `origin_s` on."""
        made = (self._curve(place, origin_s, gap_us) for place in range(len(self._series)))
        return tuple(curve for curve in made if curve.at_s)

    def _add(self, places: NDArray[np.intp], values: Floats, at_us: Numbers) -> None:
        starts, pieces = self._starts(at_us)
        counts = np.diff(np.append(starts, len(at_us)))
        where = np.ix_(places, pieces)
        self._count[where] += counts
        self._at_us[where] += np.add.reduceat(at_us, starts)
        self._sum[where] += np.add.reduceat(values, starts, axis=1)
        low, high = (one.reduceat(values, starts, axis=1) for one in (np.minimum, np.maximum))
        self._low[where] = np.minimum(self._low[where], low)
        self._high[where] = np.maximum(self._high[where], high)

    def _starts(self, at_us: Numbers) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        scale = self._pieces / max(1, self._held_us)
        first, last = (self._piece(int(one)) for one in (at_us[0], at_us[-1]))
        borders = np.ceil(np.arange(first + 1, last + 1) / scale)
        starts = np.searchsorted(at_us, np.concatenate([at_us[:1], borders]))
        is_used = np.append(starts[1:], len(at_us)) > starts
        return starts[is_used], np.arange(first, last + 1)[is_used]

    def _piece(self, at_us: int) -> int:
        return min(self._pieces - 1, int(at_us * (self._pieces / max(1, self._held_us))))

    def _curve(self, place: int, origin_s: float, gap_us: int) -> Curve:
        there = np.flatnonzero(self._count[place])
        series, count = self._series[place], self._count[place][there]
        at_us = self._at_us[place][there] / count
        piece_us = self._held_us / self._pieces
        breaks = np.flatnonzero(np.diff(at_us) > max(gap_us, 2 * piece_us)) + 1
        between = (at_us[breaks - 1] + at_us[breaks]) / 2
        moments = np.insert(at_us, breaks, between) / 1e6 + origin_s
        means, lows, highs = self._sum[place][there] / count, self._low[place], self._high[place]
        return Curve(
            name=series.name,
            unit=series.unit,
            at_s=tuple(np.round(moments, 6).tolist()),
            values=_with_gaps(means * series.factor, breaks),
            lows=_with_gaps(lows[there] * series.factor, breaks),
            highs=_with_gaps(highs[there] * series.factor, breaks),
        )


def _with_gaps(values: NDArray[Any], breaks: NDArray[np.intp]) -> tuple[float | None, ...]:
    shown: list[float | None] = values.tolist()
    for place in reversed(breaks.tolist()):
        shown.insert(place, None)
    return tuple(shown)


SLACK_US: Final = 2_000_000
"""How late a counter may be written: growth of this much more time than has passed is believed."""

Growth = NDArray[np.int32]
"""By how much a counter grew up to each sample; -1 where that is not known."""

_SIZE: Final = 1 << 32
_HALF: Final = _SIZE // 2 - 1


class Counter:
    """The growth of a 32-bit counter between the samples that measured it.

    `most_per_s` is what it can grow in a second. A difference above that is a counter that began
    again (a driver that was loaded anew, a GPU that was reset): then what it shows counts if it
    can have grown that much since, else nothing. Of growth that reaches over an end of the held
    stretch (0 to `held_us`) the part inside counts, as if it had been even. `total` is None until
    there are two readings.
    """

    def __init__(self, most_per_s: float, held_us: int) -> None:
        self._most_per_us = most_per_s / 1e6
        self._held_us = held_us
        self._last: tuple[int, int] | None = None
        self.total: int | None = None

    def add(self, values: Column, at_us: Numbers) -> Growth | None:
        """The growth that ends at each sample; None: known at none of them."""
        mask = measured_mask(values)
        if mask is ALL:
            return self._grown(values, at_us)
        if not mask.any():
            return None
        growth = np.full(len(values), -1, np.int32)
        growth[mask] = self._grown(values[mask], at_us[mask])
        return growth

    def _grown(self, values: Column, at_us: Numbers) -> Growth:
        last, self._last = self._last, (int(values[-1]), int(at_us[-1]))
        if last is not None:
            return self._since(last, values, at_us)
        growth = np.full(len(values), -1, np.int32)
        if len(values) > 1:
            first = (int(values[0]), int(at_us[0]))
            growth[1:] = self._since(first, values[1:], at_us[1:])
        return growth

    def _since(self, last: tuple[int, int], values: Column, at_us: Numbers) -> Growth:
        growth = np.empty(len(values), np.uint32)
        growth[0] = (int(values[0]) - last[0]) % _SIZE
        np.subtract(values[1:], values[:-1], out=growth[1:])  # modulo 2^32, as they are unsigned
        peak = int(growth.max())
        leaves = last[1] < 0 or int(at_us[-1]) > self._held_us
        if peak and (peak > SLACK_US * self._most_per_us or leaves):
            growth = self._believed(growth, values, np.diff(at_us, prepend=last[1]), at_us)
            grown = int(growth.sum(dtype=np.int64))
        elif peak * len(growth) < _SIZE:
            grown = (int(values[-1]) - last[0]) % _SIZE
        else:
            grown = int(growth.sum(dtype=np.int64))
        self.total = (self.total or 0) + grown
        return growth.view(np.int32)

    def _believed(
        self, growth: NDArray[Any], values: Column, apart: Numbers, at_us: Numbers
    ) -> NDArray[Any]:
        most = np.minimum((apart + SLACK_US) * self._most_per_us, _HALF)
        again = np.where(values <= most, values, 0)
        believed = np.where(growth > most, again, growth)
        inside = np.clip(at_us, 0, self._held_us) - np.clip(at_us - apart, 0, self._held_us)
        part = inside / np.maximum(apart, 1)
        return np.where(inside == apart, believed, believed * part).astype(np.uint32)


# A file that was joined twice, or that two samplers wrote at once, repeats times; one to which an
# older part was joined has them late.

_HOST = ""


class Onward(Struct):
    """Takes a node's chunks one after the other; `left_out` counts the rows that went back."""

    last_ns: dict[str, int] = field(default_factory=dict)
    left_out: int = 0

    def of(self, chunk: SampleChunk, shift_ns: int) -> SampleChunk:
        """The chunk without rows at or before the last one of their GPU, or of the host."""
        places = np.ascontiguousarray(chunk.gpu["gpu"])
        turn = _turn(places, len(chunk.meta.gpus))
        if turn is None or not self._do_rise(chunk, turn, shift_ns):
            kept = np.ones(len(places), bool)
            for place, mine in _rows_of(places, len(chunk.meta.gpus)):
                kept[mine] = self._kept(chunk.gpu_ns[mine], chunk.meta.gpus[place].uuid, shift_ns)
            if not kept.all():
                chunk = replace(chunk, gpu_ns=chunk.gpu_ns[kept], gpu=chunk.gpu[kept])
        kept = self._kept(chunk.host_ns, _HOST, shift_ns)
        if not kept.all():
            chunk = replace(chunk, host_ns=chunk.host_ns[kept], host=chunk.host[kept])
        return chunk

    def _do_rise(self, chunk: SampleChunk, turn: NDArray[np.uint8], shift_ns: int) -> bool:
        """Whether all rows of GPUs that take turns come after those before them, as is usual."""
        if not len(turn):
            return True
        times = chunk.gpu_ns.reshape(-1, len(turn))
        uuids = [chunk.meta.gpus[place].uuid for place in turn.tolist()]
        firsts, lasts = (times[[0, -1]] + shift_ns).tolist()
        before = [self.last_ns.get(uuid, -(1 << 63)) for uuid in uuids]
        if not (all(map(operator.lt, before, firsts)) and bool((times[1:] > times[:-1]).all())):
            return False
        self.last_ns.update(zip(uuids, lasts, strict=True))
        return True

    def _kept(self, at_ns: Times, whose: str, shift_ns: int) -> NDArray[np.bool_]:
        """Which rows of one GPU, or of the host, come after all that were before them."""
        if not len(at_ns):
            return np.ones(0, bool)
        times = at_ns + shift_ns
        first, last = int(times[0]), int(times[-1])
        if first > self.last_ns.get(whose, first - 1) and bool((times[1:] > times[:-1]).all()):
            self.last_ns[whose] = last
            return np.ones(len(times), bool)
        most = np.maximum.accumulate(times)
        before = np.empty_like(most)
        before[0] = self.last_ns.get(whose, int(times[0]) - 1)
        np.maximum(most[:-1], before[0], out=before[1:])
        kept: NDArray[np.bool_] = times > before
        self.last_ns[whose] = max(int(before[0]), int(most[-1]))
        self.left_out += int(np.count_nonzero(~kept))
        return kept


MS_PER_S: Final = 1000
SW_POWER_CAP: Final = 0x4
SW_THERMAL: Final = 0x20
HW_THERMAL: Final = 0x40
HW_POWER_BRAKE: Final = 0x80
"""nvml.h, nvmlClocksEventReason*. HwSlowdown (0x8) is not among them: it is any of the last two."""

WHOLE_PCT: Final = 100.0
US_PER_MS: Final = 1000

_NONE: Final = 0xFFFF_FFFF
_CAUSES: Final = {
    "power_cap": (("sw_power_cap_ms",), SW_POWER_CAP),
    "thermal": (("sw_thermal_ms", "hw_thermal_ms"), SW_THERMAL | HW_THERMAL),
    "power_brake": (("hw_power_brake_ms",), HW_POWER_BRAKE),
}

Percents = NDArray[np.float64]
"""The share of the time before each sample, NaN where it is not known."""


class _Cause:
    """One cause: by its cumulative counters, and where a GPU has none by its bits."""

    def __init__(self, names: tuple[str, ...], bits: int, held_us: int) -> None:
        self._bits, self._held_us = bits, held_us
        self._counters = {name: Counter(MS_PER_S, held_us) for name in names}
        self._counted_ms: int | None = None
        self._bits_us: int | None = None

    def add(self, rows: Columns, stretch: Stretch, bits: Bits, *, drawn: bool) -> Percents | None:
        """If it is `drawn` its share of the time before each sample; None where nothing tells.

        Of two counters the greater growth counts: what both count is one time, not two.
        """
        grown: Growth | None = None
        for name, counter in self._counters.items():
            one = counter.add(rows[name], stretch.at_us)
            if one is not None:
                grown = one if grown is None else np.maximum(grown, one)
        on_us = bits.on_us(self._bits, stretch)
        if on_us is not None:
            self._bits_us = (self._bits_us or 0) + on_us
        if grown is None:
            return bits.percents(self._bits) if drawn else None
        return self._counted(grown, stretch, drawn=drawn)

    def seconds(self) -> float | None:
        """How long, None where neither says; counters first, as they miss nothing."""
        if self._counted_ms is not None:
            return min(self._counted_ms * US_PER_MS, self._held_us) / 1e6
        return None if self._bits_us is None else self._bits_us / 1e6

    def _counted(self, grown: Growth, stretch: Stretch, *, drawn: bool) -> Percents | None:
        least, most = int(grown.min()), int(grown.max())
        is_known = least >= 0
        if most >= 0:
            known = grown if is_known else np.maximum(grown, 0)
            grown_ms = int(known.sum(dtype=np.int64)) if most else 0
            self._counted_ms = (self._counted_ms or 0) + grown_ms
        if not drawn:
            return None
        if is_known and not most:
            return np.zeros(len(grown))
        shares = grown * (WHOLE_PCT * US_PER_MS) / np.maximum(stretch.apart_us, 1)
        np.minimum(shares, WHOLE_PCT, out=shares)
        # The bit of a moment is no share of the time before the first reading.
        return shares if is_known else np.where(grown >= 0, shares, np.nan)


class Bits:
    """The column event_reasons of a block, looked through once for all causes."""

    def __init__(self, reasons: Column) -> None:
        self._reasons = reasons
        self._told = reasons != _NONE
        self._is_told = bool(self._told.any())
        self._any = int(np.bitwise_or.reduce(reasons))

    def on_us(self, bits: int, stretch: Stretch) -> int | None:
        """For how long any of these bits was on, None where none is told."""
        if not self._is_told:
            return None
        if not self._any & bits:
            return 0
        return int(stretch.weight_us[self._on(bits)].sum())

    def percents(self, bits: int) -> Percents | None:
        """100 where one of these bits is on, else 0, NaN where it is not told."""
        if not self._is_told:
            return None
        return np.where(self._told, np.where(self._on(bits), WHOLE_PCT, 0.0), np.nan)

    def _on(self, bits: int) -> NDArray[Any]:
        on: NDArray[Any] = self._told & ((self._reasons & bits) != 0)
        return on


class ThrottlingFold:
    """The three causes of one GPU; add and seconds as in GpuUsageFold."""

    def __init__(self, held_us: int) -> None:
        self._causes = {
            name: _Cause(names, bits, held_us) for name, (names, bits) in _CAUSES.items()
        }

    def add(self, rows: Columns, stretch: Stretch, *, drawn: bool) -> dict[str, Percents | None]:
        """If it is `drawn`, `slowed` by heat or the power brake, `capped` by the power limit."""
        bits = Bits(rows["event_reasons"])
        shares = {
            name: cause.add(rows, stretch, bits, drawn=drawn)
            for name, cause in self._causes.items()
        }
        known = [one for one in (shares["thermal"], shares["power_brake"]) if one is not None]
        slowed = functools.reduce(np.fmax, known) if known else None
        return {"slowed": slowed, "capped": shares["power_cap"]}

    def throttling(self) -> Throttling:
        """Seconds by cause."""
        return Throttling(**{f"{name}_s": cause.seconds() for name, cause in self._causes.items()})
