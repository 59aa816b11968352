"""Whether advice came true: what it predicted beside what the job that took it shows.

A prediction is a baseline of the measured run less what the advice was to save. `advice.json`
(`hpckit.advice/1`) in the folder of the job that took it holds both.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from hpckit.account.finding import ReportFinding, Subject, finding, said, share
from hpckit.account.values import (
    ADVICE_SCHEMA,
    Advice,
    AdviceOutcome,
    GpuAccount,
    JobReport,
    NodeAccount,
)
from hpckit.core.errors import ConfigError
from hpckit.core.fields import to_tree
from hpckit.core.findings import Severity
from hpckit.core.units import parse_slurm_time_s
from hpckit.core.values import dataclass
from hpckit.script.plan import LaunchPlan
from hpckit.spec.job import JobSpec
from hpckit.spec.merge import FROM_REPORT, EffectiveJob, Layer, OriginKind, effective_job


@dataclass(frozen=True, slots=True, kw_only=True)
class AdvisedJob:
    """The advice of one job's report for the next one.

    `values` are by dotted key of the job file, typed as there; `document` is what is written into
    the new job's folder, before it is known which keys are applied.
    """

    report_id: str
    values: Mapping[str, str | int]
    document: Mapping[str, Any]


_MOST_NAMED = 3


def check_advised(advised: AdvisedJob, layers: Sequence[Layer]) -> None:
    """Raise ConfigError where the report is of other hardware, another launch or another mesh.

    What the advice itself proposes is no difference: the job file may have it already.
    """
    asked = effective_job([layer for layer in layers if layer.kind is not OriginKind.REPORT])
    shape = shape_of(asked.spec)
    measured: Mapping[str, Any] = advised.document.get("shape") or {}
    other = {
        key: (measured.get(key), value)
        for key, value in shape.items()
        if value not in (measured.get(key), advised.values.get(key, measured.get(key)))
    }
    if other:
        said = [f"{key} was {_word(was)}, now {_word(now)}" for key, (was, now) in other.items()]
        more = f" and {len(said) - _MOST_NAMED} more" if len(said) > _MOST_NAMED else ""
        raise ConfigError(
            f"the report of {advised.report_id} is for a different job: "
            f"{', '.join(said[:_MOST_NAMED])}{more}",
            key=FROM_REPORT,
            hint=f"use the measured settings: {_as_measured(other)}or the command after "
            f"`reproduce:` in: hpckit show {advised.report_id} --script. Or drop {FROM_REPORT}",
        )


def _word(value: object) -> str:
    if value is None or value == {}:
        return "not set"
    if isinstance(value, Mapping):
        return " × ".join(f"{axis} {size}" for axis, size in value.items())
    return str(value).lower() if isinstance(value, bool) else str(value)


def _as_measured(other: Mapping[str, tuple[Any, object]]) -> str:
    """The options that set what was measured; of what was not set then, that it is to be left."""
    options = [
        f"--set {shlex.quote(f'{key}={_word(was)}')}"
        for key, (was, _) in other.items()
        if was is not None and not isinstance(was, Mapping)
    ]
    unset = [f"without {key}" for key, (was, _) in other.items() if was is None]
    said = [" ".join(options), *unset] if options else unset
    return "".join(f"{one}, " for one in said)


def applied_keys(effective: EffectiveJob) -> tuple[str, ...]:
    """The keys whose value is the report's: over them stands no option."""
    return tuple(one.key for one in effective.origins if one.origin is OriginKind.REPORT)


def explained(plan: LaunchPlan, advised: AdvisedJob, effective: EffectiveJob) -> LaunchPlan:
    """The plan whose directives say which of them a report advised, and what was there before."""
    was = {one["key"]: one.get("now") for one in advised.document.get("advice") or ()}
    reasons = {
        _option(key): f"report {advised.report_id} (was {was.get(key) or 'not set'})"
        for key in applied_keys(effective)
    }
    directives = tuple(
        replace(one, because=reasons[one.name])
        if one.name in reasons and one.because is None
        else one
        for one in plan.directives
    )
    return replace(plan, directives=directives)


def applied_document(advised: AdvisedJob, effective: EffectiveJob) -> dict[str, object]:
    """`advice.json` of the new job's folder: with what was applied."""
    applied = applied_keys(effective)
    advice = [
        {**one, "applied": one["key"] in applied} for one in advised.document.get("advice") or ()
    ]
    return {**advised.document, "advice": advice}


def _option(key: str) -> str:
    name = key.removeprefix("resources.")
    return "time" if name == "time_limit" else name.replace("_", "-")


LEAST_SAVING_FRAC = 0.2
"""Below this a change is not worth a person's look: runs of one job differ as much by node
(20 to 30 % on LUMI, facts of BSC-ES/autosubmit#1455)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRun:
    """A report and the effective job that it is about."""

    report: JobReport
    spec: JobSpec

    @property
    def may_shrink(self) -> bool:
        """Whether it shows what a whole run needs: it completed, and is not one task of many."""
        return self.report.job.state == "COMPLETED" and self.spec.slurm.array is None

    @property
    def has_whole_nodes(self) -> bool:
        """Whether the nodes are its own whatever it asks of them (snakemake-executor-slurm#147)."""
        return bool(self.spec.resources.exclusive)

    @property
    def elapsed_s(self) -> float:
        """The time of all incarnations: one that took over from a checkpoint needs both.

        Accounts begin after what a script does first (staging, environments) and end before what
        it does last, so the job's own start and end count where they are known: of one run both,
        of several its end, as Slurm tells the start of the last alone.
        """
        report, runs = self.report, self.report.incarnations
        measured_s = sum(run.ended_s - run.started_s for run in runs)
        if len(runs) < 2:  # noqa: PLR2004  not requeued
            return max(measured_s, report.ended_s - report.started_s)
        return measured_s + max(0.0, report.ended_s - max(run.ended_s for run in runs))

    @property
    def limit_s(self) -> float | None:
        """The time limit that it ran under."""
        said = self.spec.resources.time_limit
        return self.report.job.time_limit_s if said is None else float(parse_slurm_time_s(said))

    @property
    def last_restart(self) -> int:
        """The incarnation that ended as the job did."""
        return max(
            (
                *(one.restart for one in self.report.incarnations),
                *(one.restart for one in self.report.nodes),
                *(one.restart for one in self.report.gpus),
            ),
            default=0,
        )

    @property
    def gpus(self) -> tuple[GpuAccount, ...]:
        """The GPUs of the last incarnation."""
        last = self.last_restart
        return tuple(gpu for gpu in self.report.gpus if gpu.restart == last)

    @property
    def nodes(self) -> tuple[NodeAccount, ...]:
        """The nodes of the last incarnation that left an account."""
        last = self.last_restart
        return tuple(
            node
            for node in self.report.nodes
            if node.restart == last and node.started_s is not None
        )

    @property
    def has_all_nodes(self) -> bool:
        """Whether every node of the job left an account."""
        return len({node.node for node in self.nodes}) >= self.spec.resources.nodes


def most_memory_bytes(node: NodeAccount) -> int | None:
    """What a node's memory has never exceeded; None where samples alone tell, which miss peaks."""
    if node.mem_kernel_peak_bytes is None:
        return None
    return max(node.mem_kernel_peak_bytes, node.mem_peak_bytes or 0)


def is_worth_it(now: float, proposed: float, least_frac: float = LEAST_SAVING_FRAC) -> bool:
    """Whether so much is saved that a change is worth it."""
    return now > 0 and (now - proposed) / now >= least_frac


HELD_FRAC = 0.1
"""So much may a saving fall short in the total: runs of one job differ by more."""
SAME_TIME_FRAC = 0.1
"""Runs whose times differ by more are not taken to have done the same work."""


def advice_document(
    report: JobReport, spec: JobSpec, advice: Sequence[Advice], applied: Sequence[str]
) -> dict[str, Any]:
    """`hpckit.advice/1`: the advice of a report, which keys of it were taken, and the baseline."""
    return {
        "schema": ADVICE_SCHEMA,
        "job_id": report.job.job_id,
        "state": report.job.state,
        "synthetic": report.job.synthetic,
        "baseline": baseline(report, spec),
        "shape": shape_of(spec),
        "advice": [{**to_tree(one), "applied": one.key in applied} for one in advice],
    }


def shape_of(spec: JobSpec) -> dict[str, Any]:
    """What a report of a job is bound to: its hardware, its launch, its mesh."""
    return {
        "resources.nodes": spec.resources.nodes,
        "resources.gpus_per_node": spec.resources.gpus_per_node,
        "resources.gpu_type": spec.resources.gpu_type,
        "resources.ntasks_per_node": spec.ntasks_per_node,
        "resources.exclusive": bool(spec.resources.exclusive),
        "launch.kind": str(spec.launch.kind),
        "slurm.partition": spec.slurm.partition,
        "slurm.constraint": spec.slurm.constraint,
        "parallel": {str(axis): size for axis, size in spec.parallel.items()},
    }


def baseline(report: JobReport, spec: JobSpec) -> dict[str, float | None]:
    """What the measured run took, by quantity; None is not measured."""
    run = MeasuredRun(report=report, spec=spec)
    peaks = [node.mem_peak_bytes for node in report.nodes if node.mem_peak_bytes is not None]
    return {
        "elapsed_s": run.elapsed_s,
        "gpu_s": report.waste.total_gpu_s if report.gpus else None,
        "energy_j": report.energy.gpu.value_j,
        "mem_peak_bytes": float(max(peaks)) if peaks else None,
        "cpu_s": sum(node.cpus or 0 for node in run.nodes) * run.elapsed_s or None,
    }


def outcomes(
    document: Mapping[str, Any], report: JobReport, spec: JobSpec
) -> tuple[AdviceOutcome, ...]:
    """What became of each prediction of the advice that this job was submitted with.

    `document` is `advice.json` of its folder, `spec` the job itself. A job that has not ended
    tells nothing yet.
    """
    now = baseline(report, spec)
    state = document.get("state")
    # What the end of the measured run cut off predicts nothing.
    cut = {quantity for quantity, too_little in _LIMITS.values() if too_little == state}
    before = {
        quantity: None if quantity in cut else value
        for quantity, value in (document.get("baseline") or {}).items()
    }
    found: list[AdviceOutcome] = []
    for one in document.get("advice") or ():
        if one.get("applied"):
            found += _outcomes(one, before, now, report, str(document.get("job_id")))
    return tuple(found)


def _outcomes(
    one: Mapping[str, Any],
    before: Mapping[str, float | None],
    now: Mapping[str, float | None],
    report: JobReport,
    source: str,
) -> Iterator[AdviceOutcome]:
    key, proposed = str(one["key"]), str(one["proposed"])

    def outcome(
        quantity: str, predicted: float | None, held: bool | None, because: str
    ) -> AdviceOutcome:
        return AdviceOutcome(
            report=source,
            key=key,
            proposed=proposed,
            quantity=quantity,
            predicted=predicted,
            measured=now.get(quantity),
            held=held,
            because=because,
            before=before.get(quantity),
        )

    limit = _LIMITS.get(key.removeprefix("resources."))
    if limit is not None:
        quantity, too_little = limit
        held, because = _enough(report, too_little, proposed)
        yield outcome(quantity, before.get(quantity), held, because)
    runs = _Runs(before, now)
    for quantity, saved in (one.get("saving") or {}).items():
        if quantity in ("limit_s", "mem_bytes"):
            continue
        base = before.get(quantity)
        predicted = None if base is None else base - float(saved)
        yield outcome(quantity, predicted, *_saved(report, runs, one, quantity))


_LIMITS: Mapping[str, tuple[str, str]] = {
    "time_limit": ("elapsed_s", "TIMEOUT"),
    "mem": ("mem_peak_bytes", "OUT_OF_MEMORY"),
    "mem_per_cpu": ("mem_peak_bytes", "OUT_OF_MEMORY"),
    "mem_per_gpu": ("mem_peak_bytes", "OUT_OF_MEMORY"),
}
"""Keys that limit: the quantity that stays below, and the state of a job for which it was not."""


def _enough(report: JobReport, too_little: str, proposed: str) -> tuple[bool | None, str]:
    state = report.job.state
    killed = sum(node.oom_kills or 0 for node in report.nodes)
    if state == too_little or (too_little == "OUT_OF_MEMORY" and killed):
        return False, f"{proposed} was too little: {state or 'a process was OOM-killed'}"
    if state == "COMPLETED":
        return True, f"it completed within {proposed}"
    return None, f"it has not completed: {state or 'final state unknown'}"


class _Runs(NamedTuple):
    """The quantities of the run that advice is from, and of the one that took it."""

    before: Mapping[str, float | None]
    now: Mapping[str, float | None]

    def both(self, quantity: str) -> tuple[float, float] | None:
        """None where one of them lacks it."""
        first, second = self.before.get(quantity), self.now.get(quantity)
        return None if first is None or second is None else (first, second)

    def took(self) -> tuple[float, float] | None:
        """How long both took; None where that is not known or no time."""
        took = self.both("elapsed_s")
        return None if took is None or min(took) <= 0 else took


def _saved(
    report: JobReport, runs: _Runs, one: Mapping[str, Any], quantity: str
) -> tuple[bool | None, str]:
    """Whether a total fell as it was to.

    GPUs or CPUs that were to be fewer must be fewer. Then totals are of the same work only where
    both took about the same time: a run that did a tenth of it saves nothing, and of one that took
    longer nothing tells whether it did more or was slowed down.
    """
    found = runs.both(quantity)
    if found is None:
        return None, "not measured in both runs"
    if report.job.state != "COMPLETED":
        return None, f"it has not completed: {report.job.state or 'final state unknown'}"
    if unchanged := _unchanged(runs, one):
        return False, unchanged
    took = runs.took()
    longer_frac = 0.0 if took is None else took[1] / took[0] - 1
    if took is None or abs(longer_frac) > SAME_TIME_FRAC:
        more = f"it took {abs(longer_frac):.0%} {'longer' if longer_frac > 0 else 'less time'}"
        how = "duration of one run unknown" if took is None else more
        return None, f"{how}: it may not have done the same work"
    base, measured = found
    change = (measured - base) / base if base else 0.0
    words = f"{change:+.0%} against the run before the advice"
    return measured <= (base - float(one["saving"][quantity])) * (1 + HELD_FRAC), words


def _unchanged(runs: _Runs, one: Mapping[str, Any]) -> str:
    """That the change did not happen, by GPUs or CPUs held on average; empty where it did."""
    took = runs.took()
    for quantity, name in (("gpu_s", "GPUs"), ("cpu_s", "CPUs")):
        spent, saved = runs.both(quantity), (one.get("saving") or {}).get(quantity)
        if took is None or spent is None or not saved:
            continue
        before, held = spent[0] / took[0], spent[1] / took[1]
        wanted = before - float(saved) / took[0]
        if held > (before + wanted) / 2:
            return f"it held {held:.3g} {name}, the advice was {wanted:.3g}"
    return ""


GPU_MEMORY_LOW_FRAC = 0.5
"""Frameworks reserve more than they need, so what is free by the driver is free indeed."""
GPU_MEMORY_FULL_FRAC = 0.9
"""How far a larger batch may fill it: the rest is fragmentation."""
NOT_SATURATED_FRAC = 0.2
"""Share of idle and spinning time from which a larger batch would have something to fill."""


def advice_findings(report: JobReport, spec: JobSpec) -> tuple[ReportFinding, ...]:
    """Advice in words: the evidence, and what a person may do about it.

    What the report finds by itself (GPUs never used, late idling, the power cap) is not said here
    again.
    """
    run = MeasuredRun(report=report, spec=spec)
    return (
        *_batch(run),
        *_own_end(run),
        *_whole_node_memory(run),
    )


def _batch(run: MeasuredRun) -> Iterator[ReportFinding]:
    """Head-room in the GPUs' memory of a job that does not keep them busy."""
    shares = [
        gpu.mem_peak_bytes / gpu.mem_bytes
        for gpu in run.gpus
        if gpu.mem_peak_bytes is not None and gpu.mem_bytes
    ]
    used = [share for share in shares if share > 0]
    if not used or len(shares) < len(run.gpus) or max(used) > GPU_MEMORY_LOW_FRAC:
        return
    lax_s = sum(gpu.waste.idle_gpu_s + gpu.waste.spin_gpu_s for gpu in run.gpus)
    busy_s = sum(gpu.waste.useful_gpu_s for gpu in run.gpus)
    lax = lax_s / (lax_s + busy_s) if busy_s > 0 else 0.0
    if lax < NOT_SATURATED_FRAC:
        return
    factor = GPU_MEMORY_FULL_FRAC / max(used)
    words = "peak use {}, and the GPUs idled or waited {} of the time"
    yield finding(
        "batch-could-grow",
        Severity.NOTE,
        Subject(what="GPU memory"),
        said(words, share(max(used)), share(lax)),
        f"try a micro-batch up to {factor:.1f}× as large in a short run",
    )


def _own_end(run: MeasuredRun) -> Iterator[ReportFinding]:
    """A job that ran into its limit although it asks to be told before."""
    signal = run.spec.slurm.signal
    if run.report.job.state == "TIMEOUT" and signal is not None:
        yield finding(
            "limit-after-signal",
            Severity.NOTE,
            Subject(what="time limit"),
            said("the job got --signal={} but was still running at the limit", str(signal)),
            "if the checkpoint is incomplete, request an earlier signal or a longer time limit",
        )


def _whole_node_memory(run: MeasuredRun) -> Iterator[ReportFinding]:
    """Out of memory with all of the node's: asking for more of it is no help."""
    killed = run.report.job.state == "OUT_OF_MEMORY" or any(
        node.oom_kills for node in run.report.nodes
    )
    has_all = run.spec.resources.mem == "0" or run.has_whole_nodes
    if killed and has_all:
        yield finding(
            "node-memory-exhausted",
            Severity.ERROR,
            Subject(what="memory"),
            said("the kernel OOM-killed a process, and the job had all memory of its nodes"),
            "use more nodes with fewer ranks on each, or nodes with more memory "
            "(slurm.constraint, slurm.partition)",
        )
