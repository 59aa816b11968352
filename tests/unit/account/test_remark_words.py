"""Findings and advice on a crowded screen: what to do is said whole, whatever else is left out."""

from __future__ import annotations

import dataclasses

import pytest
from msgspec.structs import replace

from hpckit.account.finding import (
    Figure,
    ReportFinding,
    Subject,
    Unit,
    finding,
    said,
    seconds,
    share,
)
from hpckit.account.page.screen import SCREEN_LINES, report_lines
from hpckit.account.values import Advice, AdviceOutcome, JobReport
from hpckit.core.findings import Severity
from tests.fakes.reports import training

UNUSED = finding(
    "gpu-never-used",
    Severity.WARNING,
    Subject(what="GPU2", nodes=("n012",)),
    said("no process used it during the {} the job held it", seconds(111)),
    "request fewer GPUs, or find out why no rank started there: hpckit logs",
    wasted_gpu_s=111.0,
    wasted_j=7970.0,
)
BEHIND = finding(
    "straggler",
    Severity.WARNING,
    Subject(what="GPU3", nodes=("n013",), ranks=(11,)),
    said(
        "{} behind its peers: SMs busy {} of the time, peers {}",
        *map(share, (0.16, 0.95, 0.82)),
    )
    + said(
        "thermal throttling {} of the time, peers {}",
        *map(share, (0.54, 0.0)),
        rule="thermal-throttling",
    )
    + said("SM clock {}", Figure(1200, Unit.MHZ)),
    "if throttling or a link explains it tell your admins; meanwhile --exclude the node",
)
HOT = finding(
    "thermal-throttling",
    Severity.WARNING,
    Subject(what="GPU3", nodes=("n013",)),
    said("thermal throttling {} of the time, up to 87 °C", share(0.54)),
    "tell your admins: cooling, dust or a fan; meanwhile --exclude the node",
)
ADVICE = tuple(
    Advice(key=key, now=now, proposed=proposed, because="a reason of some length " * 8)
    for key, now, proposed in (
        ("resources.gpus_per_node", "8", "7"),
        ("resources.time_limit", "1:00:00", "0:50:00"),
        ("resources.mem", None, "4G"),
    )
)


def screen(report: JobReport, width: int = 80) -> str:
    """The screen with its line breaks undone."""
    lines = report_lines(report, width=width, next_commands=["hpckit report 4242 --html r.html"])
    assert len(lines) <= SCREEN_LINES
    assert max(len(line) for line in lines) <= width
    return " ".join(" ".join(lines).split())


def with_findings(*findings: ReportFinding) -> JobReport:
    """The training with these findings and all the advice."""
    return replace(training(), findings=findings, advice=ADVICE)


@pytest.mark.parametrize("width", [60, 80, 100])
@pytest.mark.parametrize("count", [0, 4, 20])
def test_advice_is_on_every_screen(width: int, count: int) -> None:
    """However many findings there are, each change that is advised is said."""
    text = screen(with_findings(*[UNUSED] * count), width)
    for one in ADVICE:
        was = f"{one.now} → " if one.now else ""
        assert f"{one.key} {was}{one.proposed}" in text


@pytest.mark.parametrize("width", [60, 80, 100])
def test_what_to_do_is_never_cut(width: int) -> None:
    """The evidence of a finding is shortened, its remedy is not."""
    text = screen(with_findings(UNUSED, BEHIND, HOT, UNUSED, BEHIND, HOT), width)
    begins = (" → if throttling", " → tell your", " → request")
    assert sum(map(text.count, begins)) >= (1 if width < 80 else 2)
    for one in (UNUSED, BEHIND, HOT):
        begin = " ".join(one.remedy.split()[:3])
        assert text.count(f"→ {begin}") == text.count(f"→ {one.remedy}")


def test_free_lines_are_for_the_evidence() -> None:
    """A cause that stands last in a long evidence is said where the screen has lines for it."""
    cause = "its rank ran on the CPUs of NUMA node 1, far from its GPU, which is on NUMA node 0"
    evidence = (*BEHIND.evidence, *said(cause))
    one = finding(BEHIND.rule, BEHIND.severity, BEHIND.about, evidence, BEHIND.remedy)
    text = screen(replace(training(), findings=(one,), advice=()))
    assert f"{cause} (0.0308 GPU-hours" in text or f"{cause} → if throttling" in text
    assert "…" not in text


def test_rows_are_whole_where_lines_are_free() -> None:
    """No row ends in the sign of a cut while the screen has lines that nothing is on."""
    lines = [
        f"GPU {number} of a node: a reason of some length that nobody shortens"
        for number in range(3)
    ]
    report = replace(training(), findings=(), advice=(), missing=tuple(lines))
    report = replace(report, cost=replace(report.cost, absent=tuple(lines[:2])))
    assert "…" not in screen(report)
    assert lines[2] in screen(report)


def test_findings_without_room_are_counted() -> None:
    """What is not on the screen is said to be in --json."""
    text = screen(with_findings(*[BEHIND] * 20))
    assert f"and {20 - text.count('warn rank 11')} more in --json" in text


def test_a_finding_says_something_of_its_evidence() -> None:
    """However long a remedy is, what it is for stands before it."""
    text = screen(with_findings(*[UNUSED] * 20), 60)
    assert "GPU2 on n012: no process used it" in text


def test_a_cause_with_a_finding_of_its_own_is_said_once() -> None:
    """What explains a straggler is left out where the same GPU has a finding about it."""
    text = screen(replace(with_findings(BEHIND, HOT), advice=()))
    assert text.count("thermal throttling") == 1
    assert "SM clock 1200 MHz" in text
    other = finding(HOT.rule, HOT.severity, replace(HOT.about, what="GPU4"), HOT.evidence)
    text = screen(replace(with_findings(BEHIND, other), advice=()))
    assert text.count("thermal throttling") == 2


def test_durations_have_one_spelling() -> None:
    """Slurm's 00:10:00 and the job file's 8:00:00 stand side by side without leading zeros."""
    one = Advice(
        key="resources.time_limit",
        now="8:00:00",
        proposed="00:10:00",
        because="it took 1:51 of 08:00:00, not 1-08:00:00",
    )
    text = screen(replace(training(), advice=(one,)))
    assert "8:00:00 → 0:10:00: it took 1:51 of 8:00:00, not 1-08:00:00" in text


def test_findings_alike_on_several_nodes_are_one_sentence() -> None:
    """Both nodes in one subject, in their order, with the sum of what both cost."""
    other = dataclasses.replace(UNUSED, about=replace(UNUSED.about, nodes=("n013",)))
    told = screen(with_findings(other, UNUSED), 100)
    assert "warn GPU2 on n[012-013]: no process used it during the 1:51" in told
    assert "GPU2 on n012" not in told


@pytest.mark.parametrize(("step", "nodes"), [(1, "n[0000-0299]"), (3, "300 nodes")])
def test_many_nodes_take_no_room_from_what_to_do(step: int, nodes: str) -> None:
    """Where a list of nodes or ranks is long their number stands for it."""
    abouts = [
        Subject(what="GPU3", nodes=(f"n{step * at:04d}",), ranks=(8 * at,)) for at in range(300)
    ]
    found = [
        finding(BEHIND.rule, BEHIND.severity, about, BEHIND.evidence, BEHIND.remedy)
        for about in abouts
    ]
    text = screen(with_findings(*found))
    assert f"warn 300 ranks, GPU3 on {nodes}: 16 % behind its peers" in text
    assert BEHIND.remedy in text


def outcome(**other: float | str | None) -> AdviceOutcome:
    """Fewer CPUs, as they were advised."""
    values = {"quantity": "cpu_s", "before": 747.0, "predicted": 93.0, "measured": 93.0, **other}
    return AdviceOutcome(
        report="7",
        key="resources.cpus_per_task",
        proposed="1",
        held=True,
        because="-88% against the run before the advice",
        **values,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (outcome(), "confirmed, CPU time 12:27 → 1:33 (predicted 1:33), -88% against"),
        (outcome(before=None), "confirmed, CPU time 1:33 (predicted 1:33), -88% against"),
        (outcome(measured=None), "confirmed, -88% against"),
        (
            outcome(quantity="elapsed_s", before=60.0, predicted=60.0, measured=50.0),
            "confirmed, duration 1:00 → 50 s, -88% against",
        ),
    ],
)
def test_an_outcome_says_which_quantity_went_from_what_to_what(
    told: AdviceOutcome, words: str
) -> None:
    """By its name, as 1:33 of CPU time is not how long a job took."""
    assert words in screen(replace(training(), outcomes=(told,), findings=()), 100)
