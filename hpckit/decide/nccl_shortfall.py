"""Which link or setting explains that a run of NCCL was slower than predicted."""

from __future__ import annotations

from hpckit.decide.nccl_rule import Evidence, RunFacts, RunRule
from hpckit.decide.nccl_rules import RULES
from hpckit.model.nccl_finding import ExpectedRun, RunFinding
from hpckit.model.nccl_run import NcclRun


def shortfall_findings(run: NcclRun, expected: ExpectedRun | None = None) -> tuple[RunFinding, ...]:
    """What is odd about a run, the gravest first, then in the order of the rules.

    Without `expected` the log alone speaks: what the machine has is then not known.
    """
    facts = RunFacts(run, expected or ExpectedRun())
    found = [_finding(rule, seen) for rule in RULES for seen in rule.check(facts)]
    return tuple(sorted(found, key=lambda one: -one.severity.rank))


def _finding(rule: RunRule, seen: Evidence) -> RunFinding:
    return RunFinding(
        rule=rule.name,
        severity=seen.severity or rule.severity,
        because=seen.because,
        fix=rule.fix,
        source=f"{rule.source}; {rule.date}",
        line_no=seen.line_no,
    )
