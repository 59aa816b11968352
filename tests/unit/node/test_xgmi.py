"""What follows from two GPUs' reports of each other."""

from __future__ import annotations

import pytest

from hpckit.node.capture.xgmi import PairReport, unknown_of_links, xgmi_link
from hpckit.node.topology import LinkKind


def report(least: int, most: int, weight: int = 15) -> PairReport:
    """A pair with XGMI."""
    return PairReport(
        kind=LinkKind.XGMI, weight=weight, min_mbytes_per_s=least, max_mbytes_per_s=most
    )


@pytest.mark.parametrize(
    ("least", "most", "count"),
    [(50000, 50000, 1), (50000, 200000, 4), (50000, 120000, None), (1, 99, None), (0, 50000, None)],
)
def test_links_are_a_whole_number(least: int, most: int, count: int | None) -> None:
    """The most is a small multiple of one link, or nothing is said of the number."""
    assert report(least, most).count == count


def test_of_two_directions_the_smaller_counts() -> None:
    """Where two GPUs differ on their link the smaller figures are its own."""
    link = xgmi_link(0, 1, report(50000, 200000), report(50000, 100000))
    assert (link.count, link.bandwidth_bytes_per_s) == (2, 1e11)
    link = xgmi_link(0, 1, report(0, 0), report(50000, 100000))
    assert (link.count, link.bandwidth_bytes_per_s) == (2, 1e11)


def test_a_count_that_does_not_come_out_has_its_reason() -> None:
    """Bandwidth without a count is told of once, however many links have it."""
    link = xgmi_link(0, 1, report(50000, 120000), report(50000, 120000))
    (one,) = unknown_of_links([link, link], because="-")
    assert one.what == "count of XGMI links of weight 15"
    assert one.because == "the bandwidth is no whole number of links"
