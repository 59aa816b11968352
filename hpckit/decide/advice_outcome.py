"""Whether advice came true: what it predicted beside what the job that took it shows.

A prediction is a baseline of the measured run less what the advice was to save. `advice.json`
(`hpckit.advice/1`) in the folder of the job that took it holds both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hpckit.decide.advice_run import MeasuredRun
from hpckit.model.account import ADVICE_SCHEMA, Advice, AdviceOutcome, JobReport
from hpckit.model.job import JobSpec
from hpckit.model.tree import to_tree

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
    before = _complete(document.get("baseline") or {}, document.get("state"))
    found: list[AdviceOutcome] = []
    for one in document.get("advice") or ():
        if one.get("applied"):
            found += _outcomes(one, before, now, report, str(document.get("job_id")))
    return tuple(found)


def _complete(before: Mapping[str, float | None], state: object) -> Mapping[str, float | None]:
    """The baseline without what the end of the measured run cut off: that predicts nothing."""
    cut = {quantity for quantity, too_little in _LIMITS.values() if too_little == state}
    return {quantity: None if quantity in cut else value for quantity, value in before.items()}


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
    """Whether a limit that was advised was enough."""
    state = report.job.state
    killed = sum(node.oom_kills or 0 for node in report.nodes)
    if state == too_little or (too_little == "OUT_OF_MEMORY" and killed):
        return False, f"{proposed} was too little: {state or 'a process was killed'}"
    if state == "COMPLETED":
        return True, f"it completed within {proposed}"
    return None, f"it has not completed: {state or 'how it ended is not known'}"


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
        return None, f"it has not completed: {report.job.state or 'how it ended is not known'}"
    if unchanged := _unchanged(runs, one):
        return False, unchanged
    took = runs.took()
    longer_frac = 0.0 if took is None else took[1] / took[0] - 1
    if took is None or abs(longer_frac) > SAME_TIME_FRAC:
        more = f"it took {abs(longer_frac):.0%} {'more' if longer_frac > 0 else 'less'} time"
        how = "how long one of them took is not known" if took is None else more
        return None, f"{how}: whether it did the same work, nothing tells"
    base, measured = found
    change = (measured - base) / base if base else 0.0
    words = f"{change:+.0%} against the run that the advice is from"
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
            return f"it held {held:.3g} {name}, which were to be {wanted:.3g}"
    return ""
