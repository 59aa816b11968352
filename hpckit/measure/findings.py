"""What is worth knowing of a finished job, by the rules of `finding_rules`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.measure import states
from hpckit.measure.finding_rule import Evidence, MeasuredJob, Rule
from hpckit.measure.finding_rules import RULES
from hpckit.measure.judged import JUDGED_S, KNOWN_FRAC
from hpckit.measure.stragglers import Straggler
from hpckit.model.account import JobReport
from hpckit.model.hostlist import natural_order
from hpckit.model.node_finding import Severity
from hpckit.model.report_finding import ReportFinding, finding, share

_PAGE: Final = """\
<!-- Written by docs/generate.py. Change the code, then run `make docs`. -->
# What `hpckit report` finds worth knowing

An error: something failed. A warning: GPU time was lost, or is lost until something is mended. A
note: worth knowing. A clean job has none.

Missing data is never a finding about a job: of a GPU of which less than {known} of the time is
known, or that was held for less than {judged:.0f} s, nothing is said but that. Low utilization by
itself is none: a model may need the memory of many GPUs and the arithmetic of few. The power limit
holds the clocks of every GPU that computes much; that alone is none.

## How a GPU-second is classed

| Class | The time before a sample in which |
|---|---|
| no process | the driver counted no process that computes, and no kernel ran |
| idle | a process was there, and no kernel ran: utilization was 0 |
| spin | utilization was {util} % or more, and next to nothing was computed or moved |
| useful | kernels ran, however few |
| unknown | there was no sample, or none that tells |

A spin is known by GPM (Hopper and newer): tensor cores below {tensor:g} %, SMs below {sm:g} % and
memory below {dram:g} %, or below {transfer:g} % while NVLink or PCIe carry {rate:g} GiB/s or more
in one direction. Without GPM it is known by power within {power} of the way from the same GPU's
idle level to its limit, with memory hardly used; of a GPU that was never seen idle such time is
unknown up to {untold} of its limit, and useful above. Where there is no power limit either, it is
useful, and `refused` says at `spin` that none could be seen. A kernel that computes on few SMs
looks like a spin; communication that overlaps with computation is useful.
Where the driver does not count processes, or hides them, a GPU on which nothing runs is idle.

The MFU proxy is tensor activity × SM clock / largest SM clock (OFU, arXiv 2605.20799): what the
tensor cores did, needed or not, and nothing of what is computed without them.

## Rules

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
    return _PAGE.format(
        rows=rows,
        known=share(KNOWN_FRAC),
        judged=JUDGED_S,
        util=states.SPIN_UTIL_PCT,
        tensor=states.SPIN_TENSOR_PCT100 / 100,
        sm=states.SPIN_SM_PCT100 / 100,
        dram=states.SPIN_DRAM_PCT100 / 100,
        transfer=states.TRANSFER_DRAM_PCT100 / 100,
        rate=states.TRANSFER_MIB_PER_S / 1024,
        power=share(states.QUIET_POWER_FRAC),
        untold=share(states.IDLE_MOST_FRAC + states.QUIET_POWER_FRAC * (1 - states.IDLE_MOST_FRAC)),
    )


def _finding(rule: Rule, seen: Evidence) -> ReportFinding:
    return finding(
        rule.name,
        rule.severity.value,
        seen.about,
        seen.evidence,
        rule.remedy if seen.remedy is None else seen.remedy,
        wasted_gpu_s=seen.wasted_gpu_s,
        wasted_j=seen.wasted_j,
    )


def _place(found: ReportFinding) -> tuple[object, ...]:
    severity = Severity(found.severity).rank
    return (
        -severity,
        -(found.wasted_gpu_s or 0.0),
        found.rule,
        natural_order(found.subject),
        found.because,
    )


def _row(rule: Rule) -> str:
    cells = (f"`{rule.name}`", rule.severity, rule.what, rule.threshold, rule.remedy, rule.source)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
