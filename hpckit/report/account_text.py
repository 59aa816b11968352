"""A job's report on one screen: the answer first, the reason beside it, the next command last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.model.account import Advice, AdviceOutcome, JobReport, ReportFinding
from hpckit.report.account_words import (
    energy_parts,
    gpu_parts,
    memory_parts,
    rank_parts,
    throttling_parts,
)
from hpckit.report.line import wrapped
from hpckit.report.quantities import energy, gpu_time, plural, quantity
from hpckit.units import format_duration

SCREEN_LINES: Final = 24
_LABEL: Final = 8
_SEVERITIES: Final = ("error", "warning", "note")
_RUNNING: Final = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Row:
    """A labelled row: its parts stay whole where they fit, and it has `most` lines at most."""

    label: str
    parts: Sequence[str]
    most: int = 3


def is_running(report: JobReport) -> bool:
    """Whether there will be more of this job than the report has."""
    return report.job.state in _RUNNING


def report_lines(
    report: JobReport, *, width: int = 80, next_commands: Sequence[str] = ()
) -> list[str]:
    """The screen, a line each, at most SCREEN_LINES of `width` columns.

    What there is no room for is counted at the end of its row; --json has it.
    """
    rows = [
        _Row(label="energy", parts=energy_parts(report), most=4),
        _Row(label="GPUs", parts=gpu_parts(report)),
        _Row(label="ranks", parts=rank_parts(report), most=3),
        _Row(label="memory", parts=memory_parts(report), most=1),
        _Row(label="clocks", parts=throttling_parts(report), most=2),
        *_listed("found", [_finding(one) for one in _by_severity(report.findings)], 8),
        *_listed("advice", [_advice(one) for one in report.advice], 3),
        *_listed("advised", [_outcome(one) for one in report.outcomes], 3),
        *_listed("missing", report.missing, 2),
    ]
    lines = _wrapped(_Row(label="", parts=headline(report), most=3), width, is_head=True)
    tail = _wrapped(_Row(label="next", parts=_joined(next_commands), most=2), width)
    for row in rows:
        lines += _wrapped(row, width)
    room = SCREEN_LINES - len(tail)
    if len(lines) > room:
        lines = [*lines[: room - 1], " …        more in --json"]
    return [*lines, *tail]


def headline(report: JobReport) -> list[str]:
    """What the report is about: job, state, time, size."""
    job = report.job
    name = " ".join(word for word in (job.name, job.job_id) if word)
    if job.array_task is not None and not (job.job_id or "").endswith(f"_{job.array_task}"):
        name += f" task {job.array_task}"
    took = format_duration(max(0.0, report.ended_s - report.started_s))
    size = f"{plural(job.gpus, 'GPU')} on {plural(job.nodes, 'node')}"
    parts = [name or "samples", _state(report, took), size, *_requeues(report)]
    if job.synthetic:
        parts.append("synthetic: a made-up driver measured")
    return _joined([part for part in parts if part])


def _state(report: JobReport, took: str) -> str:
    job = report.job
    if is_running(report):
        return f"{job.state} for {took} so far"
    code = f", exit code {job.exit_code}" if job.exit_code else ""
    return f"{job.state} in {took}{code}" if job.state else took


def _requeues(report: JobReport) -> list[str]:
    lost = [one for one in report.incarnations if one.is_lost]
    if not lost:
        return []
    lost_s = format_duration(sum(one.ended_s - one.started_s for one in lost))
    times = "once" if len(lost) == 1 else f"{len(lost)} times"
    lost_j = [one.gpu_energy.value_j for one in lost]
    known_j = [value_j for value_j in lost_j if value_j is not None]
    joules = f" and {energy(sum(known_j))}" if len(known_j) == len(lost_j) else ""
    return [f"requeued {times} (at most {lost_s}{joules} lost)"]


def _by_severity(findings: Sequence[ReportFinding]) -> list[ReportFinding]:
    known = {severity: place for place, severity in enumerate(_SEVERITIES)}
    return sorted(findings, key=lambda one: known.get(one.severity, len(known)))


def _finding(finding: ReportFinding) -> str:
    cost = [gpu_time(finding.wasted_gpu_s)] if finding.wasted_gpu_s else []
    cost += [energy(finding.wasted_j)] if finding.wasted_j else []
    wasted = f" ({', '.join(cost)})" if cost else ""
    remedy = f" → {finding.remedy}" if finding.remedy else ""
    subject = f"{finding.subject}: " if finding.subject else ""
    return f"{finding.severity}  {subject}{finding.because}{wasted}{remedy}"


def _advice(advice: Advice) -> str:
    was = f"{advice.now} → " if advice.now is not None else ""
    return f"{advice.key} {was}{advice.proposed}: {advice.because}"


def _outcome(outcome: AdviceOutcome) -> str:
    """Whether what an earlier report predicted came true."""
    words = {True: "held", False: "broken", None: "cannot tell"}[outcome.held]
    said = f"by report {outcome.report}: {outcome.key} {outcome.proposed}: {words}"
    numbers = [
        f"{quantity(outcome.quantity, value)} {what}"
        for value, what in ((outcome.predicted, "predicted"), (outcome.measured, "measured"))
        if value is not None
    ]
    return f"{said}, {outcome.because} ({', '.join(numbers)})" if numbers else said


def _listed(label: str, texts: Sequence[str], most: int) -> list[_Row]:
    """A row for each text, under one label; what does not fit into `most` lines is counted."""
    shown = texts if len(texts) <= most else texts[: most - 1]
    a_row = max(1, min(3, (most + 1) // max(1, len(shown))))
    rows = [
        _Row(label="" if place else label, parts=text.split(" "), most=a_row)
        for place, text in enumerate(shown)
    ]
    left = len(texts) - len(shown)
    return [*rows, _Row(label="", parts=[f"and {left} more in --json"])] if left else rows


def _joined(parts: Sequence[str]) -> list[str]:
    """Parts of which each but the first is led by the dot that parts them."""
    return [part if not place else f"· {part}" for place, part in enumerate(parts)]


def _wrapped(row: _Row, width: int, *, is_head: bool = False) -> list[str]:
    if not row.parts:
        return []
    first = " " if is_head else f" {row.label:<{_LABEL}} "
    further = "  " if is_head else " " * (_LABEL + 2)
    parts = tuple(piece for part in row.parts for piece in _fitting(part, width - len(further)))
    lines = wrapped(parts, width, first=first, further=further)
    if len(lines) > row.most:
        lines = lines[: row.most]
        lines[-1] = f"{lines[-1][: width - 2].rstrip()} …"
    return lines


def _fitting(part: str, room: int) -> list[str]:
    """A part as it is, or word by word where no line can hold it."""
    return [part] if len(part) <= room else part.split(" ")
