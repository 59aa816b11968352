"""Findings that are alike on several nodes are one sentence."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from hpckit.account.finding import (
    Clause,
    Figure,
    ReportFinding,
    Subject,
    Unit,
    finding,
    grouped,
    said,
    seconds,
    share,
)
from hpckit.core.findings import Severity


def late(
    node: str, last_s: float = 330.0, gpus: str = "GPU0-7", wasted_gpu_s: float | None = 10.0
) -> ReportFinding:
    """GPUs of a node that did nothing at the end."""
    return finding(
        "late-idle",
        Severity.WARNING,
        Subject(what=gpus, nodes=(node,)),
        said("idle for the last {} of {}", seconds(last_s), seconds(1200)),
        "check the end of the logs",
        wasted_gpu_s=wasted_gpu_s,
    )


def because(*evidence: tuple[Clause, ...]) -> str:
    """The evidence of the one group that findings of n1, n2, … with such evidence are."""
    about = [Subject(nodes=(f"n{at}",)) for at in range(len(evidence))]
    (one,) = grouped(
        finding("a", Severity.NOTE, *both) for both in zip(about, evidence, strict=True)
    )
    return one.because


def test_nodes_are_folded_in_their_order() -> None:
    """However the findings came, the nodes are one sorted list, and their cost is a sum."""
    (one,) = grouped([late("c3"), late("c2"), late("c1"), late("c10")])
    assert (one.subject, one.wasted_gpu_s) == ("GPU0-7 on c[1-3,10]", 40.0)
    assert one.because == late("c3").because


def test_figures_that_differ_a_little_are_a_range() -> None:
    """From the least to the most; times by their length, not by their letters."""
    (one,) = grouped([late("c1", 598.0), late("c2", 602.0), late("c3", 599.0)])
    assert one.because == "idle for the last 9:58–10:02 of 20:00"


@pytest.mark.parametrize(
    ("least", "most", "told"),
    [
        (share(0.09), share(0.12), "9–12 %"),
        (seconds(5.1), seconds(8.3), "5.1–8.3 s"),
        (seconds(50), seconds(62), "50 s–1:02"),
        (Figure(1200, Unit.MHZ), Figure(1755, Unit.MHZ), "1200–1755 MHz"),
        (share(0.541), share(0.544), "54 %"),
        (share(0.0001), share(0.0004), "<0.1 %"),
    ],
)
def test_a_range_says_a_unit_once_that_both_ends_have(
    least: Figure, most: Figure, told: str
) -> None:
    """And ends that read the same are one figure."""
    assert because(said("{}", most), said("{}", least)) == told


@pytest.mark.parametrize(
    "other",
    [
        late("c2", 900.0),
        late("c2", gpus="GPU0-6"),
        late("c1"),
        dataclasses.replace(late("c2"), about=Subject()),
    ],
)
def test_what_is_not_alike_stands_alone(other: ReportFinding) -> None:
    """Of another length, of other GPUs, of the same node, or about no node."""
    assert grouped([late("c1"), other]) == (late("c1"), other)


def test_ranks_of_a_group_are_those_of_all() -> None:
    """Each node has its own ranks, which keep nothing apart; a GPU without any stands alone."""
    hot = said("power limit {}", Figure(400, Unit.WATTS))
    abouts = [Subject(what="GPU3", nodes=(f"c{at}",), ranks=(8 * at + 3,)) for at in (2, 1)]
    abouts.append(Subject(what="GPU3", nodes=("c3",)))
    told = [one.subject for one in grouped(finding("a", Severity.NOTE, one, hot) for one in abouts)]
    assert told == ["ranks 11,19, GPU3 on c[1-2]", "GPU3 on c3"]


def test_a_run_after_a_requeue_is_one_of_its_own() -> None:
    """Nodes are folded within a run of the job, which the subject names."""
    again = [
        finding(one.rule, one.severity, replace(one.about, restart=1), one.evidence, one.remedy)
        for one in (late("c1"), late("c2"))
    ]
    told = [one.subject for one in grouped([late("c1"), *again, late("c2")])]
    assert told == ["GPU0-7 on c[1-2]", "GPU0-7 on c[1-2] (restart 1)"]
