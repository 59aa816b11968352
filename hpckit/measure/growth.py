"""How much a counter of the samples has grown: modulo its size, and across resets."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.gauges import ALL, Column, measured_mask
from hpckit.measure.sample_time import Numbers

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
        if peak and (peak > SLACK_US * self._most_per_us or self._leaves(last[1], at_us)):
            growth = self._believed(growth, values, np.diff(at_us, prepend=last[1]), at_us)
            grown = int(growth.sum(dtype=np.int64))
        elif peak * len(growth) < _SIZE:
            grown = (int(values[-1]) - last[0]) % _SIZE
        else:
            grown = int(growth.sum(dtype=np.int64))
        self.total = (self.total or 0) + grown
        return growth.view(np.int32)

    def _leaves(self, first_us: int, at_us: Numbers) -> bool:
        return first_us < 0 or int(at_us[-1]) > self._held_us

    def _believed(
        self, growth: NDArray[Any], values: Column, apart: Numbers, at_us: Numbers
    ) -> NDArray[Any]:
        most = np.minimum((apart + SLACK_US) * self._most_per_us, _HALF)
        again = np.where(values <= most, values, 0)
        believed = np.where(growth > most, again, growth)
        inside = np.clip(at_us, 0, self._held_us) - np.clip(at_us - apart, 0, self._held_us)
        part = inside / np.maximum(apart, 1)
        return np.where(inside == apart, believed, believed * part).astype(np.uint32)
