"""What is worth knowing of a finished job, by the rules of `finding_rules`."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.measure.finding_rule import Evidence, MeasuredJob, ReportRule
from hpckit.measure.finding_rules import RULES
from hpckit.measure.stragglers import Straggler
from hpckit.model.account import JobReport
from hpckit.model.hostlist import natural_order
from hpckit.model.report_finding import ReportFinding, finding


def report_findings(
    report: JobReport, stragglers: Sequence[Straggler] = ()
) -> tuple[ReportFinding, ...]:
    """Return what is worth knowing, the worst first: by severity, then by GPU-seconds lost."""
    job = MeasuredJob(report=report, stragglers=tuple(stragglers))
    told = [_finding(rule, seen) for rule in RULES for seen in rule.when(job)]
    return tuple(sorted(told, key=_place))


def _finding(rule: ReportRule, seen: Evidence) -> ReportFinding:
    return finding(
        rule.name,
        rule.severity,
        seen.about,
        seen.evidence,
        rule.remedy if seen.remedy is None else seen.remedy,
        wasted_gpu_s=seen.wasted_gpu_s,
        wasted_j=seen.wasted_j,
    )


def _place(told: ReportFinding) -> tuple[object, ...]:
    wasted_gpu_s = told.wasted_gpu_s or 0.0
    subject = natural_order(told.subject)
    return -told.severity.rank, -wasted_gpu_s, told.rule, subject, told.because
