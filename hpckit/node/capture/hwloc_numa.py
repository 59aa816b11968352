"""NUMA nodes of hwloc's XML, which of them a device is near, and the matrices between objects.

Matrices lie beside the objects (2.x, 3.x) or within one (1.x). Sources: hwloc's documentation,
"Memory kinds" (the subtypes of NUMA nodes); that of 1.11, hwloc_distances_s (a latency is relative
to `latency_base`); topology-linux.c (GPUMemory, PCIBusID) and topology-xml.c
(hwloc__xml_import_distances).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from hpckit.core.index_list import IndexList, index_list
from hpckit.core.late import regex
from hpckit.node.capture.hwloc_objects import HwlocElement, HwlocObject, HwlocTree, Kind
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
        self._machine = tree.machine
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
        nodes = (place.members("nodeset") or frozenset()) & self._nodes
        candidates = nodes & self._with_cpus or nodes
        numa_index = next(iter(candidates)) if len(candidates) == 1 else None
        cpus = place.members("cpuset")
        if place is self._machine and numa_index is None:
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
        number = one.node_index
        if number in found:
            raise one.refuse(f"NUMA node {number} twice", "each node once")
        found[number] = one
    order = sorted(found)
    distances = _numa_distances(tree)
    is_whole = distances.keys() == found.keys()
    cpus = _owned(found)
    return tuple(
        NumaNode(
            index=number,
            cpus=cpus[number],
            memory_bytes=found[number].whole("local_memory") or None,
            kind=numa_kind(found[number]),
            distances=tuple(distances[number][other] for other in order) if is_whole else None,
        )
        for number in order
    )


def numa_kind(node: HwlocObject) -> NumaKind | None:
    """What a node is said to hold; most files say it of no node that is ordinary."""
    subtype = node.get("subtype")
    if subtype is None:
        return NumaKind.GPU if node.info("PCIBusID") else None
    return _KINDS.get(subtype, NumaKind.OTHER)


def _owned(found: dict[int, HwlocObject]) -> dict[int, IndexList | None]:
    taken: set[int] = set()
    owned: dict[int, IndexList | None] = {}
    first = {None, NumaKind.DRAM}
    for number in sorted(found, key=lambda at: (numa_kind(found[at]) not in first, at)):
        cpus = found[number].members("cpuset")
        is_shared = cpus is not None and not taken.isdisjoint(cpus)
        owned[number] = None if cpus is None else index_list(() if is_shared else cpus)
        taken |= cpus or frozenset()
    return owned


_NUMBER: Final = regex(r"\d{1,20}", re.ASCII)
_KEY: Final = regex(r"(?:[A-Za-z0-9]{1,20}:)?(\d{1,20})", re.ASCII)
_MEANS_LATENCY: Final = 4


class Matrix(NamedTuple):
    """Values between objects, by row and column; None is an object that the file lacks."""

    objects: tuple[HwlocObject | None, ...]
    rows: tuple[tuple[int, ...], ...]


def matrix(tree: HwlocTree, name: str) -> Matrix | None:
    """Return the first matrix of this name, such as NVLinkBandwidth. Raises ParseError."""
    for element in tree.document.root.of("distances2", "distances2hetero"):
        if element.get("name") == name:
            return _read(tree, HwlocElement(tree.document, element))
    return None


def _numa_distances(tree: HwlocTree) -> dict[int, dict[int, int]]:
    """The firmware's distances from node to node, empty where the file has none."""
    if tree.major == 1:
        return _first_schema(tree)
    for element in tree.document.root.of("distances2"):
        distances = HwlocElement(tree.document, element)
        kind = distances.whole("kind") or 0
        # 2.0 wrote no names; the only latencies that it knew were those between nodes.
        is_latency = element.get("name") is None and kind & _MEANS_LATENCY
        is_of_nodes = (element.get("type") or "").lower() == "numanode"
        if is_of_nodes and (is_latency or element.get("name") == "NUMALatency"):
            found = _read(tree, distances)
            nodes = [one.node_index for one in found.objects if one]
            return _by_node(nodes, found.rows) if len(nodes) == len(found.objects) else {}
    return {}


def _by_node(nodes: Sequence[int], rows: Sequence[Sequence[int]]) -> dict[int, dict[int, int]]:
    return {node: dict(zip(nodes, row, strict=True)) for node, row in zip(nodes, rows, strict=True)}


def _read(tree: HwlocTree, distances: HwlocElement) -> Matrix:
    count = distances.whole("nbobjs") or 0
    keys = _numbers(distances, "indexes", _KEY)
    values = _numbers(distances, "u64values", _NUMBER)
    if not count or len(keys) != count or len(values) != count * count:
        message = f"{len(keys)} indexes and {len(values)} values for {count} objects"
        raise distances.refuse(message, "one index per object and one value per pair")
    if distances.get("indexing") == "os":  # which is so between NUMA nodes
        known = {one.node_index: one for one in tree.of(Kind.NUMA)}
    else:
        known = {_key(one): one for one in reversed(tree.objects)}
    return Matrix(tuple(known.get(key) for key in keys), _square(values, count))


def _square(values: Sequence[int], count: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(values[at : at + count]) for at in range(0, len(values), count))


def _key(one: HwlocObject) -> int:
    # 3.x writes both.
    text = one.get("gp_index") or (one.get("id") or "").removeprefix("obj")
    return int(text) if _NUMBER.fullmatch(text) else -1


def _numbers(distances: HwlocElement, tag: str, pattern: re.Pattern[str]) -> tuple[int, ...]:
    found: list[int] = []
    for child in distances.element.of(tag):
        for word in child.text.split():
            match = pattern.fullmatch(word)
            if match is None:
                raise distances.document.refuse(child, f"got {word[:40]!r}", "whole numbers")
            found.append(int(match[match.re.groups]))
    return tuple(found)


def _first_schema(tree: HwlocTree) -> dict[int, dict[int, int]]:
    nodes = [one.node_index for one in tree.of(Kind.NUMA)]
    for element in tree.machine.element.of("distances"):
        distances = HwlocElement(tree.document, element)
        if distances.whole("nbobjs") == len(nodes):
            return _by_node(nodes, _square(_latencies(distances, len(nodes)), len(nodes)))
    return {}


def _latencies(distances: HwlocElement, count: int) -> list[int]:
    base = distances.decimal("latency_base")
    each = [HwlocElement(distances.document, one) for one in distances.element.of("latency")]
    values = [one.decimal("value") for one in each]
    if base is None or None in values or len(values) != count * count:
        message = f"{len(values)} latencies between {count} nodes"
        raise distances.refuse(message, "a base, and one value per pair")
    return [round(value * base) for value in values if value is not None]
