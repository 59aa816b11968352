"""Power readings as a curve: what its integral is, and how far it may be off.

Power sensors show a part of the time alone (accounting.md §3.2, arXiv 2312.02741): a window of so
many milliseconds each 100 ms. Times are seconds since a GPU's origin.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from hpckit.measure.rows import Floats
from hpckit.model.series import SampledGpu

GAIN_SIGMA_FRAC: Final = 0.05
"""Standard deviation of a board's gain, 1σ, against external meters: arXiv 2312.02741."""
MOST_W: Final = 5000.0
"""More than any GPU or module draws (GB300: 2,900 W); a reading above it is none."""
_IDLE_FRAC: Final = 0.08
"""Below this share of its limit no GPU that is on draws (H100: 70 of 700 W)."""
_MOST_GAP_PERIODS: Final = 3.0
_EDGE_FRAC: Final = 0.35
"""Of lag × step: at the most, what a ramp hides of a step that lies anywhere in it (1σ)."""
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
        reach_s = _MOST_GAP_PERIODS * period_s + sensor.lag_s
        middle_s = times_s - sensor.lag_s
        ends = (middle_s[0] - reach_s, middle_s[-1] + reach_s)
        self.at_s: Floats = np.concatenate(([ends[0]], middle_s, [ends[1]]))
        self.power_w: Floats = np.concatenate((power_w[:1], power_w, power_w[-1:]))
        self.last_s = float(middle_s[-1])
        self._lag_s = sensor.lag_s
        self._cumulate(sensor, period_s, limit_w)

    def _cumulate(self, sensor: Sensor, period_s: float, limit_w: float) -> None:
        span_s = np.diff(self.at_s)
        step_w = np.diff(self.power_w)
        mean_w = self.power_w[:-1] + step_w / 2
        is_gap = span_s > _MOST_GAP_PERIODS * period_s
        is_gap[[0, -1]] = False
        self.gaps_s = self.at_s[1:][is_gap]
        unsure_s = np.minimum(span_s, sensor.update_s) if sensor.window_s >= 1 else span_s
        sigma_j = np.abs(step_w) * unsure_s / np.sqrt(6)
        most_w = max(limit_w, float(self.power_w.max()))
        least_w = min(_IDLE_FRAC * limit_w, float(self.power_w.min()))
        range_w = np.maximum(most_w - mean_w, mean_w - least_w)
        if is_gap.any():
            sigma_j = np.where(is_gap, span_s * range_w / 2, sigma_j)
        seen_s = np.maximum(sensor.update_s, span_s / (1.1 if sensor.window_s >= 1 else 1.0))
        unseen_frac = np.maximum(0.0, 1 - sensor.window_s / seen_s)
        unseen_frac[is_gap] = 0.0
        if len(unseen_frac) > 2:  # noqa: PLR2004  the ends see what their neighbours see
            unseen_frac[0], unseen_frac[-1] = unseen_frac[1], unseen_frac[-2]
        self._cumulated = Totals(
            _sums(mean_w * span_s),
            _sums(np.where(is_gap, 0.0, span_s)),
            _sums(sigma_j**2),
            _sums(unseen_frac * range_w * span_s),
        )

    def totals(self, at_s: Floats) -> Totals:
        """The integrals up to each moment; before and behind the readings nothing is added."""
        inside = np.clip(at_s, self.at_s[0], self.at_s[-1])
        left = np.clip(np.searchsorted(self.at_s, inside, side="right") - 1, 0, len(self.at_s) - 2)
        span_s = self.at_s[left + 1] - self.at_s[left]
        over_s = inside - self.at_s[left]
        part = over_s / span_s
        slope_w = (self.power_w[left + 1] - self.power_w[left]) * part / 2
        energy_j = self._cumulated.energy_j[left] + (self.power_w[left] + slope_w) * over_s
        others = (
            total[left] + part * (total[left + 1] - total[left]) for total in self._cumulated[1:]
        )
        return Totals(energy_j, *others)

    def edge_variance(self, at_s: Floats) -> Floats:
        """The variance (J²) of the integral up to a moment, since a reading is of what was around.

        A step of the power within a window of one second is a ramp in the readings.
        """
        around = np.array([-1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5])[:, np.newaxis] * self._lag_s
        near_w = np.interp(at_s + around, self.at_s, self.power_w)
        variance: Floats = (_EDGE_FRAC * self._lag_s * np.ptp(near_w, axis=0)) ** 2
        return variance

    def power_at(self, at_s: float) -> float:
        """The power at a moment, the nearest reading's outside of them."""
        return float(np.interp(at_s, self.at_s, self.power_w))


def _sums(values: Floats) -> Floats:
    return np.concatenate(([0.0], np.cumsum(values)))
