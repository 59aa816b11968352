"""The screen of a job array: what its tasks used together, and the tasks that stand out."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from hpckit.account.page.screen import is_about_gpus
from hpckit.account.values import JobReport
from hpckit.core.quantities import energy, gpu_time, percent, plural, whole_sum
from hpckit.core.text import dotted, row
from hpckit.core.units import format_duration, format_indices

_MOST_TASKS: Final = 10
_MOST_RULES: Final = 3


def array_lines(
    reports: Mapping[int, JobReport], *, width: int = 80, next_commands: Sequence[str] = ()
) -> list[str]:
    """The screen, a line each; `reports` are those of the tasks that left something."""
    first = next(iter(reports.values()))
    name = " ".join(word for word in (first.job.name, first.job.job_id) if word)
    states = Counter(report.job.state for report in reports.values() if report.job.state)
    said = [f"{count} {state}" for state, count in states.most_common()]
    head = [name or "samples", plural(len(reports), "measured task"), ", ".join(said)]
    lines = row("", dotted([part for part in head if part]), width, most=2, is_head=True)
    lines += row("GPUs", dotted(_gpus(list(reports.values()))), width, most=2)
    lines += row("time", dotted(_times(reports)), width, most=2)
    shown = sorted(reports, key=lambda task: _rank(reports[task]))[:_MOST_TASKS]
    for task in sorted(shown):
        lines += row(f"task {task}", dotted(_task(reports[task])), width, most=1)
    if left := len(reports) - len(shown):
        lines += row("", [f"and {plural(left, 'task')} that used their GPUs better"], width, most=1)
    lines += row("found", dotted(_findings(reports)), width, most=3)
    return [*lines, *row("next", dotted(next_commands), width, most=4)]


def _gpus(reports: Sequence[JobReport]) -> list[str]:
    """What all GPUs did, and their energy, as far as it was measured."""
    total_s = sum(report.waste.total_gpu_s for report in reports)
    if not total_s:
        return []
    useful_s = sum(report.waste.useful_gpu_s for report in reports)
    joules = whole_sum(report.energy.gpu.value_j for report in reports)
    used = f"{percent(useful_s / total_s)} useful of {gpu_time(total_s)}"
    return [used, *([] if joules is None else [energy(joules)])]


def _times(reports: Mapping[int, JobReport]) -> list[str]:
    lengths = {task: one.ended_s - one.started_s for task, one in reports.items()}
    longest = max(lengths, key=lambda task: lengths[task])
    median = format_duration(statistics.median(lengths.values()))
    return [f"median {median}", f"longest {format_duration(lengths[longest])} (task {longest})"]


def _rank(report: JobReport) -> tuple[bool, float]:
    """What failed first, then what used its GPUs least."""
    total_s = report.waste.total_gpu_s
    useful_frac = report.waste.useful_gpu_s / total_s if total_s else 1.0
    return report.job.state in {"COMPLETED", None}, useful_frac


def _task(report: JobReport) -> list[str]:
    waste, findings = report.waste, report.findings
    took = format_duration(report.ended_s - report.started_s)
    parts = [f"{report.job.state} in {took}" if report.job.state else took]
    if is_about_gpus(report) and waste.is_measured:
        parts.append(f"{percent(waste.useful_gpu_s / waste.total_gpu_s)} useful")
    if findings:
        parts.append(f"{findings[0].rule} {findings[0].subject}".rstrip())
    return parts


def _findings(reports: Mapping[int, JobReport]) -> list[str]:
    """The rules that found something in most tasks, with the tasks."""
    tasks: dict[str, list[int]] = {}
    for task, report in reports.items():
        for rule in dict.fromkeys(finding.rule for finding in report.findings):
            tasks.setdefault(rule, []).append(task)
    often = sorted(tasks, key=lambda rule: -len(tasks[rule]))
    return [
        f"{rule} in {plural(len(tasks[rule]), 'task')} ({format_indices(tasks[rule])})"
        for rule in often[:_MOST_RULES]
    ] or ["nothing wrong"]
