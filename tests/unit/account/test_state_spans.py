"""hpckit.account.activity: what a GPU did while a rank had it; synthetic rows, one a second."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from hpckit.account.usage import GpuUsageFold
from tests.fakes.series import (
    ACCOUNT,
    BUSY,
    EMPTY,
    H100,
    IDLE,
    NO_GPM,
    SECOND_NS,
    SPIN,
    rows_of,
    times_of,
)

Row = dict[str, int]


def fracs(rows: Iterable[Row], *spans_s: tuple[float, float]) -> list[float | None]:
    """The useful parts of some spans of rows that end at 1, 2, 3 … s."""
    made = rows_of(rows)
    spans = [(int(first * SECOND_NS), int(last * SECOND_NS)) for first, last in spans_s]
    fold = GpuUsageFold(H100, 1.0, 0, len(made) * SECOND_NS)
    fold.watch(spans)
    fold.add(times_of(len(made)), made)
    fold.result(ACCOUNT)
    return [fold.useful_fracs[span] for span in spans]


def test_each_span_has_its_own_part() -> None:
    """A rank that idled and the one after it that worked are told apart."""
    assert fracs([IDLE] * 5 + [BUSY] * 5, (0, 5), (5, 10), (0, 10)) == [0.0, 1.0, 0.5]


def test_a_span_within_a_sample() -> None:
    """A sample stands for the time before it, of which a span has what is inside."""
    assert fracs([IDLE, BUSY, BUSY], (0.5, 2.0)) == [pytest.approx(1 / 1.5)]


def test_time_without_a_measurement_is_left_out() -> None:
    """Nothing is said of a span of which nothing is known, and of others by what is."""
    assert fracs([{}] * 4 + [BUSY, IDLE], (0, 4), (2, 6)) == [None, 0.5]


def test_quiet_kernels_are_judged_as_in_the_whole() -> None:
    """Where power tells that quiet kernels spun they are no use to any span either."""
    quiet = {**SPIN, **NO_GPM}
    found = fracs([EMPTY] * 2 + [quiet] * 4 + [BUSY] * 4, (2, 6), (4, 8))
    assert found == [pytest.approx(0.0), pytest.approx(0.5)]
