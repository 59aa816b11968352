"""Findings that are alike on several nodes are one sentence."""

from __future__ import annotations

import pytest

from hpckit.model.report_finding import ReportFinding
from hpckit.report.finding_groups import grouped

NODES = frozenset({"c1", "c2", "c3", "c4", "c10"})


def late(
    node: str, last: str = "5:30", gpus: str = "GPU0-7 on ", wasted_gpu_s: float | None = 10.0
) -> ReportFinding:
    """GPUs of a node that did nothing at the end."""
    return ReportFinding(
        rule="late-idle",
        severity="warning",
        subject=f"{gpus}{node}",
        because=f"nothing ran in the last {last} of 20:00",
        remedy="look at the end of the logs",
        wasted_gpu_s=wasted_gpu_s,
    )


def test_nodes_are_folded_in_their_order() -> None:
    """However the findings came, the nodes are one sorted list, and their cost is a sum."""
    (one,) = grouped([late("c3"), late("c2"), late("c1"), late("c10")], NODES)
    assert (one.subject, one.wasted_gpu_s) == ("GPU0-7 on c[1-3,10]", 40.0)
    assert one.because == late("c3").because


def test_figures_that_differ_a_little_are_a_range() -> None:
    """From the least to the most; times by their length, not by their letters."""
    (one,) = grouped([late("c1", "9:58"), late("c2", "10:02"), late("c3", "9:59")], NODES)
    assert one.because == "nothing ran in the last 9:58–10:02 of 20:00"


@pytest.mark.parametrize(
    "other",
    [late("c2", "15:00"), late("c2", gpus="GPU0-6 on "), late("c1"), late("elsewhere")],
)
def test_what_is_not_alike_stands_alone(other: ReportFinding) -> None:
    """Of another length, of other GPUs, of the same node, or on what is no node of the job."""
    assert grouped([late("c1"), other], NODES) == (late("c1"), other)


def test_a_subject_may_be_a_node_alone() -> None:
    """As of a rule about a node; an unknown cost makes the sum unknown."""
    (one,) = grouped([late("c2", gpus=""), late("c1", gpus="", wasted_gpu_s=None)], NODES)
    assert (one.subject, one.wasted_gpu_s) == ("c[1-2]", None)
