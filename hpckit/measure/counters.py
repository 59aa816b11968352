"""How much a counter of the samples has grown: modulo its size, and across resets."""

from __future__ import annotations

from typing import Final

import numpy as np

from hpckit.measure.gauges import ALL, Column, measured_mask
from hpckit.measure.sample_time import Numbers

SLACK_US: Final = 2_000_000
"""How late a counter may be written: growth of this much more time than has passed is believed."""

_SIZE: Final = 1 << 32
_HALF: Final = _SIZE // 2


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

    def add(self, values: Column, at_us: Numbers) -> Numbers | None:
        """The growth that ends at each sample, -1 where none is known; None: at none of them."""
        mask = measured_mask(values)
        if mask is ALL:
            return self._grown(values, at_us)
        if not mask.any():
            return None
        growth = np.full(len(values), -1, np.int64)
        growth[mask] = self._grown(values[mask], at_us[mask])
        return growth

    def _grown(self, values: Column, at_us: Numbers) -> Numbers:
        last, self._last = self._last, (int(values[-1]), int(at_us[-1]))
        if last is None:
            growth = np.full(1, -1, np.int64)
            if len(values) == 1:
                return growth
            last, values, at_us = (int(values[0]), int(at_us[0])), values[1:], at_us[1:]
            return np.concatenate([growth, self._since(last, values, at_us)])
        return self._since(last, values, at_us)

    def _since(self, last: tuple[int, int], values: Column, at_us: Numbers) -> Numbers:
        before, moment = last
        if before == int(values.max()) == int(values.min()):  # nearly always of most counters
            self.total = self.total or 0
            return np.zeros(len(values), np.int64)
        growth = np.empty(len(values), np.int64)
        growth[0] = (int(values[0]) - before) % _SIZE
        growth[1:] = values[1:] - values[:-1]  # modulo 2^32, as unsigned numbers are subtracted
        apart = np.empty_like(at_us)
        apart[0] = at_us[0] - moment
        apart[1:] = at_us[1:] - at_us[:-1]
        most = np.minimum((apart + SLACK_US) * self._most_per_us, _HALF)
        odd = growth > most
        if odd.any():
            again = values.astype(np.int64)
            growth = np.where(odd, np.where(again <= most, again, 0), growth)
        growth = self._inside(growth, at_us, apart)
        self.total = (self.total or 0) + int(growth.sum())
        return growth

    def _inside(self, growth: Numbers, at_us: Numbers, apart: Numbers) -> Numbers:
        if int(at_us[0] - apart[0]) >= 0 and int(at_us[-1]) <= self._held_us:
            return growth
        inside = np.clip(at_us, 0, self._held_us) - np.clip(at_us - apart, 0, self._held_us)
        # In two steps, as growth × µs may not fit in 64 bits.
        part = inside / np.maximum(apart, 1)
        return np.where(inside == apart, growth, (growth * part).astype(np.int64))
