"""hpckit.account.host: how many CPUs were enough, from a counter of CPU time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from hpckit.account.host import NOT_MEASURED, CpuNeed

SECOND_NS = 10**9


def readings(busy: Sequence[float], every_s: float = 5.0) -> tuple[list[float], list[int]]:
    """When the counter was read, and what it showed while so many CPUs were busy in between."""
    grown = np.cumsum([0.0, *(one * every_s * 1e6 for one in busy)])
    return [at * every_s for at in range(len(grown))], [int(one) + 7 * 10**6 for one in grown]


def enough(at_s: Sequence[float], values: Sequence[int], pieces: int = 1) -> float | None:
    """Of these readings, in so many chunks."""
    need = CpuNeed()
    times_ns = np.array([round(at * SECOND_NS) for at in at_s], np.int64)
    for part in np.array_split(np.arange(len(times_ns)), pieces):
        need.add(times_ns[part], np.array(values, np.uint64)[part])
    return need.enough()


@pytest.mark.parametrize(
    ("busy", "every_s", "cpus", "within"),
    [
        ([4.0] * 100, 5.0, 4 / 1.01, 1e-6),
        # All of 32 CPUs for a twentieth of the time are needed, although 2 are busy on average.
        ([32.0] * 36 + [0.5] * 684, 5.0, 32 * 0.05 / 0.06, 1e-6),
        # Five seconds on 32 CPUs in a day may take a minute.
        ([32.0] + [1.0] * 17_279, 5.0, 1.0, 0.2),
        # In the first minute the host is read more often, which makes no bursts of it.
        ([5.0 if at % 5 == 0 else 0.0 for at in range(60)], 1.0, 1 / 1.01, 0.02),
    ],
)
def test_what_is_enough(busy: list[float], every_s: float, cpus: float, within: float) -> None:
    """What is kept busy all the time, but for the 1 % that it may take longer."""
    assert enough(*readings(busy, every_s)) == pytest.approx(cpus, rel=within)


def test_a_reading_before_the_count_is_no_pause() -> None:
    """Where a counter is brought up to date now and then a moment late, no burst comes of it."""
    at_s, values = readings([2.0] * 100)
    values[50] = values[49]
    assert enough(at_s, values) == pytest.approx(2 / 1.01)


def test_a_counter_that_was_set_back() -> None:
    """Work that a reset hides is not made up, and none is negative."""
    at_s, values = readings([2.0] * 100)
    values = [one - values[60] if at >= 60 else one for at, one in enumerate(values)]
    assert enough(at_s, values) == pytest.approx(2 / 1.01, rel=0.01)


@pytest.mark.parametrize("values", [[], [7], [NOT_MEASURED, NOT_MEASURED, 7]])
def test_less_than_two_readings_tell_nothing(values: list[int]) -> None:
    """Not measured is None."""
    assert enough([5.0 * at for at in range(len(values))], values) is None
