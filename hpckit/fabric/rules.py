"""The rules about fabrics, as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.core.findings import Check, Finding, Rule, Severity, judge
from hpckit.core.hostlist import natural_order
from hpckit.fabric import rules_checks as checks
from hpckit.fabric.rule import FabricView, fabric_view, links_slow, nics_anonymous
from hpckit.fabric.topology import ClusterTopology

_RAILS: Final = (
    "the rail-optimised designs of DGX SuperPODs: one leaf per rail for each group of nodes"
)
_CLOS: Final = (
    "the folded Clos: leaves of a group have the same number of cables to the same spines"
)
_TREE: Final = "topology.conf(5): it can describe a hierarchical network only"
_DESCRIPTION: Final = "rdma-ndd(8): the node description"

FABRIC_RULES: Final[tuple[Rule[Check[FabricView]], ...]] = (
    Rule(
        name="fabric-parted", severity=Severity.ERROR, when=checks.fabric_parted,
        because="Switches have no cable to the rest of the fabric, and share no node with it.",
        remedy="check the cables between the two parts; until then keep each job in one part",
        source="connected components of the switches' cables",
    ),
    Rule(
        name="switch-isolated", severity=Severity.ERROR, when=checks.switch_isolated,
        because="A switch has no cable to another switch, though similar switches have some.",
        remedy="check its uplinks: iblinkinfo shows ports that are down",
        source="connected components of the switches' cables",
    ),
    Rule(
        name="trees-separate", severity=Severity.NOTE, when=checks.trees_separate,
        because="Slurm's tree has parts without a common switch: no job spans two of them.",
        remedy="nothing to fix if this is meant; else add a switch above them",
        source="Slurm, Topology Guide: switches that lack a common parent",
    ),
    Rule(
        name="switch-two-parents", severity=Severity.WARNING, when=checks.switch_two_parents,
        because="A switch is below several others in Slurm's tree.",
        remedy="list it below one of them: Slurm keeps only one and places jobs by it",
        source=_TREE,
    ),
    Rule(
        name="node-multi-homed", severity=Severity.WARNING, when=checks.node_multi_homed,
        because="A node is on several leaves in Slurm's tree.",
        remedy="list it on one leaf; for Slurm, leaves of several rails are one switch, as"
            " `hpckit fabric export` writes them", source=_TREE,
    ),
    Rule(
        name="node-two-blocks", severity=Severity.WARNING, when=checks.node_two_blocks,
        because="A node is in several blocks.",
        remedy="list it in one of them: slurmctld does not check, and counts it in each",
        source="block_record.c: nothing compares the nodes of blocks",
    ),
    Rule(
        name="leaf-absent", severity=Severity.WARNING, when=checks.leaf_absent,
        because="A group of nodes has no leaf for a rail, though the other groups have one.",
        remedy="check that the switch has power and responds; its nodes lack a NIC until then",
        source=_RAILS,
    ),
    Rule(
        name="leaf-empty", severity=Severity.WARNING, when=checks.leaf_empty,
        because="A switch is cabled like a leaf, but no node is connected to it.",
        remedy="check that its nodes have power and their ports have a link: iblinkinfo",
        source=_RAILS,
    ),
    Rule(
        name="cables-missing", severity=Severity.WARNING, when=checks.cables_missing,
        because="Two switches have fewer cables between them than similar pairs, or none.",
        remedy="check the ports that should be up: iblinkinfo --switches-only; reseat or replace",
        source=_CLOS,
    ),
    Rule(
        name="uplinks-uneven", severity=Severity.WARNING, when=checks.uplinks_uneven,
        because="Uplinks go to other switches than elsewhere, or too few of them go to one switch.",
        remedy="compare with the cabling plan: traffic alternates between the paths and waits for"
            " the slowest", source=_CLOS,
    ),
    Rule(
        name="uplinks-fewer", severity=Severity.WARNING, when=checks.uplinks_fewer,
        because="All switches of a pod have fewer uplinks than those of most similar pods.",
        remedy="check that the switches above them have power and respond", source=_CLOS,
    ),
    Rule(
        name="link-slow", severity=Severity.WARNING, when=links_slow,
        because="A cable came up with fewer lanes or a lower rate than similar cables.",
        remedy="reseat or replace the cable, then check its errors: ibqueryerrors",
        source="InfiniBand Architecture Specification 1, PortInfo: LinkWidthActive,"
            " LinkSpeedActive",
    ),
    Rule(
        name="rails-swapped", severity=Severity.WARNING, when=checks.rails_swapped,
        because="Two or more NICs are cabled to each other's leaf.",
        remedy="swap the cables; until then traffic of these rails crosses the spines",
        source=_RAILS,
    ),
    Rule(
        name="nic-misplaced", severity=Severity.WARNING, when=checks.nic_misplaced,
        because="A NIC is on another leaf than the same NIC of the other nodes in its group.",
        remedy="compare with the cabling plan; until then its traffic crosses the spines",
        source=_RAILS,
    ),
    Rule(
        name="rails-fewer", severity=Severity.WARNING, when=checks.rails_fewer,
        because="A node lacks a NIC that its peers have on the fabric.",
        remedy="on the node, ibstat shows the port that is down; keep multi-rail jobs off it",
        source=_RAILS,
    ),
    Rule(
        name="nics-anonymous", severity=Severity.WARNING, when=nics_anonymous,
        because="HCAs still have the node description of their firmware, so their nodes are"
            " unknown.",
        remedy="start rdma-ndd on those nodes; it sets the node description", source=_DESCRIPTION,
    ),
    Rule(
        name="name-says-nothing", severity=Severity.WARNING, when=checks.name_says_nothing,
        because="A node reports a default host name, such as localhost.",
        remedy="set the node's host name and restart rdma-ndd there", source=_DESCRIPTION,
    ),
    Rule(
        name="name-twice", severity=Severity.WARNING, when=checks.name_twice,
        because="Two nodes have the same name.",
        remedy="check the nodes on these ports, and rename one", source=_DESCRIPTION,
    ),
    Rule(
        name="not-in-slurm", severity=Severity.WARNING, when=checks.not_in_slurm,
        because="A node is on the fabric, but not in Slurm.",
        remedy="compare with scontrol show nodes; it may have another purpose, or not be added yet",
        source="scontrol(1): show node",
    ),
    Rule(
        name="not-in-fabric", severity=Severity.WARNING, when=checks.not_in_fabric,
        because="A node is in Slurm, but not on the fabric.",
        remedy="it may have no InfiniBand, be off, or be anonymous: run ibstat on the node",
        source="scontrol(1): show node",
    ),
    Rule(
        name="names-differ", severity=Severity.NOTE, when=checks.names_differ,
        because="A node's name differs in case or domain between Slurm and the fabric.",
        remedy="nothing to fix; a topology file for Slurm needs Slurm's spelling",
        source="slurm.conf(5): NodeName, NodeHostname",
    ),
    Rule(
        name="host-not-compute", severity=Severity.NOTE, when=checks.hosts_besides,
        because="Hosts other than compute nodes, such as subnet managers, share leaves with"
            " nodes.",
        remedy="nothing to fix; placement ignores them", source=_DESCRIPTION,
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
