"""The rules about fabrics, as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.core.findings import Check, Finding, Rule, Severity, judge
from hpckit.core.hostlist import natural_order
from hpckit.fabric import rules_checks as checks
from hpckit.fabric.rule import FabricView, fabric_view, links_slow, nics_anonymous
from hpckit.fabric.topology import ClusterTopology

_RAILS: Final = "the rail-optimised designs of DGX SuperPODs: a leaf a rail for each group of nodes"
_CLOS: Final = "the folded Clos: leaves of a group lead to the same spines by equally many cables"
_TREE: Final = "topology.conf(5): it can only say a hierarchical network"
_DESCRIPTION: Final = "rdma-ndd(8): the node description"

FABRIC_RULES: Final[tuple[Rule[Check[FabricView]], ...]] = (
    Rule(
        name="fabric-parted", severity=Severity.ERROR, when=checks.fabric_parted,
        because="Switches that no cable joins to the rest, and no node either, as it joins planes.",
        remedy="look for the cables between the two parts; until then keep jobs on one of them",
        source="connected components of the switches' cables",
    ),
    Rule(
        name="switch-isolated", severity=Severity.ERROR, when=checks.switch_isolated,
        because="A switch without a cable to another switch, where its like have some.",
        remedy="look at its uplinks: iblinkinfo shows ports that are down",
        source="connected components of the switches' cables",
    ),
    Rule(
        name="switch-two-parents", severity=Severity.WARNING, when=checks.switch_two_parents,
        because="Slurm's tree names a switch below several others.",
        remedy="name it below one of them: Slurm keeps one and places jobs by that one",
        source=_TREE,
    ),
    Rule(
        name="node-multi-homed", severity=Severity.WARNING, when=checks.node_multi_homed,
        because="Slurm's tree has a node on several leaves.",
        remedy="name it on one leaf; Slurm takes leaves of several rails as one switch, as"
            " `hpckit fabric export` writes them", source=_TREE,
    ),
    Rule(
        name="node-two-blocks", severity=Severity.WARNING, when=checks.node_two_blocks,
        because="A node is in several blocks.",
        remedy="name it in one of them: slurmctld does not look, and counts it in each",
        source="block_record.c: the nodes of each block, which nothing compares",
    ),
    Rule(
        name="leaf-absent", severity=Severity.WARNING, when=checks.leaf_absent,
        because="A group of nodes has no leaf for a rail for which the other groups have one.",
        remedy="look whether that switch has power and answers; its nodes lack a NIC until then",
        source=_RAILS,
    ),
    Rule(
        name="leaf-empty", severity=Severity.WARNING, when=checks.leaf_empty,
        because="A switch that is cabled as leaves are, on which no node hangs.",
        remedy="look whether its nodes have power, and their ports a link: iblinkinfo",
        source=_RAILS,
    ),
    Rule(
        name="cables-missing", severity=Severity.WARNING, when=checks.cables_missing,
        because="Two switches are joined by fewer cables than others of their kind, or by none.",
        remedy="look at the ports that should be up: iblinkinfo --switches-only; reseat or replace",
        source=_CLOS,
    ),
    Rule(
        name="uplinks-uneven", severity=Severity.WARNING, when=checks.uplinks_uneven,
        because="Cables lead to other switches than they do elsewhere, or to one by fewer.",
        remedy="compare with the cabling plan: traffic takes the paths by turns and waits for the"
            " thinnest", source=_CLOS,
    ),
    Rule(
        name="uplinks-fewer", severity=Severity.WARNING, when=checks.uplinks_fewer,
        because="All switches of a pod have fewer cables upwards than those of most pods of its"
            " kind.",
        remedy="look whether a switch above them has power and answers", source=_CLOS,
    ),
    Rule(
        name="link-slow", severity=Severity.WARNING, when=links_slow,
        because="A cable came up with fewer lanes or a lower rate than those of its kind.",
        remedy="reseat or replace the cable, then look at its errors: ibqueryerrors",
        source="InfiniBand Architecture Specification 1, PortInfo: LinkWidthActive,"
            " LinkSpeedActive",
    ),
    Rule(
        name="rails-swapped", severity=Severity.WARNING, when=checks.rails_swapped,
        because="Two or more NICs hang in each other's place.",
        remedy="exchange the cables; until then traffic of these rails crosses the spines",
        source=_RAILS,
    ),
    Rule(
        name="nic-misplaced", severity=Severity.WARNING, when=checks.nic_misplaced,
        because="A NIC hangs on another leaf than those of its name in its group.",
        remedy="compare with the cabling plan; until then its traffic crosses the spines",
        source=_RAILS,
    ),
    Rule(
        name="rails-fewer", severity=Severity.WARNING, when=checks.rails_fewer,
        because="A node lacks a NIC that its peers have on the fabric.",
        remedy="on the node: ibstat shows the port that is down; keep jobs of all rails off it",
        source=_RAILS,
    ),
    Rule(
        name="nics-anonymous", severity=Severity.WARNING, when=nics_anonymous,
        because="Adapters have the description that their firmware came with, so nobody can tell on"
            " which node they are.",
        remedy="start rdma-ndd on those nodes; it sets the node description", source=_DESCRIPTION,
    ),
    Rule(
        name="name-says-nothing", severity=Severity.WARNING, when=checks.name_says_nothing,
        because="A node is called as a system is before it is given a name, such as localhost.",
        remedy="give the node its name and restart rdma-ndd there", source=_DESCRIPTION,
    ),
    Rule(
        name="name-twice", severity=Severity.WARNING, when=checks.name_twice,
        because="Two nodes have the same name.",
        remedy="look at the nodes on these ports, and give one its own name", source=_DESCRIPTION,
    ),
    Rule(
        name="not-in-slurm", severity=Severity.WARNING, when=checks.not_in_slurm,
        because="A node hangs on the fabric, and Slurm has no such node.",
        remedy="compare with scontrol show nodes; it may be for something else, or not yet there",
        source="scontrol(1): show node",
    ),
    Rule(
        name="not-in-fabric", severity=Severity.WARNING, when=checks.not_in_fabric,
        because="Slurm has a node that does not hang on the fabric.",
        remedy="it may have no InfiniBand, be off, or be anonymous: ibstat on the node",
        source="scontrol(1): show node",
    ),
    Rule(
        name="names-differ", severity=Severity.NOTE, when=checks.names_differ,
        because="A node's name has another case or domain in Slurm than in the fabric.",
        remedy="nothing to mend; a topology file for Slurm needs Slurm's form",
        source="slurm.conf(5): NodeName, NodeHostname",
    ),
    Rule(
        name="host-not-compute", severity=Severity.NOTE, when=checks.hosts_besides,
        because="Hosts that are no compute nodes, such as subnet managers, share leaves with"
            " nodes.",
        remedy="nothing to mend; placement leaves them out", source=_DESCRIPTION,
    ),
)  # fmt: skip


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
