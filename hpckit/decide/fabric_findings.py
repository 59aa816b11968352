"""What is odd about a fabric, by the rules of `fabric_rules`."""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.decide.fabric_rule import fabric_view
from hpckit.decide.fabric_rules import FABRIC_RULES
from hpckit.model.fabric import ClusterTopology
from hpckit.model.fabric_finding import FabricFinding
from hpckit.model.hostlist import natural_order


def fabric_findings(
    topology: ClusterTopology, slurm_nodes: Sequence[str] | None = None
) -> tuple[FabricFinding, ...]:
    """What is odd about a fabric, the worst first, in the order of the rules.

    `slurm_nodes` are the names that Slurm has, None where nobody asked it. Rails need not be there.
    """
    view = fabric_view(topology, slurm_nodes)
    place = {rule.name: at for at, rule in enumerate(FABRIC_RULES)}
    found = [
        FabricFinding(
            rule=rule.name,
            severity=rule.severity,
            subject=seen.subject,
            because=seen.because,
            remedy=seen.remedy or rule.remedy,
        )
        for rule in FABRIC_RULES
        for seen in rule.check(view)
    ]
    return tuple(
        sorted(
            found,
            key=lambda one: (-one.severity.rank, place[one.rule], natural_order(one.subject)),
        )
    )


def fabric_rules_table() -> str:
    """The table of docs/reference/fabric.md."""
    rows = [
        f"| `{rule.name}` | {rule.severity} | "
        + " | ".join(cell.replace("|", "\\|") for cell in (rule.what, rule.remedy, rule.source))
        + " |"
        for rule in FABRIC_RULES
    ]
    head = ("| Rule | Severity | Meaning | What to do | Source |", "|---|---|---|---|---|")
    return "\n".join((*head, *rows)) + "\n"
