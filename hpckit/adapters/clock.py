"""The machine's clock."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Time, so that waiting can be tested without waiting."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        ...


class SystemClock:
    """Wall-clock time and real sleeping."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        time.sleep(seconds)
