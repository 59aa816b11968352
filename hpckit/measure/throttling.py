"""For how long a GPU's clocks were held down, and by what."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hpckit.measure.gauges import Column
from hpckit.measure.growth import Counter, Growth
from hpckit.measure.sample_time import Stretch
from hpckit.model.account import Throttling

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

    def add(self, rows: dict[str, Column], stretch: Stretch, bits: Bits) -> Percents | None:
        """Its share of the time before each sample; None where nothing tells.

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
            return bits.percents(self._bits)
        return self._counted(grown, stretch)

    def seconds(self) -> float | None:
        """How long, None where neither says; counters first, as they miss nothing."""
        if self._counted_ms is not None:
            return min(self._counted_ms * US_PER_MS, self._held_us) / 1e6
        return None if self._bits_us is None else self._bits_us / 1e6

    def _counted(self, grown: Growth, stretch: Stretch) -> Percents:
        is_known = int(grown.min()) >= 0
        if int(grown.max()) >= 0:
            known = grown if is_known else np.maximum(grown, 0)
            self._counted_ms = (self._counted_ms or 0) + int(known.sum(dtype=np.int64))
        if is_known and not int(grown.max()):
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

    def add(self, rows: dict[str, Column], stretch: Stretch) -> dict[str, Percents | None]:
        """For drawing: `slowed` by heat or the power brake, `capped` by the power limit."""
        bits = Bits(rows["event_reasons"])
        shares = {name: cause.add(rows, stretch, bits) for name, cause in self._causes.items()}
        slowed = _greater(shares["thermal"], shares["power_brake"])
        return {"slowed": slowed, "capped": shares["power_cap"]}

    def throttling(self) -> Throttling:
        """Seconds by cause."""
        seconds = {name: cause.seconds() for name, cause in self._causes.items()}
        return Throttling(
            power_cap_s=seconds["power_cap"],
            thermal_s=seconds["thermal"],
            power_brake_s=seconds["power_brake"],
        )


def _greater(one: Percents | None, other: Percents | None) -> Percents | None:
    if one is None or other is None:
        return other if one is None else one
    return np.fmax(one, other)
