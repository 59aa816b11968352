"""What every Clock does."""

from __future__ import annotations

from hpckit.core.files import Clock


def test_sleeping_passes_time(clock: Clock) -> None:
    """After a sleep of 20 ms the clock shows at least 20 ms more."""
    before_s = clock.now_s()
    clock.sleep(0.02)
    assert clock.now_s() - before_s >= 0.0199
