"""What is odd about a node, by the rules of `finding_rules`."""

from __future__ import annotations

import re
from typing import Final

from hpckit.decide.finding_rule import Evidence, InspectedNode, Rule, gpu_cells
from hpckit.decide.finding_rules import RULES
from hpckit.decide.grouping import silent_node
from hpckit.model.hardware import NodeTopology
from hpckit.model.hostlist import natural_order
from hpckit.model.node_answer import NodeAnswer
from hpckit.model.node_finding import NodeFinding

_SILENT_WHAT: Final = (
    "With `--nodes` or `--job`: Slurm does not know the node or cannot reach it, or it gave no"
    " answer."
)
_PAGE: Final = """\
<!-- Written by docs/generate.py. Change the code, then run `make docs`. -->
# What hpckit finds odd about a node

An error: jobs that use the part fail. A warning: it works, and worse than it should. A note: worth
knowing, and there by design in many machines; a prolog that fails on warnings passes it. GPU5 and
mlx5_3 stand for what a finding is about.

NICs for jobs are those of the kind of card that most of a node's RDMA NICs are, or most beside
GPUs, and EFA and Slingshot always. Slower ones of another card or place, virtual functions of a NIC
that is here, and plain Ethernet are not; `role_because` in the JSON says of each why.

| Rule | Severity | Meaning | What to do | Source |
|---|---|---|---|---|
{rows}
"""


def node_findings(
    topology: NodeTopology, *, expected_gpus: int | None = None
) -> tuple[NodeFinding, ...]:
    """What is odd about a node, the worst first, then by subject in natural order.

    `expected_gpus` is how many Slurm's gres says this process should see: in a prolog those of the
    node, in a job those that it was given. Paths and the roles of NICs are used, so
    `paths.with_paths` and `nic_roles.with_nic_roles` come first.
    """
    node = InspectedNode(topology=topology, cells=gpu_cells(topology), expected_gpus=expected_gpus)
    found = [_finding(rule, seen) for rule in RULES for seen in rule.check(node)]
    return tuple(sorted(found, key=_place))


def findings_page() -> str:
    """The reference page docs/reference/findings.md."""
    rows = [(rule.severity, _rule_row(rule)) for rule in RULES]
    silent = silent_node(NodeAnswer(node="NODE"))
    rows.append((silent.severity, _silent_row(silent)))
    ordered = sorted(rows, key=lambda row: -row[0].rank)
    return _PAGE.format(rows="\n".join(row for _, row in ordered))


def _finding(rule: Rule, seen: Evidence) -> NodeFinding:
    return NodeFinding(
        rule=rule.name,
        severity=rule.severity,
        subject=seen.subject,
        because=seen.because,
        remedy=_remedy(rule, seen.subject),
    )


def _remedy(rule: Rule, subject: str) -> str:
    index = re.search(r"[0-9]+$", subject)
    return rule.remedy.format(subject=subject, index=index[0] if index else "INDEX")


def _place(finding: NodeFinding) -> tuple[object, ...]:
    return (-finding.severity.rank, natural_order(finding.subject), finding.rule, finding.because)


def _rule_row(rule: Rule) -> str:
    subject = "mlx5_3" if "{subject}" in rule.remedy else "GPU5"
    return _row(rule.name, rule.severity.value, rule.what, _remedy(rule, subject), rule.source)


def _silent_row(one: NodeFinding) -> str:
    """The one rule about a node of which nothing was seen, so it has no check."""
    return _row(one.rule, one.severity.value, _SILENT_WHAT, one.remedy, "scontrol(1): show node")


def _row(name: str, *rest: str) -> str:
    cells = (f"`{name}`", *rest)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
