"""NUMA nodes of hwloc's XML, and which of them a device is near.

Sources: hwloc's documentation, "Memory kinds" (the subtypes of NUMA nodes) and topology-linux.c
(GPUMemory, PCIBusID).
"""

from __future__ import annotations

from typing import Final

from hpckit.model.hardware import NumaKind, NumaNode
from hpckit.model.index_list import IndexList, index_list
from hpckit.parse.hwloc_distances import numa_distances
from hpckit.parse.hwloc_objects import HwlocObject, HwlocTree, Kind
from hpckit.parse.hwloc_values import info, members, node_index, whole

# SPM is memory set aside by the firmware: HBM, or anything else.
_KINDS: Final = {
    "DRAM": NumaKind.DRAM,
    "MCDRAM": NumaKind.HBM,
    "HBM": NumaKind.HBM,
    "GPUMemory": NumaKind.GPU,
}


class Places:
    """The CPUs and NUMA nodes beside an object; asked once an object, as many devices share one."""

    def __init__(self, tree: HwlocTree, nodes: tuple[NumaNode, ...]) -> None:
        self._tree = tree
        self._nodes = {node.index: node for node in nodes}
        self._with_cpus = {node.index for node in nodes if node.cpus}
        self._known: dict[int, frozenset[int]] = {}

    def nodes(self, place: HwlocObject) -> frozenset[int]:
        """All NUMA nodes of a place."""
        key = id(place)
        if key not in self._known:
            found = members(self._tree.document, place.element, "nodeset")
            self._known[key] = (found or frozenset()) & self._nodes.keys()
        return self._known[key]

    def numa_index(self, device: HwlocObject) -> int | None:
        """The one node whose CPUs are beside a device; None if there are several, or none."""
        nodes = self.nodes(device.place)
        candidates = nodes & self._with_cpus or nodes
        return next(iter(candidates)) if len(candidates) == 1 else None

    def is_anywhere(self, device: HwlocObject) -> bool:
        """Whether the file puts a device beside the whole machine, though it has several nodes."""
        return device.place is self._tree.machine and self.numa_index(device) is None

    def cpus(self, device: HwlocObject) -> IndexList | None:
        """The CPUs beside a device, None if that is all and it might not be."""
        if self.is_anywhere(device):
            return None
        found = members(self._tree.document, device.place.element, "cpuset")
        return None if found is None else index_list(found)

    def memory(self, device: HwlocObject) -> IndexList | None:
        """The NUMA nodes beside a device, those without CPUs included."""
        nodes = self.nodes(device.place)
        return None if self.is_anywhere(device) or not nodes else index_list(nodes)


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
    distances = numa_distances(tree)
    cpus = _owned(tree, found)
    return tuple(
        NumaNode(
            index=number,
            cpus=cpus[number],
            memory_bytes=whole(tree.document, found[number].element, "local_memory") or None,
            kind=numa_kind(found[number]),
            distances=_row(distances.get(number, {}), sorted(found)),
        )
        for number in sorted(found)
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
    for number in sorted(found, key=lambda at: (_comes_later(found[at]), at)):
        cpus = members(tree.document, found[number].element, "cpuset")
        is_shared = cpus is not None and not taken.isdisjoint(cpus)
        owned[number] = None if cpus is None else index_list(() if is_shared else cpus)
        taken |= cpus or frozenset()
    return owned


def _comes_later(node: HwlocObject) -> bool:
    return numa_kind(node) not in {None, NumaKind.DRAM}


def _row(row: dict[int, int], nodes: list[int]) -> tuple[int, ...] | None:
    return tuple(row[node] for node in nodes) if row.keys() == set(nodes) else None
