"""What is odd about a fabric, by the rules of `fabric_rules`."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.core.findings import Finding, judge
from hpckit.decide.fabric_rule import fabric_view
from hpckit.decide.fabric_rules import FABRIC_RULES
from hpckit.model.fabric import ClusterTopology
from hpckit.model.hostlist import natural_order


def fabric_findings(
    topology: ClusterTopology, slurm_nodes: Sequence[str] | None = None
) -> tuple[Finding, ...]:
    """Return what is odd about a fabric, the worst first, in the order of the rules.

    `slurm_nodes` are the names that Slurm has, None where nobody asked it. Rails need not be there.
    """
    place = {rule.name: at for at, rule in enumerate(FABRIC_RULES)}

    def order(finding: Finding) -> tuple[object, ...]:
        return -finding.severity.rank, place[finding.rule], natural_order(finding.subject)

    return tuple(sorted(judge(FABRIC_RULES, fabric_view(topology, slurm_nodes)), key=order))
