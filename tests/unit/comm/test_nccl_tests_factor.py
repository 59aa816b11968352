"""Which collective a table is of, by its figures alone."""

from __future__ import annotations

import pytest

from hpckit.comm.run.result import BusbwFigures, BusbwRow, collective_of


def table(factor: float, redop: str | None = "sum", root: int | None = -1) -> list[BusbwRow]:
    """Two sizes, of which the smaller is all rounding."""
    small = BusbwFigures(time_s=1e-5, algbw_bytes_per_s=0.0, busbw_bytes_per_s=0.01e9)
    large = BusbwFigures(time_s=1e-2, algbw_bytes_per_s=195.8e9, busbw_bytes_per_s=195.8e9 * factor)
    return [
        BusbwRow(size_bytes=8, elements=2, redop=redop, root=root, out_of_place=small),
        BusbwRow(size_bytes=2**33, elements=2**31, redop=redop, root=root, in_place=large),
    ]


@pytest.mark.parametrize("ranks", [2, 3, 8, 16, 4096])
def test_what_reduces_is_told_by_its_factor(ranks: int) -> None:
    """AllReduce moves each byte twice and ReduceScatter once, less the rank's own part."""
    part = (ranks - 1) / ranks
    assert collective_of(table(2 * part), ranks) == "AllReduce"
    assert collective_of(table(part), ranks) == "ReduceScatter"
    assert collective_of(table(2 * part, root=None), ranks) == "AllReduce"


@pytest.mark.parametrize(
    ("rows", "ranks"),
    [
        (table(0.875, redop="none"), 8),
        (table(0.875, redop=None), 8),
        (table(1.0, root=0), 2),
        (table(1.5), 8),
        (table(0.0), 1),
        (table(1.75)[:1], 8),
        ([], 8),
    ],
)
def test_what_has_no_factor_to_itself_is_not_guessed(rows: list[BusbwRow], ranks: int) -> None:
    """AllGather and AllToAll share theirs, Reduce has a root, one rank has none."""
    assert collective_of(rows, ranks) is None
