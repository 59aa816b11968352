"""A clock that passes time without waiting."""

from __future__ import annotations


class FakeClock:
    """Starts at `now_s`, seconds since the epoch; sleeping moves it on."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self._now_s = now_s
        self.slept_s: list[float] = []

    def now_s(self) -> float:
        """Seconds since the epoch."""
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Move on by `seconds` at once."""
        self.slept_s.append(seconds)
        self._now_s += seconds
