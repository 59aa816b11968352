"""Which link or setting explains that a run of NCCL was slower than predicted."""

from __future__ import annotations

from hpckit.core.findings import SourcedFinding, judge
from hpckit.decide.nccl_rule import RunFacts
from hpckit.decide.nccl_rules import RULES
from hpckit.model.nccl_finding import ExpectedRun
from hpckit.model.nccl_run import NcclRun


def shortfall_findings(
    run: NcclRun, expected: ExpectedRun | None = None
) -> tuple[SourcedFinding, ...]:
    """Return what is odd about a run, the gravest first, then in the order of the rules.

    Without `expected` the log alone speaks: what the machine has is then not known.
    """
    return tuple(judge(RULES, RunFacts(run, expected or ExpectedRun())))
