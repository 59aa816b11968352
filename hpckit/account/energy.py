"""The energy of one GPU over any time between marks: from its counter, else from its power.

Method and sources: accounting.md §3.1 and §3.2. The energy at each mark is a number, so that
energies of times that follow one another add up exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.account.counter import (
    Clockwork,
    Knots,
    Readings,
    clockwork_of,
    clockwork_seen,
    knots_of,
    power_knots,
    without_glitches,
)
from hpckit.account.energy_sums import GpuEnergy
from hpckit.account.ledger import EnergyReading
from hpckit.account.power import COLUMNS, MOST_W, Cells, Frame, PowerCurve, sensor_of
from hpckit.account.rows import (
    ALL,
    BLOCK_ROWS,
    Column,
    Columns,
    Floats,
    Times,
    measured_mask,
    median,
)
from hpckit.account.samples import SampledGpu
from hpckit.account.values import GPUS_ALONE, SPLIT_GPU, Cost, Energy, Share
from hpckit.core.quantities import J_PER_KWH
from hpckit.spec.energy_site import EnergySite

_MOST_MW: Final = int(1000 * MOST_W)
_MOST_ROWS: Final = 1 << 20
"""So many rows of a counter that stands still are kept, before power stands in for it."""
_LIMIT_SLACK: Final = 1.2
_POWER_OVER_S: Final = 10.0
_USUAL_LIMIT_W: Final = 700.0
"""Assumed for the ± where there are no samples, and so no limit is known."""
_ENOUGH_ROWS: Final = 8
_SOME_STEPS: Final = 1000
_CELL: Final = 2
"""A cell has two knots."""
_LEDGER_DTYPE = np.dtype([("ns", "<i8"), ("mj", "<f8"), ("update", "?")])


class GpuEnergyFold:
    """Takes the rows of one GPU, chunk after chunk, and tells its energy at `marks_ns`.

    `readings` are those of ledgers, `updates` the moments at which ranks saw the counter change;
    all times are of CLOCK_MONOTONIC of one boot, those of rows rise. `period_s` is the sampler's.
    Memory does not grow with the rows.
    """

    def __init__(
        self,
        gpu: SampledGpu,
        readings: Sequence[EnergyReading],
        marks_ns: Sequence[int],
        *,
        updates: Sequence[EnergyReading] = (),
        period_s: float | None = None,
    ) -> None:
        self._gpu, self._period_s = gpu, period_s
        is_bound = gpu.power_limit_w is not None and gpu.scope == "gpu"
        self._most_w = _LIMIT_SLACK * (gpu.power_limit_w or 0) if is_bound else MOST_W
        self._marks_ns: Times = np.array(sorted(set(marks_ns)), np.int64)
        self._ledger = _ledger(readings, updates)
        firsts = [*self._marks_ns[:1].tolist(), *self._ledger["ns"][:1].tolist()]
        self._origin_ns: int | None = min(firsts) if firsts else None
        self._columns = np.zeros((len(COLUMNS), len(self._marks_ns)))
        self._edges_j2 = np.zeros(len(self._marks_ns))
        self._base = np.zeros(len(COLUMNS))
        self._marks_done = 0
        self._readings: list[Readings] = []
        self._power: list[tuple[Floats, Floats]] = []
        self._rows_kept = 0
        self._carry: Knots | None = None
        self._clockwork: Clockwork | None = None
        self._is_carry_read = False
        self._due_rows = BLOCK_ROWS
        self._period_now_s = period_s or 1.0
        self._sensor = sensor_of(gpu)
        self._told = Readings(
            self._seconds(self._ledger["ns"]), self._ledger["mj"] / 1000, self._ledger["update"]
        )
        self._counts: Counter[str] = Counter()

    def add(self, times_ns: Times, rows: Columns) -> None:
        """Take the rows that follow, by column."""
        if not len(times_ns):
            return
        self._counts["rows"] += len(times_ns)
        if self._origin_ns is None:
            self._origin_ns = int(times_ns[0])
        at_s = self._seconds(times_ns)
        if self._gpu.power is not None:
            self._add_power(at_s, rows["power_mw"])
        energy_mj = rows["energy_mj"]
        mask = measured_mask(energy_mj)
        where = slice(0) if self._gpu.energy is None else slice(None) if mask is ALL else mask
        self._add_readings(at_s[where], energy_mj[where] / 1000, until_ns=int(times_ns[-1]))
        self._rows_kept += len(times_ns)
        if self._rows_kept >= self._due_rows:
            self._settle(is_last=False)

    def result(self) -> GpuEnergy:
        """The energy at all marks; nothing is to be added after it."""
        if self._origin_ns is not None:
            nothing = np.zeros(0)
            self._add_readings(nothing, nothing, until_ns=None)
            self._settle(is_last=True)
        return GpuEnergy(
            uuid=self._gpu.uuid,
            scope=SPLIT_GPU if self._gpu.mig and self._gpu.scope == "gpu" else self._gpu.scope,
            marks_ns=self._marks_ns,
            columns=self._columns,
            edge_variance_j2=self._edges_j2,
            counts=self._counts,
            most_w=self._most_w,
            is_split=self._gpu.mig,
        )

    def _seconds(self, times_ns: Times) -> Floats:
        seconds: Floats = (times_ns - (self._origin_ns or 0)) / 1e9
        return seconds

    def _add_power(self, at_s: Floats, power_mw: Column) -> None:
        is_power = power_mw <= _MOST_MW
        if is_power.any():
            where = slice(None) if is_power.all() else is_power
            self._power.append((at_s[where], power_mw[where] / 1000))

    def _add_readings(self, at_s: Floats, energy_j: Floats, *, until_ns: int | None) -> None:
        """Take readings of the counter, and those of the ledger up to the last of them."""
        mine = self._ledger if until_ns is None else self._ledger[self._ledger["ns"] <= until_ns]
        self._ledger = self._ledger[len(mine) :]
        is_update = np.zeros(len(at_s), np.bool_)
        if len(mine):
            at_s = np.concatenate((at_s, self._seconds(mine["ns"])))
            energy_j = np.concatenate((energy_j, mine["mj"] / 1000))
            is_update = np.concatenate((is_update, mine["update"]))
            order = np.argsort(at_s, kind="stable")
            at_s, energy_j, is_update = at_s[order], energy_j[order], is_update[order]
        if len(at_s):
            self._readings.append(Readings(at_s, energy_j, is_update))

    def _settle(self, *, is_last: bool) -> None:
        """Work through what was gathered, up to the last moment that nothing later can change."""
        readings = without_glitches(Readings.joined(self._readings), self._most_w)
        curve = self._curve()
        if not is_last and self._is_plain(readings, curve):
            here = len(readings.at_s)
            end = here if curve is None else int(np.searchsorted(readings.at_s, curve.last_s))
            readings = readings.at(np.concatenate(([0], np.arange(max(1, end - 2), here))))
        knots = self._knots(readings)
        if not is_last:
            knots = self._closed(knots, curve)
        elif curve is not None and not len(knots.at_s):
            knots = power_knots(curve.at_s[:1])
        if len(knots.at_s):
            self._take(Cells(knots, curve, self._frame(readings)), is_last=is_last)
        if not is_last:
            self._forget(knots, readings)

    def _is_plain(self, readings: Readings, curve: PowerCurve | None) -> bool:
        """Whether the ends alone tell all: no mark between, and every cell is surely good."""
        at_s, energy_j, carry = *readings[:2], self._carry
        if carry is None or not self._is_carry_read or len(at_s) < _ENOUGH_ROWS:
            return False
        marks_s = self._seconds(self._marks_ns[self._marks_done :][:1])
        has_mark = len(marks_s) and marks_s[0] <= at_s[-1]
        if has_mark or not (curve is None or curve.covers(float(carry.at_s[0]), float(at_s[-1]))):
            return False
        steps_j, least_s = np.diff(energy_j), float(np.diff(at_s).min())
        return steps_j.min() > 0 and float(steps_j.max()) <= self._most_w * least_s

    def _frame(self, readings: Readings) -> Frame:
        clockwork = self._clockwork or Clockwork()
        last_s = float(readings.at_s[-1]) if len(readings.at_s) else None
        limit_w = self._gpu.power_limit_w or _USUAL_LIMIT_W
        return Frame(self._most_w, limit_w, clockwork.period_s, self._period_now_s, last_s)

    def _curve(self) -> PowerCurve | None:
        if not self._power:
            return None
        if len(self._power) > 1:
            columns = zip(*self._power, strict=True)
            at_s, power_w = (np.concatenate(column) for column in columns)
            self._power = [(at_s, power_w)]
        at_s, power_w = self._power[0]
        if self._period_s is None or len(at_s) >= _ENOUGH_ROWS:
            self._period_now_s = _usual_step(at_s) or 1.0
        limit_w = self._gpu.power_limit_w or 2 * float(power_w.max())
        return PowerCurve(at_s, power_w, self._sensor, period_s=self._period_now_s, limit_w=limit_w)

    def _knots(self, readings: Readings) -> Knots:
        if self._clockwork is None and len(readings.at_s):
            self._clockwork = self._first_clockwork(readings)
        carry = self._carry
        if not len(readings.at_s):
            return carry or power_knots(np.zeros(0))
        knots = knots_of(readings, self._clockwork or Clockwork())
        if carry is None:
            return knots
        begin = 1 if self._is_carry_read else 0
        is_new = knots.at_s[begin:] > carry.at_s[0]
        first = begin + int(is_new.argmax()) if len(is_new) else begin
        if is_new[first - begin :].all():
            return carry.then(knots.at(slice(first, None)))  # views, where a mask copies
        return carry.then(knots.at(slice(begin, None)).at(is_new))

    def _first_clockwork(self, readings: Readings) -> Clockwork:
        """As ranks' entries saw it; where that is not clear, as samples show it."""
        seen = clockwork_seen(readings.at(~np.isin(readings.at_s, self._told.at_s)))
        told = clockwork_of(without_glitches(self._told, self._most_w))
        if told.sigma_s or seen is None:
            return told
        return replace(told, period_s=seen.period_s)

    def _closed(self, knots: Knots, curve: PowerCurve | None) -> Knots:
        """The knots up to the last that lies within the power, too; none where there is no cell."""
        count = len(knots.at_s)
        if curve is not None and not self._is_power_over(curve):
            count = int(np.searchsorted(knots.at_s, curve.last_s, side="right"))
        has_counter = bool(self._readings)
        if count >= _CELL or (has_counter and self._rows_kept < _MOST_ROWS):
            return knots.at(slice(count if count >= _CELL else 0))
        if curve is None:
            return power_knots(np.zeros(0))
        self._counts["frozen"] += int(count == 1 and not np.isnan(knots.energy_j[0]))
        begin = knots if count else power_knots(curve.at_s[:1])
        end = power_knots(np.array([curve.last_s]))
        if curve.last_s <= begin.at_s[0]:
            return power_knots(np.zeros(0))
        return begin.at(slice(1)).then(end)

    def _is_power_over(self, curve: PowerCurve) -> bool:
        """Whether power has not been read for a while, and the counter has."""
        last_s = max((float(one.at_s[-1]) for one in self._readings), default=0.0)
        return last_s > float(curve.at_s[-1]) + self._sensor.lag_s + _POWER_OVER_S

    def _take(self, cells: Cells, *, is_last: bool) -> None:
        end_s = float(cells.knots.at_s[-1])
        marks_s = self._seconds(self._marks_ns)
        done = len(marks_s) if is_last else int(np.searchsorted(marks_s, end_s))
        now = slice(self._marks_done, max(done, self._marks_done))
        columns, edges_j2 = cells.at(marks_s[now])
        self._columns[:, now] = self._base[:, np.newaxis] + columns
        self._edges_j2[now] = edges_j2
        self._base += cells.end
        self._marks_done = now.stop
        self._counts.update(cells.faults(is_last=is_last))

    def _forget(self, knots: Knots, readings: Readings) -> None:
        """Keep what lies behind the last knot, and the readings of power around it."""
        if len(knots.at_s):
            self._carry = knots.at(slice(-1, None))
            end_s = float(knots.at_s[-1])
            self._is_carry_read = not np.isnan(knots.energy_j[-1])
            begin = int(knots.row[-1]) if self._is_carry_read else len(readings.at_s)
            self._readings = [readings.at(slice(begin, None))]
            if self._power:
                at_s, power_w = self._power[0]
                first = int(np.searchsorted(at_s, end_s + self._sensor.lag_s)) - 2
                self._power = [(at_s[max(0, first) :], power_w[max(0, first) :])]
        else:
            self._readings = [readings] if len(readings.at_s) else []
        lengths = [len(self._power[0][0])] if self._power else [0]
        self._rows_kept = max(*lengths, sum(len(one.at_s) for one in self._readings))
        self._due_rows = max(BLOCK_ROWS, 2 * self._rows_kept)


def _usual_step(at_s: Floats) -> float | None:
    if len(at_s) <= _SOME_STEPS:
        return median(np.diff(at_s)) if len(at_s) > 1 else None
    some = np.linspace(0, len(at_s) - 2, _SOME_STEPS).astype(np.intp)
    return median(at_s[some + 1] - at_s[some])


def _ledger(
    readings: Sequence[EnergyReading], updates: Sequence[EnergyReading]
) -> NDArray[np.void]:
    """The readings of ledgers in order of time; those that were refused are none.

    An update of the same number as the reading before it says that the counter had not changed.
    """
    found = {
        (one.monotonic_ns, one.energy_mj): is_update
        for is_update, group in ((False, readings), (True, updates))
        for one in group
        if one.energy_mj is not None
    }
    rows = sorted((ns, mj, is_update) for (ns, mj), is_update in found.items())
    ledger = np.array(rows, _LEDGER_DTYPE)
    ledger["update"][1:] &= np.diff(ledger["mj"]) != 0
    return ledger


def share_sum(parts: Sequence[Share]) -> Share:
    """GPU-seconds of all parts, by class."""
    classes = Share.__struct_fields__
    return Share(**{name: math.fsum(getattr(part, name) for part in parts) for name in classes})


def cost_of(node: Energy, gpu: Energy, site: EnergySite) -> Cost:
    """What the energy costs: of the nodes, or of the GPUs alone where only theirs is known.

    PUE counts once, here. Without a factor the sentence names the key of the site file.
    """
    base = node if node.value_j is not None else gpu
    if base.value_j is None:
        return Cost()
    pue, price_per_kwh, co2_g_per_kwh = site.pue, site.price_per_kwh, site.co2_g_per_kwh
    keys = {"pue": pue, "price_per_kwh": price_per_kwh, "co2_g_per_kwh": co2_g_per_kwh}
    absent = tuple(name for name, value in keys.items() if value is None)
    facility_j = None if pue is None else base.value_j * pue
    billed_kwh = (base.value_j if facility_j is None else facility_j) / J_PER_KWH
    cost = Cost(
        facility_j=facility_j,
        pue=pue,
        price=None if price_per_kwh is None else billed_kwh * price_per_kwh,
        currency=site.currency,
        co2_g=None if co2_g_per_kwh is None else billed_kwh * co2_g_per_kwh,
        is_of_gpus=base is gpu and len(absent) < len(keys),
        absent=absent,
    )
    words = (GPUS_ALONE if cost.is_of_gpus else "", cost.lack)
    return replace(cost, because="; ".join(part for part in words if part))
