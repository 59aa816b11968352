"""Readings of an energy counter as knots: when the driver wrote which number.

A counter is renewed every 20 to 100 ms (accounting.md §3.1): a reading is of a moment before it.
Times are seconds since a GPU's origin, energies joules.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.rows import Floats, median

USUAL_UPDATE_S: Final = 0.1
_SEEN_WITHIN_S: Final = 0.005
"""How late the rank's entry sees that a counter changed."""
_UPDATE_RANGE_S = (0.005, 1.5)
_ALIKE_FRAC = 0.25
_LEAST_EQUAL_FRAC = 0.3


_Index = slice | NDArray[np.bool_]


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


@dataclass(frozen=True, slots=True)
class Clockwork:
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


def clockwork_of(updates_s: Floats) -> Clockwork:
    """The clockwork as the changes show it that a rank's entry saw, in order of time.

    The last spans that agree count: what a rank saw first may be older than its change.
    """
    spans = np.diff(updates_s)
    count = 0
    for span in spans[::-1]:
        is_alike = abs(span - spans[-1]) < _ALIKE_FRAC * spans[-1]
        if not (is_alike and _UPDATE_RANGE_S[0] < span < _UPDATE_RANGE_S[1]):
            break
        count += 1
    if not count:
        return Clockwork(anchors_s=tuple(updates_s[-1:].tolist()))
    kept = updates_s[-count - 1 :]
    sigma_s = _SEEN_WITHIN_S / np.sqrt(6) / count
    return Clockwork(float((kept[-1] - kept[0]) / count), sigma_s, tuple(kept.tolist()))


def clockwork_seen(readings: Readings) -> Clockwork | None:
    """The clockwork as frequent samples show it, None where they are too rare to."""
    changes = np.flatnonzero(np.diff(readings.energy_j) > 0) + 1
    is_rare = len(changes) > (1 - _LEAST_EQUAL_FRAC) * (len(readings.at_s) - 1)
    if is_rare or len(changes) < 4:  # noqa: PLR2004  three periods
        return None
    period_s = median(np.diff(readings.at_s[changes]))
    low_s, high_s = _UPDATE_RANGE_S
    return Clockwork(period_s, period_s) if low_s < period_s < high_s else None


def without_glitches(readings: Readings, most_w: float) -> tuple[Readings, int]:
    """The readings without those that their neighbours contradict, and how many these were.

    Two processes read at almost the same moment, and one reads the older number; or one number is
    none. A counter that stays down began anew, and is kept.
    """
    energy_j = readings.energy_j
    before, here, after = energy_j[:-2], energy_j[1:-1], energy_j[2:]
    is_dip = (here < before) & (after >= before)
    room_j = 1.2 * most_w * (readings.at_s[1:-1] - readings.at_s[:-2] + 1.0)
    is_spike = (here > after) & (after >= before) & (here - before > room_j)
    is_bad = is_dip | is_spike
    if not is_bad.any():
        return readings, 0
    kept = np.concatenate(([True], ~is_bad, [True]))
    return readings.at(kept), int(is_bad.sum())


def knots_of(readings: Readings, clockwork: Clockwork) -> Knots:
    """A knot for the first reading and for each that differs from the one before it."""
    at_s, energy_j = readings.at_s, readings.energy_j
    is_new = energy_j[1:] != energy_j[:-1]
    gap_s = np.concatenate(([clockwork.period_s], np.diff(at_s)))
    row: NDArray[np.intp] = np.arange(len(at_s))
    still_s = np.zeros(len(at_s))
    is_update = readings.is_update
    if not is_new.all():
        row = np.concatenate(([0], np.flatnonzero(is_new) + 1))
        still_s = np.concatenate(([0.0], at_s[row[1:] - 1] - at_s[row[:-1]]))
        at_s, energy_j, gap_s, is_update = at_s[row], energy_j[row], gap_s[row], is_update[row]
    late_s = np.minimum(gap_s, clockwork.period_s)
    if is_update.any():
        late_s[is_update] = np.minimum(late_s[is_update], _SEEN_WITHIN_S)
    knot_s, sigma_s = at_s - late_s / 2, late_s / np.sqrt(12)
    if clockwork.anchors_s and clockwork.sigma_s:
        _put_in_phase(knot_s, sigma_s, at_s, late_s, clockwork)
    return Knots(knot_s, energy_j, sigma_s, still_s, row)


def power_knots(at_s: Floats) -> Knots:
    """Knots at moments at which the counter is not known: the power takes over."""
    zeros, unknown = np.zeros(len(at_s)), np.full(len(at_s), np.nan)
    return Knots(at_s, unknown, zeros, zeros, np.zeros(len(at_s), np.intp))


def _put_in_phase(
    knot_s: Floats, sigma_s: Floats, read_s: Floats, late_s: Floats, clockwork: Clockwork
) -> None:
    """Knots near an update that was seen are whole periods from it, where that is clear."""
    period_s = clockwork.period_s
    for anchor_s in clockwork.anchors_s:
        reach_s = period_s * period_s / (12 * clockwork.sigma_s)
        low, high = np.searchsorted(read_s, (anchor_s - reach_s, anchor_s + reach_s))
        for at in range(int(low), int(high)):
            periods = (read_s[at] - anchor_s) / period_s
            unsure_s = 2 * abs(periods) * clockwork.sigma_s + _SEEN_WITHIN_S
            share = periods % 1.0
            is_clear = unsure_s < share * period_s < period_s - unsure_s
            guess_s = read_s[at] - share * period_s - _SEEN_WITHIN_S / 2
            if is_clear and guess_s > read_s[at] - late_s[at] and unsure_s / 2 < sigma_s[at]:
                knot_s[at], sigma_s[at] = guess_s, unsure_s / 2
