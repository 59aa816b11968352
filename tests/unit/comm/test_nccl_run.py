"""What nccl-tests measured: the plateau, and what was checked."""

from __future__ import annotations

import pytest

from hpckit.comm.run.log_lines import Communicator, NcclLog, NodeShare, Seen
from hpckit.comm.run.result import BusbwFigures, BusbwRow, NcclTest


def row(size_bytes: int, *busbw: float | None) -> BusbwRow:
    """A row with bus bandwidth in bytes/s, out of place and in place."""
    sides = [
        None
        if one is None
        else BusbwFigures(time_s=1.0, algbw_bytes_per_s=one, busbw_bytes_per_s=one, wrong=2)
        for one in busbw
    ]
    return BusbwRow(size_bytes=size_bytes, elements=1, out_of_place=sides[0], in_place=sides[1])


def test_the_plateau_leaves_small_messages_out() -> None:
    """A small message that happens to be fast, as from a cache, is not the plateau."""
    test = NcclTest(rows=(row(100, 9.0, 9.0), row(800, 5.0, 6.0), row(1600, 5.5, 5.0)))
    assert test.plateau_bytes_per_s == 6.0


@pytest.mark.parametrize("rows", [(), (row(0, 1.0, 1.0),), (row(8, None, None),)])
def test_there_is_no_plateau_without_a_measured_size(rows: tuple[BusbwRow, ...]) -> None:
    """No rows, size 0 alone, or nothing measured give None, not zero."""
    assert NcclTest(rows=rows).plateau_bytes_per_s is None


def test_wrong_elements_of_both_placements_count() -> None:
    """A placement that was not measured has none."""
    assert row(8, 1.0, 1.0).wrong == 4
    assert row(8, None, 1.0).wrong == 2


def communicator(rank: int, ranks: int) -> Seen[Communicator]:
    """A rank that wrote that it joined."""
    one = Communicator(
        host="n1", commid=None, rank=rank, ranks=ranks, device=0, event="Init COMPLETE"
    )
    return Seen(one, 1)


def test_nodes_are_known_where_all_ranks_wrote() -> None:
    """One host is one node only if nobody is missing."""
    both = (communicator(0, 2), communicator(1, 2))
    log = NcclLog(lines=2, hosts=("n1",), communicators=both)
    assert (log.nodes, log.ranks) == (1, 2)
    log = NcclLog(lines=1, hosts=("n1",), communicators=both[:1])
    assert log.nodes is None


def test_nodes_that_nccl_counts_are_believed() -> None:
    """Also where the file has the lines of one of them."""
    share = NodeShare(host="n1", ranks=16, nodes=2, local_ranks=8, is_mnnvl=False)
    log = NcclLog(lines=1, hosts=("n1",), shares=(Seen(share, 1),))
    assert log.nodes == 2
