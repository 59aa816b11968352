"""A cluster's network as it was seen: switches, what is cabled between them, where nodes hang.

None is "the source does not tell". Words are those of topology.conf(5), ibnetdiscover(8) and NVML.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Final, TypeVar

from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.node.topology import NodeTopology
from hpckit.slurm.values import TopologyKind

FABRIC_SCHEMA: Final = "hpckit.fabric/1"
Name = TypeVar("Name", bound=Hashable)


class FabricSource(StrEnum):
    """What told about a fabric."""

    SCONTROL = "scontrol show topology"
    TOPOLOGY_CONF = "topology.conf"
    TOPOLOGY_YAML = "topology.yaml"
    TOPOLOGY_ADDR = "SLURM_TOPOLOGY_ADDR"
    IBNETDISCOVER = "ibnetdiscover"
    INSPECT = "hpckit inspect"
    AWS = "aws"
    AZURE = "azure"
    GCP = "gcp"
    OCI = "oci"


@dataclass(frozen=True, slots=True, kw_only=True)
class Switch:
    """A switch; `level` is Slurm's, 0 where nodes hang on it.

    `description` is what its own text says, `link_speed` Slurm's LinkSpeed, in no unit.
    """

    name: str
    level: int | None = None
    guid: str | None = None
    description: str | None = None
    ports: int | None = None
    link_speed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Cable:
    """One cable between two switches, by the ports at its ends; `speed` as written, such as 4xNDR.

    `bytes_per_s` is in one direction. A cable that is seen from one end alone has no other port.
    """

    lower_port: int | None = None
    upper_port: int | None = None
    speed: str | None = None
    bytes_per_s: float | None = None
    is_active: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchLink:
    """Two switches that are joined, `lower` the one nearer to nodes.

    `cables` is None where the source does not count them, as Slurm's do not.
    """

    lower: str
    upper: str
    cables: tuple[Cable, ...] | None = None


class EndKind(StrEnum):
    """What hangs on a switch's port."""

    COMPUTE = "compute"
    AGGREGATION = "aggregation"  # the switch's own SHARP node
    OTHER = "other"  # a manager, storage, a gateway
    ANONYMOUS = "anonymous"  # an adapter that does not say on which node it is

    __hash__ = str.__hash__  # Enum's own is Python, and slower


NODE_ENDS: Final = frozenset({EndKind.COMPUTE, EndKind.ANONYMOUS})
"""What a node's adapter may be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPort:
    """Where a node's NIC hangs; `node` is None where it does not say whose it is.

    `nic` is its name, such as mlx5_0; None where the source knows nodes alone, as Slurm does.
    `nic_port` is which of its ports, where it has several; `adapter` is the same for all ports of
    one card, such as its sysimgguid.
    """

    node: str | None
    switch: str
    switch_port: int | None = None
    nic: str | None = None
    guid: str | None = None
    description: str | None = None
    speed: str | None = None
    bytes_per_s: float | None = None
    kind: EndKind = EndKind.COMPUTE
    nic_port: int | None = None
    adapter: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Nodes that are one block to topology/block, or one NVLink domain.

    `domain` is its clusterUuid.cliqueId, `index` and `size` are Slurm's BlockIndex and BlockSize.
    An aggregated block is several others.
    """

    name: str
    nodes: tuple[str, ...]
    index: int | None = None
    size: int | None = None
    domain: str | None = None
    is_aggregated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Rail:
    """The leaf switches to which the NICs of one name or place lead, on all nodes."""

    index: int
    switches: tuple[str, ...]
    nics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterTopology:
    """One network; `name` is that of a topology in topology.yaml, `plugin` what places jobs on it.

    `planes` are the switches that reach each other by cables, where there is more than one such
    set. `partitions` are those that use this topology, where the source tells. `unplaced` are nodes
    that the source names, and tells no place of.
    """

    source: FabricSource
    name: str | None = None
    plugin: TopologyKind | None = None
    is_default: bool = True
    switches: tuple[Switch, ...] = ()
    links: tuple[SwitchLink, ...] = ()
    ports: tuple[HostPort, ...] = ()
    blocks: tuple[Block, ...] = ()
    block_sizes: tuple[int, ...] = ()
    rails: tuple[Rail, ...] = ()
    planes: tuple[tuple[str, ...], ...] = ()
    partitions: tuple[str, ...] = ()
    unplaced: tuple[str, ...] = ()

    @property
    def beside(self) -> dict[str, list[str]]:
        """The switches at the other ends of each switch's links."""
        found: defaultdict[str, list[str]] = defaultdict(list)
        for link in self.links:
            found[link.lower].append(link.upper)
            found[link.upper].append(link.lower)
        return found

    @property
    def linked(self) -> set[str]:
        """The switches that a link joins to another."""
        return {end for link in self.links for end in (link.lower, link.upper)}

    @property
    def nodes(self) -> tuple[str, ...]:
        """The compute nodes that have a name, each once, in the source's order."""
        ends = [port.node for port in self.ports if port.kind is EndKind.COMPUTE and port.node]
        of_blocks = [node for block in self.blocks for node in block.nodes]
        return tuple(dict.fromkeys(ends + of_blocks))


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopologies:
    """The networks of a cluster as they were at `seen_s`, in seconds since the epoch."""

    topologies: tuple[ClusterTopology, ...]
    seen_s: float


def not_checked(topology: ClusterTopology) -> tuple[str, ...]:
    """Return those of `cables`, `rates` and `rails` that a topology's source does not tell."""
    cables = [cable for link in topology.links for cable in link.cables or ()]
    rates = [cable.bytes_per_s for cable in cables]
    rates += [port.bytes_per_s for port in topology.ports]
    told = {
        "cables": bool(cables) or topology.source is FabricSource.IBNETDISCOVER,
        "rates": any(rate is not None for rate in rates),
        "rails": any(port.nic or port.guid for port in topology.ports),
    }
    return tuple(what for what, is_told in told.items() if not is_told)


def heights(below: Mapping[Name, Iterable[Name]]) -> tuple[dict[Name, int], list[Name]]:
    """Return how far each switch is above its lowest one, and a ring where one is below itself.

    The ring begins and ends with the same switch; without one it is empty.
    """
    found: dict[Name, int] = {}
    try:
        for name in TopologicalSorter(below).static_order():
            found[name] = max((found[child] + 1 for child in below[name]), default=0)
    except CycleError as error:
        ring = error.args[1][:0:-1]
        at = ring.index(next(name for name in below if name in ring))
        return {}, [*ring[at:], *ring[: at + 1]]
    return found, []


def steps_from(levels: Mapping[str, int], beside: Mapping[str, Iterable[str]]) -> dict[str, int]:
    """Return the levels, and of what is beside them one more with each step."""
    found = dict(levels)
    ready = list(found)
    for name in ready:  # grows while it is walked
        for other in beside.get(name, ()):
            if other not in found:
                found[other] = found[name] + 1
                ready.append(other)
    return found


# --- The NVLink domains of nodes. Source: NVML, nvmlGpuFabricInfoV_t; NCCL, init.cc: "A zero UUID
# means we don't have MNNVL fabric info".
def is_cluster(uuid: str | None) -> bool:
    """Whether a clusterUuid names a cluster; one of zeros alone does not."""
    return bool(uuid and uuid.strip("0-"))


def nvlink_domain(node: NodeTopology) -> str | None:
    """The clusterUuid.cliqueId of most of a node's GPUs; None where none of them names one.

    GPUs that NVLink joins within a node alone name no cluster.
    """
    named = Counter(
        f"{gpu.fabric.cluster_uuid}.{gpu.fabric.clique_id}"
        for gpu in node.gpus
        if gpu.fabric and is_cluster(gpu.fabric.cluster_uuid) and gpu.fabric.clique_id is not None
    )
    return max(sorted(named), key=named.__getitem__) if named else None


# --- What Slurm takes in a topology file. Sources: topology.conf(5); switch_record.c.
LONGEST_SWITCH_NAME: Final = 64
"""Characters: a longer one ends slurmctld."""

LINK_SPEED: Final = regex(r"\d{1,10}[km]?|0x[0-9a-f]{1,8}|unlimited|infinite", re.ASCII | re.I)
"""The value of LinkSpeed="""
