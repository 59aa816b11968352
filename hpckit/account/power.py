"""Power readings as a curve: what its integral is, and how far it may be off.

Power sensors show a part of the time alone (accounting.md §3.2, arXiv 2312.02741): a window of so
many milliseconds each 100 ms. Times are seconds since a GPU's origin.
"""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpckit.account.counter import Knots
from hpckit.account.rows import Floats
from hpckit.account.samples import SampledGpu

GAIN_SIGMA_FRAC: Final = 0.05
"""Standard deviation of a board's gain, against external meters: arXiv 2312.02741."""
MOST_W: Final = 5000.0
"""More than any GPU or module draws (GB300: 2,900 W); a reading above it is none."""
_IDLE_FRAC: Final = 0.08
"""Below this share of its limit no GPU that is on draws (H100: 70 of 700 W)."""
_MOST_GAP_PERIODS: Final = 3.0
_IN_STEP_FRAC: Final = 0.75
"""Of the most that the unseen can be off by: what holds 95 % of the loads that are in step with the
sensor (tests/fakes/energy_truth.py, waveform `aliasing`)."""
_FEW: Final = 4
_TILED: Final = 1.1
"""Means of one second that are read up to a tenth farther apart leave nothing out that matters."""
_EDGE_FRAC: Final = 0.35
"""Of lag × step: at the most, what a ramp hides of a step in it (standard deviation)."""
_WHOLE_WINDOW = ("RTX", "L4", "A10", "A16", "A40", "A2", "T4", "GeForce", "Quadro", "TITAN")
_SHORT = ("V100", "P100", "P40", "P4")
_GA100_AND_OLDER = ("A100", "A30", "A800", *_SHORT, "T4", "RTX 20", "Quadro RTX")


class Sensor(NamedTuple):
    """A power sensor: the time that a reading is the mean of, and how often it is renewed."""

    window_s: float
    update_s: float

    @property
    def lag_s(self) -> float:
        """How long before a reading the middle of what it is the mean of lies, on average."""
        return (self.window_s + self.update_s) / 2


def sensor_of(gpu: SampledGpu) -> Sensor:
    """What is known of a GPU's sensor; one that is not known sees as little as any does."""
    name = gpu.name or ""
    is_usage_of_instant = any(word in name for word in _GA100_AND_OLDER)
    if gpu.power == "average" or (gpu.power == "usage" and not is_usage_of_instant):
        return Sensor(1.0, 0.1)
    if any(word in name for word in _SHORT):
        return Sensor(0.01, 0.02)
    words = name.replace("-", " ").split()
    return Sensor(0.1 if any(word in words for word in _WHOLE_WINDOW) else 0.025, 0.1)


class Totals(NamedTuple):
    """Integrals over time up to some moments: joules, seconds, variance (J²), a bound (J)."""

    energy_j: Floats
    covered_s: Floats
    variance_j2: Floats
    unseen_j: Floats


class PowerCurve:
    """Readings in W at strictly rising times, straight lines between what they are means of.

    A hole of more than three periods is bridged by the mean of its ends: it is not covered, and its
    variance is that of what may have been. `limit_w` and the least reading bound what the sensor
    does not see.
    """

    def __init__(
        self, times_s: Floats, power_w: Floats, sensor: Sensor, *, period_s: float, limit_w: float
    ) -> None:
        gap_s = _MOST_GAP_PERIODS * period_s
        self.at_s: Floats = np.empty(len(times_s) + 2)
        np.subtract(times_s, sensor.lag_s, out=self.at_s[1:-1])
        self.last_s = float(self.at_s[-2])
        self.at_s[0] = self.at_s[1] - gap_s - sensor.lag_s
        self.at_s[-1] = self.last_s + gap_s + sensor.lag_s
        self.power_w: Floats = np.concatenate((power_w[:1], power_w, power_w[-1:]))
        self._sensor, self._limit_w = sensor, limit_w
        self._span_s: Floats = np.diff(self.at_s)
        self._is_gap: NDArray[np.bool_] = self._span_s > gap_s
        self._is_gap[[0, -1]] = False
        self.gaps_s: Floats = self.at_s[1:][self._is_gap]

    @functools.cached_property
    def _mean_w(self) -> Floats:
        mean_w: Floats = self.power_w[1:] + self.power_w[:-1]
        mean_w *= 0.5
        return mean_w

    @functools.cached_property
    def _steps_j(self) -> Floats:
        steps_j: Floats = self._mean_w * self._span_s
        return steps_j

    @functools.cached_property
    def _sums_j(self) -> Floats:
        return _sums(self._steps_j)

    def _energy_j(self, reading: NDArray[np.intp]) -> Floats:
        """Return the integral up to these readings; of a few they alone are summed up."""
        if len(reading) > _FEW:
            return self._sums_j[reading]
        return np.array([self._steps_j[:one].sum() for one in reading.tolist()])

    @functools.cached_property
    def _others(self) -> tuple[Floats, Floats, Floats]:
        sensor, span_s, mean_w, is_gap = self._sensor, self._span_s, self._mean_w, self._is_gap
        is_long = sensor.window_s >= 1
        unsure_s = np.minimum(span_s, sensor.update_s) if is_long else span_s
        most_w = max(self._limit_w, float(self.power_w.max()))
        least_w = min(_IDLE_FRAC * self._limit_w, float(self.power_w.min()))
        range_w = np.maximum(most_w - mean_w, mean_w - least_w)
        sigma_j = np.abs(np.diff(self.power_w)) * unsure_s / np.sqrt(6)
        sigma_j = np.where(is_gap, span_s * range_w / 2, sigma_j)
        seen_s = np.maximum(sensor.update_s, span_s / (_TILED if is_long else 1.0))
        unseen_frac = np.where(is_gap, 0.0, np.maximum(0.0, 1 - sensor.window_s / seen_s))
        # What lies before the first reading and behind the last is seen as what is beside it.
        inner = min(1, len(unseen_frac) - 2)
        unseen_frac[0], unseen_frac[-1] = unseen_frac[inner], unseen_frac[-1 - inner]
        return (
            _sums(np.where(is_gap, 0.0, span_s)),
            _sums(sigma_j**2),
            _sums(_IN_STEP_FRAC * unseen_frac * range_w * span_s),
        )

    def covers(self, begin_s: float, end_s: float) -> bool:
        """Whether there is no hole between two moments."""
        return (
            bool(self.at_s[0] <= begin_s)
            and bool(self.at_s[-1] >= end_s)
            and not bool(
                ((self.gaps_s > begin_s) & (self.gaps_s <= end_s + self._sensor.lag_s)).any()
            )
        )

    def _places(self, at_s: Floats) -> tuple[NDArray[np.intp], Floats]:
        inside = np.minimum(np.maximum(at_s, self.at_s[0]), self.at_s[-1])
        left = np.searchsorted(self.at_s[:-1], inside, side="right") - 1
        return left, inside - self.at_s[left]

    def energy_j(self, at_s: Floats) -> Floats:
        """The integral up to each moment; before and behind the readings nothing is added."""
        left, over_s = self._places(at_s)
        part = over_s / self._span_s[left]
        slope_w = (self.power_w[left + 1] - self.power_w[left]) * part / 2
        energy: Floats = self._energy_j(left) + (self.power_w[left] + slope_w) * over_s
        return energy

    def totals(self, at_s: Floats) -> Totals:
        """The same with time, variance and bound."""
        left, over_s = self._places(at_s)
        part = over_s / self._span_s[left]
        others = (total[left] + part * (total[left + 1] - total[left]) for total in self._others)
        return Totals(self.energy_j(at_s), *others)

    def edge_variance(self, at_s: Floats) -> Floats:
        """The variance (J²) of the integral up to a moment, since a reading is of what was around.

        A step of the power within a window of one second is a ramp in the readings.
        """
        around = (
            np.array([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5])[:, np.newaxis] * self._sensor.lag_s
        )
        near_w = np.interp(at_s + around, self.at_s, self.power_w)
        variance: Floats = (_EDGE_FRAC * self._sensor.lag_s * np.ptp(near_w, axis=0)) ** 2
        return variance

    def power_at(self, at_s: float) -> float:
        """The power at a moment, the nearest reading's outside of them."""
        return float(np.interp(at_s, self.at_s, self.power_w))


def _sums(values: Floats) -> Floats:
    sums: Floats = np.zeros(len(values) + 1)
    np.cumsum(values, out=sums[1:])
    return sums


# A cell is good where the counter grew as it can, else its energy is the integral of the power.
# Times are seconds since a GPU's origin.

STILL_PERIODS: Final = 5.0
STILL_S: Final = 0.5
"""A counter that stood still for longer, and for more of its periods, was not renewed."""
_ONE_PERIOD: Final = 0.8
_SURE_SIGMAS: Final = 10.0
_NEAR_S: Final = 1e-6
AWAKE_W: Final = 5.0
"""No GPU that is on draws less, so that its counter moves."""
_SHAPE_FRAC = 0.6
"""Of the energy between a mark and the next knot: what is unsure, since loads go up and down."""

COLUMNS: Final = (
    "energy_j", "covered_s", "integrated_j", "variance_j2", "unseen_j", "counter_j", "checked_j",
    "integral_j", "integral_s",
)  # fmt: skip
"""What is accumulated. `counter_j` and `checked_j` are counter and integral of the same cells."""


class Frame(NamedTuple):
    """What cells are judged by: the power that no GPU exceeds, and periods of counter and sampler.

    `last_read_s` is when the counter was read last, whatever it said.
    """

    most_w: float
    limit_w: float
    counter_period_s: float
    sampler_period_s: float
    last_read_s: float | None

    @property
    def still_s(self) -> float:
        """A counter that is the same for longer was not renewed."""
        return max(STILL_PERIODS * self.counter_period_s, STILL_S)


class Cells:
    """Consecutive cells between `knots` (at least one), and `curve` beside them.

    A knot whose energy is NaN is one where power took over.
    """

    def __init__(self, knots: Knots, curve: PowerCurve | None, frame: Frame) -> None:
        self.knots, self._curve, self._frame = knots, curve, frame
        self._span_s = np.diff(knots.at_s)
        self._step_j = np.diff(knots.energy_j)
        self._is_frozen = knots.still_s[1:] > frame.still_s
        if self._is_frozen.any():
            at = np.flatnonzero(self._is_frozen)
            self._is_frozen[at] = self._is_asleep(at)
        self._is_impossible = self._is_too_much(self._is_frozen)
        self._is_good = (self._step_j >= 0) & ~self._is_impossible & ~self._is_frozen
        ends = float(knots.at_s[0]), float(knots.at_s[-1])
        is_whole = bool(self._is_good.all()) and not np.isnan(knots.energy_j[0])
        self._is_plain = is_whole and (curve is None or curve.covers(*ends))

    def _totals(self, at_s: Floats) -> Totals:
        if self._curve is None:
            nothing = np.zeros(len(at_s))
            return Totals(nothing, nothing, nothing, nothing)
        return self._curve.totals(at_s)

    def _energy_j(self, at_s: Floats) -> Floats:
        return np.zeros(len(at_s)) if self._curve is None else self._curve.energy_j(at_s)

    @functools.cached_property
    def _at_knots(self) -> Totals:
        return self._totals(self.knots.at_s)

    @functools.cached_property
    def _has_power(self) -> NDArray[np.bool_]:
        has: NDArray[np.bool_] = np.diff(self._at_knots.covered_s) > self._span_s / 2
        return has

    def _is_too_much(self, is_frozen: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether no GPU draws what these cells say, alone and together with the cell before.

        A counter that missed renewals catches up at the next; its number was older than a period.
        What it makes up for a cell in which it was frozen counts, but where power tells that cell.
        The first cell has none before it, and counts alone.
        """
        frame, step_j, span_s = self._frame, self._step_j, self._span_s
        most_w, period_s = frame.most_w, frame.counter_period_s
        is_too_much = step_j > most_w * (span_s + period_s)
        at = np.flatnonzero(is_too_much[1:]) + 1
        if len(at):
            before_j, both_s = step_j[at - 1], span_s[at] + span_s[at - 1]
            aged_s = np.minimum(both_s, span_s[at] + frame.still_s)
            counted = (before_j >= 0) & ~(is_frozen[at - 1] & self._has_power[at - 1])
            fits = counted & (step_j[at] <= most_w * (aged_s + period_s))
            is_too_much[at] = ~(fits & (step_j[at] + before_j <= most_w * (both_s + period_s)))
        return is_too_much

    def _is_asleep(self, at: NDArray[np.intp]) -> NDArray[np.bool_]:
        """Whether these cells, whose counter stood still, have more power than it says."""
        span_s, step_j = self._span_s[at], self._step_j[at]
        begin, end = self._totals(self.knots.at_s[at]), self._totals(self.knots.at_s[at + 1])
        integral_j = end.energy_j - begin.energy_j
        return np.where(
            end.covered_s - begin.covered_s > span_s / 2,
            (integral_j > AWAKE_W * span_s) & (step_j < integral_j / 2),
            step_j < AWAKE_W * span_s,
        )

    @functools.cached_property
    def _sums(self) -> NDArray[np.float64]:
        by_power, good = [np.diff(one) for one in self._at_knots], self._is_good
        both = good & self._has_power
        rows = (
            np.where(good, self._step_j, by_power[0]),
            np.where(good, self._span_s, by_power[1]),
            np.where(good, 0.0, by_power[0]),
            np.where(good, 0.0, by_power[2]),
            np.where(good, 0.0, by_power[3]),
            np.where(both, self._step_j, 0.0),
            np.where(both, by_power[0], 0.0),
            by_power[0],
            by_power[1],
        )
        sums = np.zeros((len(COLUMNS), len(self.knots.at_s)))
        np.cumsum(np.array(rows), axis=1, out=sums[:, 1:])
        return sums

    def _sums_at(self, knot: NDArray[np.intp]) -> NDArray[np.float64]:
        """The columns up to some knots; where all cells are good these are differences."""
        if not self._is_plain:
            chosen: NDArray[np.float64] = self._sums[:, knot]
            return chosen
        energy_j = self.knots.energy_j[knot] - self.knots.energy_j[0]
        time_s, nothing = self.knots.at_s[knot] - self.knots.at_s[0], np.zeros(len(knot))
        if self._curve is None:
            return np.array([energy_j, time_s, *(7 * [nothing])])
        integral_j = self._energy_j(self.knots.at_s[knot]) - self._energy_j(self.knots.at_s[:1])
        return np.array(
            [energy_j, time_s, *(3 * [nothing]), energy_j, integral_j, integral_j, time_s]
        )

    @property
    def end(self) -> Floats:
        """The columns of all cells together."""
        last: Floats = self._sums_at(np.array([len(self._span_s)]))[:, 0]
        return last

    def at(self, at_s: Floats) -> tuple[NDArray[np.float64], Floats]:
        """The columns up to each moment, and the variance (J²) of the energy at that moment.

        Before the first knot and behind the last the power counts, as far as it reaches.
        """
        if not len(at_s):
            return np.zeros((len(COLUMNS), 0)), np.zeros(0)
        knots, last = self.knots, len(self._span_s)
        cell = np.searchsorted(knots.at_s, at_s, side="right") - 1
        left = np.clip(cell, 0, last)
        columns = self._sums_at(left)
        is_good = np.zeros(len(at_s), np.bool_)
        is_inside = (cell >= 0) & (cell < last)
        is_good[is_inside] = self._is_good[cell[is_inside]]
        variance = np.zeros(len(at_s))
        if self._is_plain and is_good.all():
            columns[7] += self._energy_j(at_s) - self._energy_j(knots.at_s[left])
            columns[8] += (at_s - knots.at_s[left]) * (self._curve is not None)
        else:
            self._add_power(columns, left, at_s, is_good)
            if self._curve is not None:
                variance = self._curve.edge_variance(at_s)
            self._near_edges(columns, variance, at_s)
        inner = np.flatnonzero(is_good)
        variance[inner] = self._add_parts(columns, inner, left[inner], at_s[inner])
        return columns, variance

    def _add_power(
        self, columns: NDArray[np.float64], left: NDArray[np.intp], at_s: Floats,
        is_good: NDArray[np.bool_],
    ) -> None:  # fmt: skip
        before = self._totals(self.knots.at_s[left])
        power = [one - two for one, two in zip(self._totals(at_s), before, strict=True)]
        columns[0:5] += np.where(is_good, 0.0, [power[place] for place in (0, 1, 0, 2, 3)])
        columns[7:9] += power[0:2]

    def _add_parts(
        self, columns: NDArray[np.float64], to: NDArray[np.intp], cell: NDArray[np.intp],
        at_s: Floats,
    ) -> Floats:  # fmt: skip
        """Add the part of a good cell that lies before a mark; the variance of its energy."""
        begin_s, end_s = self.knots.at_s[cell], self.knots.at_s[cell + 1]
        span_s, step_j, lead_s = self._span_s[cell], self._step_j[cell], at_s - begin_s
        part_j, power_w = self._part(cell, lead_s)
        columns[0, to] += part_j
        columns[1, to] += lead_s
        if self._curve is not None:
            integral_j = self._energy_j(end_s) - self._energy_j(begin_s)
            both = True if self._is_plain else self._has_power[cell]
            columns[5, to] += part_j * both
            columns[6, to] += lead_s / span_s * integral_j * both
        sigma_s, part = self.knots.sigma_s, lead_s / span_s
        edges_s2 = ((1 - part) * sigma_s[cell]) ** 2 + (part * sigma_s[cell + 1]) ** 2
        unsure_s2 = (_SHAPE_FRAC * np.minimum(lead_s, span_s - lead_s)) ** 2
        least_s = _ONE_PERIOD * self._frame.counter_period_s
        cell_w = step_j / np.maximum(span_s, least_s)
        most_w = np.maximum(np.maximum(power_w, cell_w), self._unsure_w)
        variance: Floats = most_w**2 * (edges_s2 + unsure_s2)
        return variance

    @functools.cached_property
    def _unsure_w(self) -> float:
        is_whole = self._is_good & (self._span_s >= _ONE_PERIOD * self._frame.counter_period_s)
        power_w = self._step_j[is_whole] / self._span_s[is_whole]
        return max(float(power_w.max(initial=0.0)), self._frame.limit_w / 2)

    def _part(self, cell: NDArray[np.intp], lead_s: Floats) -> tuple[Floats, Floats]:
        """The energy of the first `lead_s` of good cells, and the power in it.

        A rank begins and ends where the power changes. In a cell of one period that is where its
        part ends; what counter and the power of the cells around it disagree by is shared out. In
        a longer one power is that of the cell before for a period behind the knot: what was read
        there is older.
        """
        span_s, step_j = self._span_s[cell], self._step_j[cell]
        period_s = self._frame.counter_period_s
        linear_w = step_j / span_s
        before_w, before_s = self._beside(cell, -1)
        after_w, after_s = self._beside(cell, 1)
        has_before, has_after = before_s > 0, after_s > 0
        before_w = np.where(has_before, before_w, linear_w)
        is_long = span_s > 2 * period_s
        left_j, right_j = before_w * lead_s, after_w * (span_s - lead_s)
        # The nearer in time the cell beside, the more its power is to be relied on.
        left, right = lead_s * (before_s + _NEAR_S), (span_s - lead_s) * (after_s + _NEAR_S)
        share = left / np.maximum(left + right, _NEAR_S * _NEAR_S)
        both_j = left_j + (step_j - left_j - right_j) * share
        one_j = np.where(has_before, left_j, np.where(has_after, step_j - right_j, left_j))
        short_j = np.where(has_before & has_after, both_j, one_j)
        first_j = np.minimum(before_w * period_s, step_j)
        rest_w = (step_j - first_j) / np.maximum(span_s - period_s, period_s)
        late_j = first_j + rest_w * (lead_s - period_s)
        long_j = np.where(lead_s < period_s, first_j * lead_s / period_s, late_j)
        long_j = np.where(has_before, long_j, linear_w * lead_s)
        part_j = np.clip(np.where(is_long, long_j, short_j), 0.0, step_j)
        return part_j, np.maximum(before_w, after_w * ~is_long)

    def _beside(self, cell: NDArray[np.intp], side: int) -> tuple[Floats, Floats]:
        """The power of what lies before (-1) or behind (1) some cells, and for how long; 0: none.

        It is one period at least, and long against what is unknown of the knot.
        """
        period_s, at_s = self._frame.counter_period_s, self.knots.at_s
        last = len(self._span_s)
        edge = cell if side < 0 else cell + 1
        least_s = np.clip(
            _SURE_SIGMAS * self.knots.sigma_s[edge], _ONE_PERIOD * period_s, 3 * period_s
        )
        if side < 0:
            other = np.searchsorted(at_s, at_s[edge] - least_s, side="right") - 1
        else:
            other = np.searchsorted(at_s, at_s[edge] + least_s)
        other = np.clip(other, 0, last)
        time_s = np.abs(at_s[edge] - at_s[other])
        energy_j = np.abs(self._sums_at(edge)[0] - self._sums_at(other)[0])
        is_there = time_s >= _ONE_PERIOD * period_s
        time_s = np.where(is_there, time_s, 0.0)
        return np.where(is_there, energy_j / np.maximum(time_s, period_s / 2), 0.0), time_s

    def _near_edges(self, columns: NDArray[np.float64], variance: Floats, at_s: Floats) -> None:
        """Just outside of the knots an energy is still the counter's, carried on by the power."""
        knots, frame = self.knots, self._frame
        tails = [(0, at_s < knots.at_s[0], 0.0)]
        last_read_s = frame.last_read_s
        still_s = 0.0 if last_read_s is None else last_read_s - float(knots.at_s[-1])
        tails.append((-1, at_s >= knots.at_s[-1], still_s))
        for edge, is_there, stood_s in tails:
            away_s = at_s - knots.at_s[edge]
            reach_s = 2 * frame.counter_period_s
            if self._curve is not None:
                reach_s += frame.sampler_period_s
            if self._curve is None:
                away_s, reach_s = np.clip(away_s, -reach_s, reach_s), np.inf
            near = np.flatnonzero(is_there & (np.abs(away_s) <= reach_s))
            if np.isnan(knots.energy_j[edge]) or stood_s > frame.still_s or not len(near):
                continue
            if self._curve is None:
                power_w = self._slope_w(edge)
                columns[0, near] += power_w * away_s[near]
                columns[1, near] += away_s[near] * (power_w > 0)
            else:
                power_w = self._curve.power_at(float(knots.at_s[edge]))
                columns[2:5, near] = 0.0 if edge == 0 else self.end[2:5, np.newaxis]
            unsure_s2 = knots.sigma_s[edge] ** 2 + (_SHAPE_FRAC * away_s[near]) ** 2
            variance[near] = max(power_w, self._unsure_w) ** 2 * unsure_s2

    def _slope_w(self, edge: int) -> float:
        """The mean power of the cell at an edge; 0 where there is none that is good.

        A shorter cell than a period is no power: its knots are not where they are thought to be.
        """
        if not len(self._span_s) or not self._is_good[edge]:
            return 0.0
        least_s = _ONE_PERIOD * self._frame.counter_period_s
        return float(self._step_j[edge] / max(self._span_s[edge], least_s))

    def faults(self, *, is_last: bool) -> dict[str, int]:
        """How often what went wrong, by the names that GpuEnergy has for it."""
        counts = {
            "resets": np.count_nonzero(self._step_j < 0),
            "impossible": np.count_nonzero(self._is_impossible),
            "frozen": np.count_nonzero(self._is_frozen),
        }
        if self._curve is not None:
            gaps_s = self._curve.gaps_s
            counts["gaps"] = np.count_nonzero(
                (gaps_s > self.knots.at_s[0]) & (is_last | (gaps_s <= self.knots.at_s[-1]))
            )
        return {name: int(count) for name, count in counts.items()}
