"""NUMA nodes of hwloc's XML, and which of them a device is near.

Sources: hwloc's documentation, "Memory kinds" (the subtypes of NUMA nodes) and topology-linux.c
(GPUMemory, PCIBusID).
"""

from __future__ import annotations

from typing import Final, NamedTuple

from hpckit.core.index_list import IndexList, index_list
from hpckit.node.capture.hwloc_distances import numa_distances
from hpckit.node.capture.hwloc_objects import (
    HwlocObject,
    HwlocTree,
    Kind,
    info,
    members,
    node_index,
    whole,
)
from hpckit.node.topology import NumaKind, NumaNode

# SPM is memory set aside by the firmware: HBM, or anything else.
_KINDS: Final = {
    "DRAM": NumaKind.DRAM,
    "MCDRAM": NumaKind.HBM,
    "HBM": NumaKind.HBM,
    "GPUMemory": NumaKind.GPU,
}


class Place(NamedTuple):
    """The NUMA node, the CPUs and the NUMA nodes beside a device, those without CPUs too."""

    numa_index: int | None
    cpus: IndexList | None
    memory: IndexList | None


class Places:
    """The CPUs and NUMA nodes beside a device; read once a place, as many devices share one."""

    def __init__(self, tree: HwlocTree, nodes: tuple[NumaNode, ...]) -> None:
        self._tree = tree
        self._nodes = {node.index for node in nodes}
        self._with_cpus = {node.index for node in nodes if node.cpus}
        self._known: dict[int, Place] = {}

    def of(self, device: HwlocObject) -> Place:
        """The place of a device.

        Its `numa_index` is that of the one node whose CPUs are beside it, None if there are
        several or none; a device beside a whole machine of several nodes has none of the three.
        """
        key = id(device.place)
        if key not in self._known:
            self._known[key] = self._read(device.place)
        return self._known[key]

    def _read(self, place: HwlocObject) -> Place:
        document = self._tree.document
        nodes = (members(document, place.element, "nodeset") or frozenset()) & self._nodes
        candidates = nodes & self._with_cpus or nodes
        numa_index = next(iter(candidates)) if len(candidates) == 1 else None
        cpus = members(document, place.element, "cpuset")
        if place is self._tree.machine and numa_index is None:
            return Place(None, None, None)
        return Place(
            numa_index,
            None if cpus is None else index_list(cpus),
            index_list(nodes) if nodes else None,
        )


def numa_nodes(tree: HwlocTree) -> tuple[NumaNode, ...]:
    """The NUMA nodes in the order of their numbers; `package_index` is not set here.

    hwloc gives a node without CPUs those that are near it, so of nodes that share CPUs only one
    has them: DRAM before the rest, the lower number before the higher, as Linux numbers them.
    Raises ParseError.
    """
    found: dict[int, HwlocObject] = {}
    for one in tree.of(Kind.NUMA):
        number = node_index(tree.document, one.element)
        if number in found:
            raise tree.document.refuse(one.element, f"NUMA node {number} twice", "each node once")
        found[number] = one
    order = sorted(found)
    distances = numa_distances(tree)
    is_whole = distances.keys() == found.keys()
    cpus = _owned(tree, found)
    return tuple(
        NumaNode(
            index=number,
            cpus=cpus[number],
            memory_bytes=whole(tree.document, found[number].element, "local_memory") or None,
            kind=numa_kind(found[number]),
            distances=tuple(distances[number][other] for other in order) if is_whole else None,
        )
        for number in order
    )


def numa_kind(node: HwlocObject) -> NumaKind | None:
    """What a node is said to hold; most files say it of no node that is ordinary."""
    subtype = node.element.get("subtype")
    if subtype is None:
        return NumaKind.GPU if info(node.element, "PCIBusID") else None
    return _KINDS.get(subtype, NumaKind.OTHER)


def _owned(tree: HwlocTree, found: dict[int, HwlocObject]) -> dict[int, IndexList | None]:
    taken: set[int] = set()
    owned: dict[int, IndexList | None] = {}
    first = {None, NumaKind.DRAM}
    for number in sorted(found, key=lambda at: (numa_kind(found[at]) not in first, at)):
        cpus = members(tree.document, found[number].element, "cpuset")
        is_shared = cpus is not None and not taken.isdisjoint(cpus)
        owned[number] = None if cpus is None else index_list(() if is_shared else cpus)
        taken |= cpus or frozenset()
    return owned
