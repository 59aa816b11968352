"""Which GPUs of many are worth a plot of their own: those of findings, and the extremes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from hpckit.model.account import GpuAccount, JobReport

FEW: Final = 16
_MOST: Final = 12

_Value = Callable[[GpuAccount], float | None]
_EXTREMES: Final[tuple[tuple[str, _Value, bool], ...]] = (
    ("lowest utilization", lambda one: one.util_mean_pct, False),
    ("slowed by heat the longest", lambda one: one.throttling.thermal_s or None, True),
    ("slowed by its power cap the longest", lambda one: one.throttling.power_cap_s or None, True),
    ("hottest", lambda one: one.temp_max_c, True),
    ("highest power", lambda one: one.power_mean_w, True),
    ("least covered by samples", lambda one: one.energy.coverage_frac, False),
    ("highest utilization", lambda one: one.util_mean_pct, True),
)


def chosen_gpus(report: JobReport) -> tuple[tuple[GpuAccount, str], ...]:
    """The GPUs to plot, in the report's order, with the reason for each where not all are.

    Up to 16 are all drawn; of more at most 12, those of findings first.
    """
    drawn = [gpu for gpu in report.gpus if gpu.curves]
    if len(drawn) <= FEW:
        return tuple((gpu, "") for gpu in drawn)
    reasons: dict[int, str] = {}
    for at, reason in _candidates(report, drawn):
        if len(reasons) == _MOST:
            break
        reasons.setdefault(at, reason)
    return tuple((drawn[at], reasons[at]) for at in sorted(reasons))


def _candidates(report: JobReport, gpus: Sequence[GpuAccount]) -> Iterator[tuple[int, str]]:
    by_name = {(gpu.label, gpu.node, gpu.restart): at for at, gpu in enumerate(gpus)}
    for finding in report.findings:
        about = finding.about
        for node in about.nodes:
            if (at := by_name.get((about.what, node, about.restart))) is not None:
                yield at, f"finding {finding.rule}"
    for reason, value, is_most in _EXTREMES:
        found = [(one, at) for at, gpu in enumerate(gpus) if (one := value(gpu)) is not None]
        if found:
            best = max if is_most else min
            yield best(found)[1], reason
