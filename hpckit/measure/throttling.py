"""For how long a GPU's clocks were held down, and by what."""

from __future__ import annotations

from typing import Final

import numpy as np

from hpckit.measure.counters import Counter
from hpckit.measure.gauges import Column
from hpckit.measure.sample_time import Numbers, Stretch
from hpckit.model.account import Throttling

MS_PER_S: Final = 1000
SW_POWER_CAP: Final = 0x4
SW_THERMAL: Final = 0x20
HW_THERMAL: Final = 0x40
HW_POWER_BRAKE: Final = 0x80
"""nvml.h, nvmlClocksEventReason*. HwSlowdown (0x8) is not among them: it is any of the last two."""

WHOLE: Final = 10_000
"""100 %, in hundredths."""

_NONE: Final = 0xFFFF_FFFF
_CAUSES: Final = {
    "power_cap": (("sw_power_cap_ms",), SW_POWER_CAP),
    "thermal": (("sw_thermal_ms", "hw_thermal_ms"), SW_THERMAL | HW_THERMAL),
    "power_brake": (("hw_power_brake_ms",), HW_POWER_BRAKE),
}


class _Cause:
    """One cause: by its cumulative counters, and where a GPU has none by its bits."""

    def __init__(self, names: tuple[str, ...], bits: int, held_us: int) -> None:
        self._names, self._bits, self._held_us = names, bits, held_us
        self._counters = {name: Counter(MS_PER_S, held_us) for name in names}
        self._counted_ms: int | None = None
        self._bits_us: int | None = None

    def add(self, rows: dict[str, Column], stretch: Stretch) -> Numbers | None:
        """Its share of the time before each sample in hundredths of a percent, -1 if unknown.

        Of two counters the greater growth counts: what both count is one time, not two.
        """
        grown: Numbers | None = None
        for name, counter in self._counters.items():
            one = counter.add(rows[name], stretch.at_us)
            if one is not None:
                grown = one if grown is None else np.maximum(grown, one)
        if grown is not None and int(grown.max()) >= 0:
            self._counted_ms = (self._counted_ms or 0) + int(np.maximum(grown, 0).sum())
        return self._with_bits(rows["event_reasons"], grown, stretch)

    def seconds(self) -> float | None:
        """How long, None where neither says; counters first, as they miss nothing."""
        if self._counted_ms is not None:
            return min(self._counted_ms * 1000, self._held_us) / 1e6
        return None if self._bits_us is None else self._bits_us / 1e6

    def _with_bits(
        self, reasons: Column, grown: Numbers | None, stretch: Stretch
    ) -> Numbers | None:
        told = reasons != _NONE
        if told.any():
            on = told & ((reasons & self._bits) != 0)
            self._bits_us = (self._bits_us or 0) + int(stretch.weight_us[on].sum())
            shares = np.where(told, np.where(on, WHOLE, 0), -1)
        elif grown is None:
            return None
        else:
            shares = np.full(len(reasons), -1, np.int64)
        if grown is None:
            return shares
        counted = grown * (1000 * WHOLE) // np.maximum(stretch.apart_us, 1)
        return np.where(grown >= 0, np.minimum(counted, WHOLE), shares)


class ThrottlingFold:
    """The three causes of one GPU; add and seconds as in GpuUsageFold."""

    def __init__(self, held_us: int) -> None:
        self._causes = {
            name: _Cause(names, bits, held_us) for name, (names, bits) in _CAUSES.items()
        }

    def add(
        self, rows: dict[str, Column], stretch: Stretch
    ) -> tuple[Numbers | None, Numbers | None]:
        """Shares of the time before each sample, for drawing: heat or brake, and power cap."""
        shares = {name: cause.add(rows, stretch) for name, cause in self._causes.items()}
        return _greater(shares["thermal"], shares["power_brake"]), shares["power_cap"]

    def throttling(self) -> Throttling:
        """Seconds by cause."""
        seconds = {name: cause.seconds() for name, cause in self._causes.items()}
        return Throttling(
            power_cap_s=seconds["power_cap"],
            thermal_s=seconds["thermal"],
            power_brake_s=seconds["power_brake"],
        )


def _greater(one: Numbers | None, other: Numbers | None) -> Numbers | None:
    if one is None or other is None:
        return other if one is None else one
    return np.maximum(one, other)
