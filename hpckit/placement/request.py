"""What a placement is asked and answers, and in which order Slurm itself hands ranks to nodes.

Up to 25.11 that is the order of slurmctld's table of nodes: by name, as strnatcmp.c compares. From
26.05 on the default distribution follows the topology: nodes by the leaf switch, in the order of
the leaves in the configuration, or by the index of their block; within one by name again. Source:
_sort_node_record_table_ptr (read_config.c), topology_p_get_rank (topology_tree.c,
topology_block.c), _task_layout_topo (slurm_step_layout.c); each tried with srun, but 25.05 and
25.11. With topology/block 23.11 to 24.11 do not sort their table: there the order is that of
slurm.conf, taken here to be by name, as it is at most sites. A site can change it by
TopologyParam=SwitchAsNodeRank, and in 26.05 by CR_NO_DIST_TOPO_BLOCK.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

from hpckit.core.errors import PlanError
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.fabric.topology import ClusterTopology, FabricSource
from hpckit.placement.order_plan import Mesh, MeshAxis, Pattern
from hpckit.slurm.values import SlurmVersion, TopologyKind
from hpckit.spec.job import MeshAxis as AxisName

_PATTERNS: Final = {
    AxisName.TENSOR: Pattern.RING,
    AxisName.CONTEXT: Pattern.RING,
    AxisName.DATA: Pattern.RING,
    AxisName.PIPELINE: Pattern.CHAIN,
    AxisName.EXPERT: Pattern.ALL_TO_ALL,
}
EQUAL_BYTES: Final = 1e9
"""What every axis is taken to send where nobody says anything: then they count alike."""


def mesh_of(sizes: Mapping[AxisName, int], volumes: Mapping[AxisName, float]) -> Mesh:
    """The mesh, innermost axis first, with bytes per rank and step.

    Without any volume all axes count alike; with some, those that are not named send nothing.
    Raises PlanError where experts do not divide the data axis, or a volume has no axis.
    """
    for axis in volumes:
        if axis not in sizes:
            raise PlanError(
                f"there is a volume for axis {axis}, but the mesh has no such axis",
                have=f"a mesh of {', '.join(sizes)}" if sizes else "no mesh",
                need=f"a mesh with axis {axis}",
                hint=f"remove {axis} from the volumes, or add it to the mesh",
            )
    splits = None
    if AxisName.EXPERT in sizes and AxisName.DATA in sizes:
        splits = str(AxisName.DATA)
        if sizes[AxisName.DATA] % sizes[AxisName.EXPERT]:
            raise PlanError(
                "the expert axis must divide the data axis",
                have=f"data {sizes[AxisName.DATA]}",
                need=f"a multiple of {sizes[AxisName.EXPERT]}, the size of expert",
                hint="set expert to a divisor of data",
            )
    return Mesh(
        axes=tuple(
            MeshAxis(
                name=str(axis),
                size=size,
                pattern=_PATTERNS[axis],
                bytes_per_rank=volumes.get(axis, 0.0) if volumes else EQUAL_BYTES,
                splits=splits if axis is AxisName.EXPERT else None,
            )
            for axis, size in sizes.items()
        )
    )


TOPOLOGICAL_SINCE: Final = SlurmVersion(26, 5)
_DIGITS: Final = regex(r"[0-9]+")
_SLURMS_OWN: Final = frozenset(
    {FabricSource.SCONTROL, FabricSource.TOPOLOGY_CONF, FabricSource.TOPOLOGY_YAML}
)
"""Those that list switches and blocks in the order of slurmctld's records."""


def slurm_order(
    nodes: Sequence[str], version: SlurmVersion | None, topology: ClusterTopology | None
) -> tuple[str, ...] | None:
    """The nodes in Slurm's own order; None where that is not known.

    `topology` is the one of the job's partition; it is needed from 26.05 on, and it must be as
    Slurm has it: of another source the order of its leaves is not Slurm's.
    """
    if version is None:
        return None
    if version < TOPOLOGICAL_SINCE:
        return tuple(sorted(nodes, key=table_order))
    rank = None if topology is None else _ranks(topology)
    if rank is None:
        return None
    return tuple(sorted(nodes, key=lambda node: (rank.get(node, 0), table_order(node))))


def table_order(name: str) -> str:
    """A key that sorts names as strnatcmp(3) does: numbers by value, those with zeros before them.

    `n2` comes before `n10`, `n09` before both and `n010` before that: where one of two numbers
    begins with a zero they are compared digit by digit.
    """
    return _DIGITS.sub(_number, name)


def _number(match: re.Match[str]) -> str:
    digits = match[0]
    if digits.startswith("0"):
        return f"0\x01{digits}\x00"
    return f"0\x02{chr(len(digits))}{digits}"


def _ranks(topology: ClusterTopology) -> Mapping[str, int] | None:
    """The rank of each node's leaf or block; a node in none has 0, as the first block has too."""
    if topology.source not in _SLURMS_OWN:
        return None
    if topology.plugin is TopologyKind.FLAT:
        return {}
    found: dict[str, int] = {}
    if topology.plugin is TopologyKind.BLOCK:
        blocks = (block for block in topology.blocks if not block.is_aggregated)
        for rank, block in enumerate(blocks):
            for node in block.nodes:
                found.setdefault(node, rank)
        return found
    leaves = [switch.name for switch in topology.switches if switch.level == 0]
    rank_of_leaf = {name: rank for rank, name in enumerate(leaves, start=1)}
    for port in topology.ports:
        rank_of_port = rank_of_leaf.get(port.switch)
        if port.node is not None and rank_of_port is not None:
            found[port.node] = min(rank_of_port, found.get(port.node, rank_of_port))
    return found if topology.plugin is TopologyKind.TREE else None


PLACEMENT_SCHEMA: Final = "hpckit.placement/1"

TIME: Final = "step_comm_time_s"
HOP_BYTES: Final = "hop_bytes"
STRADDLING: Final = "straddling_groups"
SPREAD: Final = "max_spread"
STEP_TIME_WORDS: Final = "communication per step"
BYTES_X_HOPS: Final = "bytes × hops"
ORDER_WORDS: Final[Mapping[str, str]] = {
    "hostname": "host names",
    "slurm": "Slurm order",
    "random": "random",
}
"""The orders beside the one that is placed, by the names that `Compared` has for them."""


def spread_words(places: str) -> str:
    """What the most places of a group are called, `places` being `leaves` or the like."""
    return f"most {places} per group"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One figure of each order; None where the order, or a bound, is not known. Less is better."""

    placed: float
    hostname: float
    slurm: float | None
    random: float
    lower_bound: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisGroups:
    """The groups of one axis: `straddling` counts those on more than one leaf (or block)."""

    groups: int
    nodes_per_group: int
    straddling: Compared
    time_s: Compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """Node names, the i-th carrying the ranks i·g … i·g+g−1; `slurm` None where not known."""

    placed: tuple[str, ...]
    hostname: tuple[str, ...]
    slurm: tuple[str, ...] | None
    random: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The order, why it was taken, and every objective beside the other orders.

    `given` says in words what the caller told, `assumed` what nobody told and was taken all the
    same, `notes` what a person should know: what got worse, which nodes nobody knows. `advice` is
    what to ask Slurm for. `places` is what the lowest domains of its nodes are called together.
    """

    orders: Orders
    because: str
    objectives: Mapping[str, Compared]
    groups: Mapping[str, AxisGroups]
    places: str = "leaves"
    given: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
