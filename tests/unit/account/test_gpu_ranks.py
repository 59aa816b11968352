"""hpckit.account.values: the ranks of a GPU."""

from __future__ import annotations

from msgspec.structs import replace

from hpckit.account.values import ranks_by_gpu
from tests.fakes.reports import clean


def test_a_rank_that_was_started_anew_has_a_gpu_once() -> None:
    """Every rank of a GPU is named, and each start of it is the same rank."""
    one = replace(clean().ranks[0], rank=7)
    report = replace(clean(), ranks=(one, replace(one, rank=2), one))
    assert ranks_by_gpu(report) == {(0, one.node, one.gpus[0]): (2, 7)}


def test_a_gpu_that_two_nodes_name_has_the_ranks_of_each() -> None:
    """A copied file does not give a node the ranks of another."""
    one = clean().ranks[0]
    report = replace(clean(), ranks=(one, replace(one, rank=1, node="copy")))
    assert list(ranks_by_gpu(report).values()) == [(0,), (1,)]
