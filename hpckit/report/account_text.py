"""A job's report on one screen: the answer first, the reason beside it, the next command last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.model.account import JobReport
from hpckit.report.account_words import (
    cpu_parts,
    gpu_parts,
    rank_parts,
    throttling_parts,
)
from hpckit.report.energy_words import energy_parts
from hpckit.report.memory_words import memory_parts
from hpckit.report.quantities import energy, plural
from hpckit.report.remark_words import (
    advice_block,
    finding_block,
    missing_block,
    outcome_block,
)
from hpckit.report.screen import Block, fitted, row
from hpckit.units import format_duration

SCREEN_LINES: Final = 24
_COMMAND_LINES: Final = 6
"""A command is to be typed, and is cut for the sake of the screen alone."""
_SPARE: Final = 6
"""So many lines more a row may have where nothing else is on them."""
_BEHIND_S: Final = 1.0
_RUNNING: Final = frozenset({"RUNNING", "COMPLETING", "SUSPENDED", "STOPPED"})


def is_running(report: JobReport) -> bool:
    """Whether there will be more of this job than the report has."""
    return report.job.state in _RUNNING


def report_lines(
    report: JobReport,
    *,
    width: int = 80,
    next_commands: Sequence[str] = (),
    now_s: float | None = None,
) -> list[str]:
    """The screen, a line each, at most SCREEN_LINES of `width` columns.

    `now_s` is the time of day: a running job is older than what was measured of it last.

    What there is no room for is counted at the end of its row; --json has it.
    """
    head = row("", headline(report, now_s), width, most=3, is_head=True)
    tail = row("next", _joined(next_commands), width, most=_COMMAND_LINES)
    blocks = [
        *(_block(*one, width=width) for one in _rows(report)),
        finding_block(report, width, weight=8),
        advice_block(report.advice, width, weight=9),
        outcome_block(report.outcomes, width, weight=4),
        missing_block(report.missing, width, weight=3),
    ]
    room = SCREEN_LINES - len(head) - len(tail)
    lines = fitted(blocks, room)
    if len(lines) > room:
        lines = [*lines[: room - 1], " …        more in --json"]
    return [*head, *lines, *tail]


def _rows(report: JobReport) -> list[tuple[str, list[str], int, int]]:
    """What the job used: label, parts, lines at most, and the weight in getting them."""
    return [
        ("energy", energy_parts(report), 4, 5),
        ("GPUs", gpu_parts(report), 3, 6),
        ("CPUs", cpu_parts(report), 2, 6),
        ("ranks", rank_parts(report), 3, 7),
        ("memory", memory_parts(report), 2, 2),
        ("clocks", throttling_parts(report), 2, 1),
    ]


def _block(label: str, parts: list[str], most: int, weight: int, *, width: int) -> Block:
    least = most // 2
    forms = [row(label, parts, width, most=lines) for lines in range(least, most + _SPARE + 1)]
    spare = frozenset(range(most - least + 1, len(forms)))
    return Block(forms=forms, good=0, weight=weight, spare=spare)


def headline(report: JobReport, now_s: float | None = None) -> list[str]:
    """What the report is about: job, state, time, size."""
    job = report.job
    name = " ".join(word for word in (job.name, job.job_id) if word)
    if job.array_task is not None and not (job.job_id or "").endswith(f"_{job.array_task}"):
        name += f" task {job.array_task}"
    parts = [name or "samples", *_state(report, now_s), *_size(report), *_requeues(report)]
    if job.synthetic and report.gpus:
        parts.append("synthetic: a made-up driver measured")
    return _joined([part for part in parts if part])


def _size(report: JobReport) -> list[str]:
    """GPUs and nodes; where no GPU was seen, whether one was wanted."""
    job = report.job
    nodes = plural(job.nodes, "node")
    if job.gpus:
        return [f"{plural(job.gpus, 'GPU')} on {nodes}"]
    if not job.gpus_because:
        return [f"no GPUs on {nodes}"]
    asked = f" ({job.gpus_asked:,} asked for)" if job.gpus_asked else ""
    return [f"GPUs not measured: {job.gpus_because}{asked}", nodes]


def _state(report: JobReport, now_s: float | None) -> list[str]:
    job = report.job
    measured_s = max(0.0, report.ended_s - report.started_s)
    took = format_duration(measured_s)
    if is_running(report):
        age_s = measured_s if now_s is None else max(measured_s, now_s - report.started_s)
        until = [f"measured until {took}"] if age_s - measured_s >= _BEHIND_S else []
        return [f"{job.state} for {format_duration(age_s)} so far", *until]
    code = f", exit code {job.exit_code}" if job.exit_code else ""
    return [f"{job.state} in {took}{code}" if job.state else took]


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


def _joined(parts: Sequence[str]) -> list[str]:
    """Parts of which each but the first is led by the dot that parts them."""
    return [part if not place else f"· {part}" for place, part in enumerate(parts)]
