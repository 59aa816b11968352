"""What the report's page says, as the plain texts that its template lays out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from msgspec import Struct

from hpckit.model.account import Advice, Conservation, Energy, JobReport, RankAccount, Share
from hpckit.model.cost import GPUS_ALONE, Cost
from hpckit.model.report_finding import ReportFinding
from hpckit.report.account_words import why_unknown
from hpckit.report.energy_words import is_about_gpus
from hpckit.report.page_words import (
    NOT_MEASURED,
    addends,
    behind_words,
    clean,
    duration,
    energy_words,
    gpu_hours,
    joules,
    percent,
    saving_words,
    significant,
    source_words,
)
from hpckit.report.quantities import clocks, mass
from hpckit.units import format_time_limit

NO_JOB: Final = "samples"
"""What stands for a job's name where `hpckit sample` measured without one, as on the screen."""
_MOST_FINDINGS: Final = 100
_MOST_BARS: Final = 64
_KNOWN_ENDS: Final = {"COMPLETED": "good", "RUNNING": "plain", "PENDING": "plain"}


class Fact(Struct, frozen=True, kw_only=True):
    """One of the answers at the top: a name, its value, and what it rests on."""

    name: str
    value: str
    about: str = ""

    @property
    def missing(self) -> bool:
        """Whether nothing was measured."""
        return self.value == NOT_MEASURED


class Piece(Struct, frozen=True, kw_only=True):
    """A part of the bar of GPU-hours: `first` and `width` in percent of the bar."""

    look: str
    name: str
    about: str
    hours: str
    share: str
    first: str
    width: str


class Remark(Struct, frozen=True, kw_only=True):
    """A finding or an advice."""

    severity: str
    subject: str
    because: str
    remedy: str = ""
    cost: str = ""


class RankBar(Struct, frozen=True, kw_only=True):
    """A rank's busy share as a bar; `busy` and `behind` in percent of the bar, "" unmeasured."""

    name: str
    busy: str
    behind: str
    text: str


def title(report: JobReport) -> str:
    """`llama-8b 4242_7`: what the job is called; `samples` of no job."""
    job = report.job
    number = clean(job.job_id) if job.job_id else ""
    if number and job.array_task is not None:
        number = f"{number}_{job.array_task}"
    parts = [clean(job.name) if job.name else "", number]
    return " ".join(part for part in parts if part) or NO_JOB


def state(report: JobReport) -> tuple[str, str]:
    """Slurm's word for how the job is or ended, and how it looks; samples of no job have none."""
    job = report.job
    if job.state is None and title(report) == NO_JOB:
        return "", "plain"
    if job.state is None:
        return "state unknown", "plain"
    look = _KNOWN_ENDS.get(job.state, "bad")
    word = clean(job.state)
    return (f"{word}, exit code {job.exit_code}" if job.exit_code else word), look


def facts(report: JobReport) -> tuple[Fact, ...]:
    """The answers that stand first."""
    return tuple(_facts(report))


def _facts(report: JobReport) -> Iterator[Fact]:
    job, energy, waste = report.job, report.energy, report.waste
    limit = (
        ""
        if job.time_limit_s is None
        else f"of at most {format_time_limit(round(job.time_limit_s))}"
    )
    yield Fact(name="took", value=duration(report.ended_s - report.started_s), about=limit)
    has_gpus = is_about_gpus(report)
    if has_gpus:
        yield _energy("GPU energy", energy.gpu)
    yield _energy("node energy", energy.node)
    useful = waste.useful_gpu_s / waste.total_gpu_s if waste.is_measured else None
    hours = gpu_hours(waste.total_gpu_s)
    if has_gpus:
        about = f"of {hours}" if useful is not None else why_unknown(report.gpus, hours)
        yield Fact(name="useful", value=percent(useful), about=about)
    yield from _cost(report.cost)
    if energy.lost_gpu_j:
        yield Fact(
            name="lost to restarts, at most",
            value=joules(energy.lost_gpu_j),
            about="GPU energy before a requeue, less what a checkpoint kept of it",
        )


def _energy(name: str, energy: Energy) -> Fact:
    return Fact(name=name, value=energy_words(energy), about=source_words(energy))


def _cost(cost: Cost) -> Iterator[Fact]:
    """What the energy costs, each of what, if not of all; the first also what factors lack."""
    because = clean(cost.because)
    alone = GPUS_ALONE if cost.is_of_gpus else ""
    found = []
    if cost.facility_j is not None:
        pue = "of the facility" if cost.pue is None else f"at PUE {significant(cost.pue)}"
        found.append((f"energy {pue}", joules(cost.facility_j)))
    if cost.price is not None:
        found.append(("cost of energy", f"{cost.price:.2f} {clean(cost.currency or '')}".rstrip()))
    if cost.co2_g is not None:
        found.append(("carbon", f"{mass(cost.co2_g, significant)} CO2e"))
    for at, (name, value) in enumerate(found):
        yield Fact(name=name, value=value, about=alone if at else because)


def pieces(waste: Share) -> tuple[Piece, ...]:
    """GPU-hours by what they were spent for; classes of no time are left out."""
    total = waste.total_gpu_s
    if total <= 0:
        return ()
    named = (
        ("useful", "useful", "kernels ran and did work", waste.useful_gpu_s),
        ("spin", "communicating", "kernels ran and mostly waited", waste.spin_gpu_s),
        ("idle", "idle", "a process held it, no kernel ran", waste.idle_gpu_s),
        ("none", "no process", "held, and nothing computed on it", waste.no_process_gpu_s),
        ("unknown", NOT_MEASURED, "no sample says", waste.unknown_gpu_s),
    )
    found, first = [], 0.0
    for look, name, about, spent in named:
        width = max(spent, 0.0) / total * 100
        if width > 0:
            found.append(
                Piece(
                    look=look,
                    name=name,
                    about=about,
                    hours=gpu_hours(spent),
                    share=percent(spent / total),
                    first=f"{first:.3f}",
                    width=f"{width:.3f}",
                )
            )
        first += width
    return tuple(found)


def findings(found: Sequence[ReportFinding]) -> tuple[Remark, ...]:
    """Findings in the report's order, at most 100."""
    return tuple(
        Remark(
            severity=one.severity,
            subject=clean(one.subject),
            because=clean(one.because),
            remedy=clean(one.remedy),
            cost=_wasted(one),
        )
        for one in found[:_MOST_FINDINGS]
    )


def _wasted(finding: ReportFinding) -> str:
    parts = []
    if finding.wasted_gpu_s is not None:
        parts.append(gpu_hours(finding.wasted_gpu_s))
    if finding.wasted_j is not None:
        parts.append(joules(finding.wasted_j))
    return ", ".join(parts)


def advice(found: Sequence[Advice]) -> tuple[Remark, ...]:
    """Changes to the job file, each as `key: now → proposed`."""
    return tuple(
        Remark(
            severity="note",
            subject=clocks(
                f"{clean(one.key)}: {clean(one.now or 'not set')} → {clean(one.proposed)}"
            ),
            because=clean(one.because),
            cost=saving_words(one.saving),
        )
        for one in found[:_MOST_FINDINGS]
    )


def rank_bars(ranks: Sequence[RankAccount]) -> tuple[RankBar, ...]:
    """How busy each rank was and how far behind; of many, those that are the farthest behind."""
    known = [one for one in ranks if one.busy_frac is not None or one.behind_frac is not None]
    if not known:
        return ()
    shown = list(ranks)
    if len(shown) > _MOST_BARS:
        worst = sorted(known, key=lambda one: -(one.behind_frac or 0.0))[:_MOST_BARS]
        shown = sorted(worst, key=lambda one: (one.restart, one.rank))
    has_runs = len({one.restart for one in ranks}) > 1
    return tuple(_bar(one, f"run {one.restart}" if has_runs else "") for one in shown)


def _bar(rank: RankAccount, run: str) -> RankBar:
    behind = rank.behind_frac
    parts = [*([run] if run else []), f"busy {percent(rank.busy_frac)}"]
    parts.append(f"behind {behind_words(behind)}")
    return RankBar(
        name=f"rank {rank.rank}",
        busy="" if rank.busy_frac is None else f"{min(max(rank.busy_frac, 0), 1) * 100:.2f}",
        behind="" if not behind else f"{min(max(behind, 0), 1) * 100:.2f}",
        text=" · ".join(parts),
    )


def conservation(found: Conservation | None) -> str:
    """The sum of the ranks and what no rank used, beside the sum of the GPUs."""
    if found is None:
        return ""
    ranks, rest, gpus = addends(found.ranks_j, found.idle_remainder_j, found.gpus_j)
    over = joules(found.error_j)
    return f"ranks {ranks} + idle remainder {rest} = GPUs {gpus}, left over {over}"
