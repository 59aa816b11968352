"""What is worth knowing of a finished job, by the rules of `finding_rules`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.measure.finding_rule import JUDGED_S, KNOWN_FRAC, Evidence, MeasuredJob, Rule
from hpckit.measure.finding_rules import RULES
from hpckit.measure.gpu_words import percent
from hpckit.measure.stragglers import Straggler
from hpckit.model.account import JobReport, ReportFinding
from hpckit.model.hostlist import natural_order
from hpckit.model.node_finding import Severity

_PAGE: Final = """\
<!-- Written by docs/generate.py. Change the code, then run `make docs`. -->
# What `hpckit report` finds worth knowing

An error: something failed. A warning: GPU time was lost, or is lost until something is mended. A
note: worth knowing. A clean job has none.

Missing data is never a finding about a job: of a GPU of which less than {known} of the time is
known, or that was held for less than {judged:.0f} s, nothing is said but that. Low utilization is
none either, with or without full memory: a model may need the memory of many GPUs and the
arithmetic of few. The power limit holds the clocks of every GPU that computes much; that alone is
none.

| Rule | Severity | Meaning | From when on | What to do | Source |
|---|---|---|---|---|---|
{rows}
"""


def report_findings(
    report: JobReport, stragglers: Sequence[Straggler] = ()
) -> tuple[ReportFinding, ...]:
    """What is worth knowing, the worst first: by severity, then by GPU-seconds lost."""
    job = MeasuredJob(report=report, stragglers=tuple(stragglers))
    found = [_finding(rule, seen) for rule in RULES for seen in rule.check(job)]
    return tuple(sorted(found, key=_place))


def report_findings_page() -> str:
    """The reference page docs/reference/report-findings.md."""
    rows = "\n".join(_row(rule) for rule in RULES)
    return _PAGE.format(rows=rows, known=percent(KNOWN_FRAC), judged=JUDGED_S)


def _finding(rule: Rule, seen: Evidence) -> ReportFinding:
    return ReportFinding(
        rule=rule.name,
        severity=rule.severity.value,
        subject=seen.subject,
        because=seen.because,
        remedy=rule.remedy,
        wasted_gpu_s=seen.wasted_gpu_s,
        wasted_j=seen.wasted_j,
    )


def _place(finding: ReportFinding) -> tuple[object, ...]:
    severity = Severity(finding.severity).rank
    return (
        -severity,
        -(finding.wasted_gpu_s or 0.0),
        finding.rule,
        natural_order(finding.subject),
        finding.because,
    )


def _row(rule: Rule) -> str:
    cells = (f"`{rule.name}`", rule.severity, rule.what, rule.threshold, rule.remedy, rule.source)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
