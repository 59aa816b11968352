"""What nccl-tests measured, beside what was predicted: when that is a reproach, and when not."""

from __future__ import annotations

import pytest

from hpckit.comm.run.nccl_tests import parse_nccl_run
from hpckit.comm.run.rules import shortfall_findings
from hpckit.comm.run.rules_result import ExpectedRun
from hpckit.core.findings import Severity
from tests.unit.comm.test_nccl_shortfall import END, HEAD, row

PREDICTED = ExpectedRun(busbw=(("AllReduce", 720e9), ("AllToAll", 62e9)), bounds=("AllToAll",))


def below(text: str) -> tuple[Severity, str]:
    """How grave it is that a run is below what was predicted, and its words."""
    found = shortfall_findings(parse_nccl_run(text), PREDICTED)
    (one,) = (each for each in found if each.rule == "below-predicted")
    return one.severity, one.because


@pytest.mark.parametrize(("size", "busbw"), [(2**26, 400.6), (2**28, 600.0)])
def test_small_messages_are_no_reproach(size: int, busbw: float) -> None:
    """To 128 MiB, as the README of nccl-tests runs, 8 B200 are healthy at half of their plateau."""
    severity, because = below(HEAD + row(size, busbw) + END)
    assert severity is Severity.NOTE
    assert "is small" in because


def test_a_figure_that_still_rises_is_no_reproach() -> None:
    """On many nodes the plateau begins later."""
    severity, because = below(HEAD + row(2**30, 200) + row(2**31, 300) + END)
    assert severity is Severity.NOTE
    assert "larger messages may reach more" in because


def test_large_messages_are_one() -> None:
    """From 1 GiB on it is a warning."""
    assert below(HEAD + row(2**29, 395) + row(2**30, 400) + END)[0] is Severity.WARNING


def test_all_to_all_is_held_against_no_model() -> None:
    """DGX H100 are published at 77 % of what their NICs allow on 4 nodes."""
    text = HEAD.replace("all_reduce", "alltoall") + row(2**33, 48) + END
    severity, because = below(text)
    assert severity is Severity.NOTE
    assert "no model says how much of it is reached" in because


def test_ranks_that_each_ran_alone_are_told() -> None:
    """Without MPI every process prints a table of its own, whose bus bandwidth is 0."""
    rank = "#  Rank  0 Group  0 Pid   410{} on     n1 device  {} [0000:19:00] NVIDIA H100\n"
    ranks = "".join(rank.format(at, at) for at in range(8))
    found = shortfall_findings(parse_nccl_run(ranks + HEAD + 8 * row(2**33, 0) + END))
    assert [(one.rule, one.severity) for one in found] == [("alone", Severity.ERROR)]
    assert found[0].because == "AllReduce: 8 ranks ran, each alone"
