"""The stretches between two knots of a counter, each with the better of its two measurements.

A cell is good where the counter grew as it can, else its energy is the integral of the power. Times
are seconds since a GPU's origin.
"""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.counter import Knots
from hpckit.measure.power import PowerCurve, Totals
from hpckit.measure.rows import Floats

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


class Judged(NamedTuple):
    """Cells and what is wrong with them; a cell without a fault is good."""

    is_reset: NDArray[np.bool_]
    is_impossible: NDArray[np.bool_]
    is_frozen: NDArray[np.bool_]

    @property
    def is_good(self) -> NDArray[np.bool_]:
        """Whether the counter's difference is the energy."""
        return ~(self.is_reset | self.is_impossible | self.is_frozen)


class Cells:
    """Consecutive cells between `knots` (at least one), and `curve` beside them.

    A knot whose energy is NaN is one where power took over.
    """

    def __init__(self, knots: Knots, curve: PowerCurve | None, frame: Frame) -> None:
        self.knots, self._curve, self._frame = knots, curve, frame
        self._span_s = np.diff(knots.at_s)
        self._step_j = np.diff(knots.energy_j)
        self.judged = self._judge()
        self._is_good = self.judged.is_good
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

    def _judge(self) -> Judged:
        frame, step_j = self._frame, self._step_j
        is_frozen = self.knots.still_s[1:] > frame.still_s
        if is_frozen.any():
            at = np.flatnonzero(is_frozen)
            is_frozen[at] = self._is_asleep(at)
        return Judged(
            is_reset=~(step_j >= 0),
            is_impossible=self._is_too_much(is_frozen),
            is_frozen=is_frozen,
        )

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
        """The columns up to each knot, a row each."""
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
        """Add what the power says of the time from the knot on the left to each moment."""
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
        """What power may be for part of a period: what it is in any, and half the limit."""
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
        """How often what went wrong, by the names of Counts."""
        knots, judged = self.knots, self.judged
        counts = {
            "resets": np.count_nonzero(self._step_j < 0),
            "impossible": np.count_nonzero(judged.is_impossible),
            "frozen": np.count_nonzero(judged.is_frozen),
        }
        if self._curve is not None:
            gaps_s = self._curve.gaps_s
            counts["gaps"] = np.count_nonzero(
                (gaps_s > knots.at_s[0]) & (is_last | (gaps_s <= knots.at_s[-1]))
            )
        return {name: int(count) for name, count in counts.items()}
