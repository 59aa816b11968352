"""Power readings as a curve: what its integral is, and how far it may be off.

Power sensors show a part of the time alone (accounting.md §3.2, arXiv 2312.02741): a window of so
many milliseconds each 100 ms. Times are seconds since a GPU's origin.
"""

from __future__ import annotations

import functools
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.rows import Floats
from hpckit.model.series import SampledGpu

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
    def _energy_j(self) -> Floats:
        return _sums(self._mean_w * self._span_s)

    @functools.cached_property
    def _others(self) -> tuple[Floats, Floats, Floats]:
        """Time, variance and bound, cumulated."""
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
        """The segment that each moment is in, and how long after its begin."""
        inside = np.minimum(np.maximum(at_s, self.at_s[0]), self.at_s[-1])
        left = np.searchsorted(self.at_s[:-1], inside, side="right") - 1
        return left, inside - self.at_s[left]

    def energy_j(self, at_s: Floats) -> Floats:
        """The integral up to each moment; before and behind the readings nothing is added."""
        left, over_s = self._places(at_s)
        part = over_s / self._span_s[left]
        slope_w = (self.power_w[left + 1] - self.power_w[left]) * part / 2
        energy: Floats = self._energy_j[left] + (self.power_w[left] + slope_w) * over_s
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
