"""Readings of an energy counter as knots: when the driver wrote which number.

A counter is renewed every 20 to 100 ms (accounting.md §3.1): a reading is of a moment before it.
Times are seconds since a GPU's origin, energies joules.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from hpckit.account.rows import Floats, median

USUAL_UPDATE_S: Final = 0.1
SEEN_WITHIN_S: Final = 0.004
"""How late the rank's entry sees that a counter changed: docs/reference/account-files.md."""
_LATE_S: Final = 0.001
"""How late it mostly is: it looks every 3 ms at first, every ms later."""
_SPAN_SIGMA_S: Final = 0.004 / 6**0.5
"""Standard deviation of the span between two changes, each seen late by any part of 4 ms."""
_LEAST_TOLD_S: Final = 0.001
_MOST_TOLD_S: Final = 0.3
"""No counter is renewed more rarely: a longer span has changes in it that were not seen."""
_CLEAR_FRAC: Final = 0.33
"""A life that is known to so much of itself leaves no doubt how many periods a span has."""
_SIGMAS_WIDE: Final = 2 * 6**0.5
"""Between the bounds of a life: as many standard deviations as 8 ms are of `_SPAN_SIGMA_S`."""
_STALE_S: Final = 0.5
"""No answer of a driver is older."""
_MOST_LIVES: Final = 256
"""More do not tell more."""
_NEAREST: Final = 4
"""So many updates on each side of a reading tell how old it is: a ledger has no more at an end."""
_UPDATE_RANGE_S = (0.005, 1.5)
_LEAST_EQUAL_FRAC = 0.3

_Index = slice | NDArray[np.bool_] | NDArray[np.intp]


class Readings(NamedTuple):
    """Readings in order of time; `is_update` where one was made as soon as the counter changed."""

    at_s: Floats
    energy_j: Floats
    is_update: NDArray[np.bool_]

    def at(self, kept: _Index) -> Readings:
        """Some of them."""
        return Readings(self.at_s[kept], self.energy_j[kept], self.is_update[kept])

    @staticmethod
    def joined(parts: Sequence[Readings]) -> Readings:
        """Those of consecutive parts."""
        if len(parts) == 1:
            return parts[0]
        nothing = np.zeros(0)
        return Readings(
            np.concatenate([nothing, *(one.at_s for one in parts)]),
            np.concatenate([nothing, *(one.energy_j for one in parts)]),
            np.concatenate([nothing.astype(np.bool_), *(one.is_update for one in parts)]),
        )


class Clockwork(Struct, frozen=True):
    """When a counter is renewed: every `period_s`; at `anchors_s` it was."""

    period_s: float = USUAL_UPDATE_S
    sigma_s: float = 0.0
    anchors_s: tuple[float, ...] = ()


class Knots(NamedTuple):
    """Moments at which a counter's value is known.

    `still_s` is for how long the same number was read before each: a counter that stood still.
    `row` is the place of each in the readings.
    """

    at_s: Floats
    energy_j: Floats
    sigma_s: Floats
    still_s: Floats
    row: NDArray[np.intp]

    def at(self, kept: _Index) -> Knots:
        """Some of them."""
        at_s, energy_j, sigma_s, still_s, row = self
        return Knots(at_s[kept], energy_j[kept], sigma_s[kept], still_s[kept], row[kept])

    def then(self, other: Knots) -> Knots:
        """These, and others behind them."""
        return Knots(
            np.concatenate((self.at_s, other.at_s)),
            np.concatenate((self.energy_j, other.energy_j)),
            np.concatenate((self.sigma_s, other.sigma_s)),
            np.concatenate((self.still_s, other.still_s)),
            np.concatenate((self.row, other.row)),
        )


class Lives(NamedTuple):
    """Bounds of how long numbers of a counter lived; each that was seen lived one period.

    However late it was read, and whatever numbers before and behind it were not read at all. A
    number beside a fall is none: the counter began anew, or a reading is older than it looks.
    """

    least_s: Floats
    most_s: Floats

    @staticmethod
    def of(seen: Readings) -> Lives:
        """Those of the numbers between the first and the last."""
        seen = seen.at(~_is_behind(seen.energy_j))
        begin = np.flatnonzero(np.diff(seen.energy_j) != 0) + 1
        is_rise = seen.energy_j[begin] > seen.energy_j[begin - 1]
        is_whole = is_rise[:-1] & is_rise[1:]
        first_s, before_s = seen.at_s[begin], seen.at_s[begin - 1]
        least_s = before_s[1:] - first_s[:-1]
        before_s = np.where(
            seen.is_update[begin], np.maximum(before_s, first_s - SEEN_WITHIN_S), before_s
        )
        is_whole &= least_s <= _MOST_TOLD_S
        return Lives(least_s[is_whole], (first_s[1:] - before_s[:-1])[is_whole])

    def period(self) -> tuple[float, float]:
        """The period and its standard deviation, which is 0 where that is not clear.

        It is what most lives can have had; a counter that misses a renewal has longer ones.
        """
        known = np.argsort(self.most_s - self.least_s)[:_MOST_LIVES]
        least, most = self.least_s[known] - _LEAST_TOLD_S, self.most_s[known]
        if not len(most):
            return USUAL_UPDATE_S, 0.0
        votes = ((least[:, None] <= most) & (most <= most[:, None])).sum(axis=0)
        is_possible = (votes == votes.max()) & (most >= _UPDATE_RANGE_S[0])
        most_s = float((most[is_possible] if is_possible.any() else most).min())
        is_one = (least <= most_s) & (most_s <= most)
        least_s = float(least[is_one].max()) + _LEAST_TOLD_S
        width_s = max(abs(most_s - least_s), _LEAST_TOLD_S)
        if width_s < _CLEAR_FRAC * most_s:
            return (least_s + most_s) / 2, width_s / _SIGMAS_WIDE
        return max(min(most_s, USUAL_UPDATE_S), _LEAST_TOLD_S), 0.0


def _is_behind(energy_j: Floats) -> NDArray[np.bool_]:
    """Which readings have an older number than one before them, that came back after them."""
    top_j = np.maximum.accumulate(energy_j)
    later_j = np.maximum.accumulate(energy_j[::-1])[::-1]
    return (energy_j < top_j) & (later_j >= top_j)


def _is_stale(energy_j: Floats, most_w: float) -> NDArray[np.bool_]:
    """Which readings are behind by so little that they are old: a new beginning is near 0."""
    top_j = np.maximum.accumulate(energy_j)
    is_near = energy_j >= np.maximum(top_j - most_w * _STALE_S, top_j / 2)
    return _is_behind(energy_j) & is_near


def clockwork_of(seen: Readings) -> Clockwork:
    """The clockwork as the readings of ranks' entries show it, in order of time.

    The numbers' lives tell the period, never the spans between changes that were seen: others may
    have been between them. Longer spans are whole numbers of periods for as long as that is clear,
    and tell it better.
    """
    updates_s = seen.at_s[seen.is_update]
    anchors_s = tuple(updates_s.tolist())
    period_s, sigma_s = Lives.of(seen).period()
    if not sigma_s or not anchors_s:
        return Clockwork(period_s, 0.0, anchors_s)
    periods = _SPAN_SIGMA_S / sigma_s
    begin_s = anchors_s[0]
    for at_s in anchors_s[1:]:
        count = round((at_s - begin_s) / period_s)
        is_clear = count * _SPAN_SIGMA_S < periods * period_s / 12
        off_s = abs(at_s - begin_s - count * period_s)
        if not is_clear or off_s > SEEN_WITHIN_S * (1 + count / periods):
            begin_s = at_s
        elif count > periods:
            period_s, periods = (at_s - begin_s) / count, count
    return Clockwork(period_s, _SPAN_SIGMA_S / periods, anchors_s)


def clockwork_seen(readings: Readings) -> Clockwork | None:
    """The clockwork as frequent samples show it, None where they are too rare to."""
    changes = np.flatnonzero(np.diff(readings.energy_j) > 0) + 1
    is_rare = len(changes) > (1 - _LEAST_EQUAL_FRAC) * (len(readings.at_s) - 1)
    if is_rare or len(changes) < 4:  # noqa: PLR2004  three periods
        return None
    period_s = median(np.diff(readings.at_s[changes]))
    low_s, high_s = _UPDATE_RANGE_S
    return Clockwork(period_s, period_s) if low_s < period_s < high_s else None


def without_glitches(readings: Readings, most_w: float) -> Readings:
    """The readings without those that their neighbours contradict.

    Processes read at almost the same moment, or wait for the answer, and some have an older number
    than others before them; or one number is none. A counter that stays down began anew, and is
    kept.
    """
    energy_j = readings.energy_j
    if bool((energy_j[1:] >= energy_j[:-1]).all()):
        return readings  # all kinds have a fall beside them
    before, here, after = energy_j[:-2], energy_j[1:-1], energy_j[2:]
    is_dip = (here < before) & (after >= before)
    room_j = 1.2 * most_w * (readings.at_s[1:-1] - readings.at_s[:-2] + 1.0)
    is_spike = (here > after) & (after >= before) & (here - before > room_j)
    is_bad = is_dip | is_spike | _is_stale(energy_j, most_w)[1:-1]
    return readings.at(np.concatenate(([True], ~is_bad, [True]))) if is_bad.any() else readings


def knots_of(readings: Readings, clockwork: Clockwork) -> Knots:
    """A knot for the first reading and for each that differs from the one before it."""
    at_s, energy_j = readings.at_s, readings.energy_j
    is_new = energy_j[1:] != energy_j[:-1]
    gap_s = np.concatenate(([clockwork.period_s], np.diff(at_s)))
    row: NDArray[np.intp] = np.arange(len(at_s))
    still_s = np.zeros(len(at_s))
    is_update, stays_s = readings.is_update, np.zeros(len(at_s))
    if not is_new.all():
        row = np.concatenate(([0], np.flatnonzero(is_new) + 1))
        still_s = np.concatenate(([0.0], at_s[row[1:] - 1] - at_s[row[:-1]]))
        stays_s = np.concatenate((still_s[1:], [at_s[-1] - at_s[row[-1]]]))
        is_soon = np.concatenate(((np.diff(at_s) <= SEEN_WITHIN_S) & ~is_new, [False]))
        is_update = is_update | (is_soon & np.concatenate((is_update[1:], [False])))
        at_s, energy_j, gap_s, is_update = at_s[row], energy_j[row], gap_s[row], is_update[row]
    late_s = np.minimum(gap_s, clockwork.period_s)
    knot_s, sigma_s = at_s - late_s / 2, late_s / np.sqrt(12)
    if is_update.any():
        late_s[is_update] = np.minimum(late_s[is_update], SEEN_WITHIN_S)
        knot_s[is_update] = at_s[is_update] - np.minimum(late_s[is_update] / 2, _LATE_S)
        sigma_s[is_update] = late_s[is_update] / np.sqrt(12)
    if clockwork.anchors_s and clockwork.sigma_s:
        _put_in_phase(Knots(knot_s, energy_j, sigma_s, stays_s, row), at_s, late_s, clockwork)
        _put_before_next(Knots(knot_s, energy_j, sigma_s, stays_s, row), is_update, late_s, at_s,
                         clockwork)  # fmt: skip
    return Knots(knot_s, energy_j, sigma_s, still_s, row)


def _put_before_next(
    knots: Knots, is_update: NDArray[np.bool_], late_s: Floats, read_s: Floats, clockwork: Clockwork
) -> None:
    """A knot is one period before the next update, and less before a reading of the same number.

    `still_s` of these knots is for how long the same number was read after each.
    """
    knot_s, sigma_s, period_s = knots.at_s, knots.sigma_s, clockwork.period_s
    is_before = np.concatenate((is_update[1:], [False]))
    for at in np.flatnonzero((late_s > SEEN_WITHIN_S) & (is_before | (knots.still_s > 0))):
        first_s = read_s[at] - late_s[at]
        if is_before[at]:
            guess_s = knot_s[at + 1] - period_s
            unsure_s = math.hypot(sigma_s[at + 1], clockwork.sigma_s)
            if first_s - SEEN_WITHIN_S < guess_s <= read_s[at] and unsure_s < sigma_s[at]:
                knot_s[at], sigma_s[at] = guess_s, unsure_s
                continue
        first_s = max(first_s, read_s[at] + knots.still_s[at] - period_s)
        if knot_s[at] < first_s < read_s[at]:
            sigma_s[at] = min(sigma_s[at], (read_s[at] - first_s) / np.sqrt(12))
            knot_s[at] = (first_s + read_s[at]) / 2


def power_knots(at_s: Floats) -> Knots:
    """Knots at moments at which the counter is not known: the power takes over."""
    zeros, unknown = np.zeros(len(at_s)), np.full(len(at_s), np.nan)
    return Knots(at_s, unknown, zeros, zeros, np.zeros(len(at_s), np.intp))


def _put_in_phase(knots: Knots, read_s: Floats, late_s: Floats, clockwork: Clockwork) -> None:
    """Knots near an update that was seen are whole periods from it, where that is clear.

    `still_s` of these knots is for how long the same number was read after each.
    """
    period_s, anchors_s = clockwork.period_s, np.array(clockwork.anchors_s)
    reach_s = period_s * period_s / (12 * clockwork.sigma_s)
    near = _near(read_s, anchors_s, reach_s)
    after = np.searchsorted(anchors_s, read_s[near])
    for place in range(-_NEAREST, _NEAREST if len(near) else -_NEAREST):
        anchor = after + place
        is_there = (anchor >= 0) & (anchor < len(anchors_s))
        at, anchor = near[is_there], anchor[is_there]
        periods = (read_s[at] - anchors_s[anchor]) / period_s
        unsure_s = 2 * np.abs(periods) * clockwork.sigma_s + SEEN_WITHIN_S
        old_s = (periods + _LATE_S / period_s) % 1.0 * period_s
        stays = knots.still_s[at] > 2 * unsure_s
        # One that would have changed soon, and did not, just had.
        old_s[stays & (old_s > period_s - unsure_s)] = 0.0
        is_told = stays | ((unsure_s < old_s) & (old_s < period_s - unsure_s))
        is_told &= np.abs(periods) * period_s <= reach_s
        is_told &= (old_s <= late_s[at]) & (unsure_s / 2 < knots.sigma_s[at])
        told = at[is_told]
        knots.at_s[told] = read_s[told] - old_s[is_told]
        knots.sigma_s[told] = unsure_s[is_told] / 2


def _near(at_s: Floats, anchors_s: Floats, reach_s: float) -> NDArray[np.intp]:
    begin = np.searchsorted(at_s, anchors_s - reach_s)
    end = np.searchsorted(at_s, anchors_s + reach_s)
    if bool((begin == end).all()):
        return np.zeros(0, np.intp)
    count = len(at_s) + 1
    open_now = np.cumsum(np.bincount(begin, minlength=count) - np.bincount(end, minlength=count))
    return np.flatnonzero(open_now)
