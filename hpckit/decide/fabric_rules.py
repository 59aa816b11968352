"""The rules about fabrics, as data."""

from __future__ import annotations

from typing import Final

from hpckit.decide import fabric_rules_cables as cables
from hpckit.decide import fabric_rules_leaves as leaves
from hpckit.decide import fabric_rules_names as names
from hpckit.decide import fabric_rules_rails as rails
from hpckit.decide import fabric_rules_slurm as slurm
from hpckit.decide.fabric_anonymous import nics_anonymous
from hpckit.decide.fabric_rates import links_slow
from hpckit.decide.fabric_rule import FabricRule
from hpckit.model.node_finding import Severity

_RAILS: Final = "the rail-optimised designs of DGX SuperPODs: a leaf a rail for each group of nodes"
_CLOS: Final = "the folded Clos: leaves of a group lead to the same spines by equally many cables"
_TREE: Final = "topology.conf(5): it can only say a hierarchical network"
_DESCRIPTION: Final = "rdma-ndd(8): the node description"

FABRIC_RULES: Final[tuple[FabricRule, ...]] = (
    FabricRule(
        name="fabric-parted",
        severity=Severity.ERROR,
        what="Switches that no cable joins to the rest, and no node either, as it joins planes.",
        remedy="look for the cables between the two parts; until then keep jobs on one of them",
        source="connected components of the switches' cables",
        check=cables.fabric_parted,
    ),
    FabricRule(
        name="switch-isolated",
        severity=Severity.ERROR,
        what="A switch without a cable to another switch, where its like have some.",
        remedy="look at its uplinks: iblinkinfo shows ports that are down",
        source="connected components of the switches' cables",
        check=cables.switch_isolated,
    ),
    FabricRule(
        name="switch-two-parents",
        severity=Severity.WARNING,
        what="Slurm's tree names a switch below several others.",
        remedy="name it below one of them: Slurm keeps one and places jobs by that one",
        source=_TREE,
        check=slurm.switch_two_parents,
    ),
    FabricRule(
        name="node-multi-homed",
        severity=Severity.WARNING,
        what="Slurm's tree has a node on several leaves.",
        remedy="name it on one leaf; Slurm takes leaves of several rails as one switch, as"
        " `hpckit fabric export` writes them",
        source=_TREE,
        check=slurm.node_multi_homed,
    ),
    FabricRule(
        name="node-two-blocks",
        severity=Severity.WARNING,
        what="A node is in several blocks.",
        remedy="name it in one of them: slurmctld does not look, and counts it in each",
        source="block_record.c: the nodes of each block, which nothing compares",
        check=slurm.node_two_blocks,
    ),
    FabricRule(
        name="leaf-absent",
        severity=Severity.WARNING,
        what="A group of nodes has no leaf for a rail for which the other groups have one.",
        remedy="look whether that switch has power and answers; its nodes lack a NIC until then",
        source=_RAILS,
        check=leaves.leaf_absent,
    ),
    FabricRule(
        name="leaf-empty",
        severity=Severity.WARNING,
        what="A switch that is cabled as leaves are, on which no node hangs.",
        remedy="look whether its nodes have power, and their ports a link: iblinkinfo",
        source=_RAILS,
        check=leaves.leaf_empty,
    ),
    FabricRule(
        name="cables-missing",
        severity=Severity.WARNING,
        what="Two switches are joined by fewer cables than others of their kind, or by none.",
        remedy="look at the ports that should be up: iblinkinfo --switches-only; reseat or replace",
        source=_CLOS,
        check=cables.cables_missing,
    ),
    FabricRule(
        name="uplinks-uneven",
        severity=Severity.WARNING,
        what="Cables lead to other switches than they do elsewhere, or to one by fewer.",
        remedy="compare with the cabling plan: traffic takes the paths by turns and waits for the"
        " thinnest",
        source=_CLOS,
        check=cables.uplinks_uneven,
    ),
    FabricRule(
        name="uplinks-fewer",
        severity=Severity.WARNING,
        what="All switches of a pod have fewer cables upwards than those of most pods of its kind.",
        remedy="look whether a switch above them has power and answers",
        source=_CLOS,
        check=cables.uplinks_fewer,
    ),
    FabricRule(
        name="link-slow",
        severity=Severity.WARNING,
        what="A cable came up with fewer lanes or a lower rate than those of its kind.",
        remedy="reseat or replace the cable, then look at its errors: ibqueryerrors",
        source="InfiniBand Architecture Specification 1, PortInfo: LinkWidthActive,"
        " LinkSpeedActive",
        check=links_slow,
    ),
    FabricRule(
        name="rails-swapped",
        severity=Severity.WARNING,
        what="Two or more NICs hang in each other's place.",
        remedy="exchange the cables; until then traffic of these rails crosses the spines",
        source=_RAILS,
        check=rails.rails_swapped,
    ),
    FabricRule(
        name="nic-misplaced",
        severity=Severity.WARNING,
        what="A NIC hangs on another leaf than those of its name in its group.",
        remedy="compare with the cabling plan; until then its traffic crosses the spines",
        source=_RAILS,
        check=rails.nic_misplaced,
    ),
    FabricRule(
        name="rails-fewer",
        severity=Severity.WARNING,
        what="A node lacks a NIC that its peers have on the fabric.",
        remedy="on the node: ibstat shows the port that is down; keep jobs of all rails off it",
        source=_RAILS,
        check=rails.rails_fewer,
    ),
    FabricRule(
        name="nics-anonymous",
        severity=Severity.WARNING,
        what="Adapters have the description that their firmware came with, so nobody can tell on"
        " which node they are.",
        remedy="start rdma-ndd on those nodes; it sets the node description",
        source=_DESCRIPTION,
        check=nics_anonymous,
    ),
    FabricRule(
        name="name-says-nothing",
        severity=Severity.WARNING,
        what="A node is called as a system is before it is given a name, such as localhost.",
        remedy="give the node its name and restart rdma-ndd there",
        source=_DESCRIPTION,
        check=names.name_says_nothing,
    ),
    FabricRule(
        name="name-twice",
        severity=Severity.WARNING,
        what="Two nodes have the same name.",
        remedy="look at the nodes on these ports, and give one its own name",
        source=_DESCRIPTION,
        check=names.name_twice,
    ),
    FabricRule(
        name="not-in-slurm",
        severity=Severity.WARNING,
        what="A node hangs on the fabric, and Slurm has no such node.",
        remedy="compare with scontrol show nodes; it may be for something else, or not yet there",
        source="scontrol(1): show node",
        check=names.not_in_slurm,
    ),
    FabricRule(
        name="not-in-fabric",
        severity=Severity.WARNING,
        what="Slurm has a node that does not hang on the fabric.",
        remedy="it may have no InfiniBand, be off, or be anonymous: ibstat on the node",
        source="scontrol(1): show node",
        check=names.not_in_fabric,
    ),
    FabricRule(
        name="names-differ",
        severity=Severity.NOTE,
        what="A node's name has another case or domain in Slurm than in the fabric.",
        remedy="nothing to mend; a topology file for Slurm needs Slurm's form",
        source="slurm.conf(5): NodeName, NodeHostname",
        check=names.names_differ,
    ),
    FabricRule(
        name="host-not-compute",
        severity=Severity.NOTE,
        what="Hosts that are no compute nodes, such as subnet managers, share leaves with nodes.",
        remedy="nothing to mend; placement leaves them out",
        source=_DESCRIPTION,
        check=names.hosts_besides,
    ),
)
