"""What is odd about a node, by the rules of `finding_rules`."""

from __future__ import annotations

from hpckit.core.findings import Finding, SourcedFinding, judge
from hpckit.decide.finding_rule import InspectedNode, gpu_cells
from hpckit.decide.finding_rules import RULES
from hpckit.model.hardware import NodeTopology
from hpckit.model.hostlist import natural_order


def node_findings(
    topology: NodeTopology, *, expected_gpus: int | None = None
) -> tuple[SourcedFinding, ...]:
    """Return what is odd about a node, the worst first, then by subject in natural order.

    `expected_gpus` is how many Slurm's gres says this process should see: in a prolog those of the
    node, in a job those that it was given. Paths and the roles of NICs are used, so
    `paths.with_paths` and `nic_roles.with_nic_roles` come first.
    """
    node = InspectedNode(topology=topology, cells=gpu_cells(topology), expected_gpus=expected_gpus)
    return tuple(sorted(judge(RULES, node), key=_place))


def _place(finding: Finding) -> tuple[object, ...]:
    return (-finding.severity.rank, natural_order(finding.subject), finding.rule, finding.because)
