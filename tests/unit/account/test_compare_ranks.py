"""Jobs without a measured GPU compared by their ranks: all of them, or it is not known."""

from __future__ import annotations

import pytest

from hpckit.account.compare.compare import ComparedSide, compare_ranks
from hpckit.account.compare.show import Comparison, Verdict
from tests.fakes.measured_jobs import incarnation, rank, report


def side(ranks: int, world_size: int | None = 4, *missing: str) -> ComparedSide:
    """A job of which so many ranks left a ledger, of 100 s CPU time each."""
    left = [rank(number, cpu_s=100.0, max_rss_bytes=1 << 30) for number in range(ranks)]
    made = report(ranks=tuple(left), missing=missing, incarnations=(incarnation(0, 60.0),))
    return ComparedSide(report=made, chunks=(), world_size=world_size)


def of_ranks(comparison: Comparison) -> list[tuple[float | None, float | None, str]]:
    """Both values and the reason of what ranks used; none has a verdict."""
    found = [one for one in comparison.quantities if one.name in ("cpu_s", "max_rss_bytes")]
    assert {one.verdict for one in found} == {Verdict.NOT_KNOWN}
    return [(one.a, one.b, one.because) for one in found]


@pytest.mark.parametrize(
    ("a", "b", "because"),
    [
        (side(4), side(3), "1 of 4 ranks has no ledger in B"),
        (
            side(1),
            side(2),
            "3 of 4 ranks have no ledger in A; 2 of 4 ranks have no ledger in B",
        ),
        (side(3), side(0, None), "1 of 4 ranks has no ledger in A; not measured in B"),
    ],
)
def test_a_sum_without_some_ranks_is_none(a: ComparedSide, b: ComparedSide, because: str) -> None:
    """A part of the ranks is no smaller job: how many have no ledger is said."""
    for was, is_now, why in of_ranks(compare_ranks(a, b)):
        assert (was is None, is_now is None) == (" in A" in because, " in B" in because)
        assert why == because


def test_ranks_that_do_not_say_how_many_they_are_are_all() -> None:
    """Without a world size those that left a ledger count."""
    assert of_ranks(compare_ranks(side(3, None), side(4, None)))[0][:2] == (300.0, 400.0)


def test_what_a_report_lacks_is_noted() -> None:
    """The note names the side."""
    notes = compare_ranks(side(4), side(4, 4, "rank-9.ledger is empty")).notes
    assert notes[-1] == "B is incomplete: its own report says what is missing"
    assert not any("of A" in note for note in notes)
