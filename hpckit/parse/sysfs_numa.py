"""NUMA nodes and what their memory is, from /sys/devices/system/node.

Sources: Linux Documentation/ABI/stable/sysfs-devices-node; Documentation/admin-guide/mm/
numaperf.rst (access0/initiators); Documentation/ABI/testing/sysfs-bus-dax (target_node).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from hpckit.model.hardware import CpuPackage, CpuTopology, NumaKind, NumaNode, Unknown
from hpckit.model.index_list import MOST_INDICES, count_indices, expand_indices, index_list
from hpckit.parse.sysfs_tree import SysfsTree

NODES: Final = "sys/devices/system/node"
GPUS: Final = "proc/driver/nvidia/gpus"

_NODE: Final = re.compile(r"node(\d{1,5})", re.ASCII)
_TOTAL: Final = re.compile(r"MemTotal:[ \t]*(\d{1,15})[ \t]*kB", re.ASCII)
_GPU_NODE: Final = re.compile(r"^Node:[ \t]*(\d{1,5})[ \t\r]*$", re.MULTILINE | re.ASCII)
_GRACE: Final = "Neoverse-V2"
_DISTANCE: Final = re.compile(r"\d{1,6}", re.ASCII)
_KNIGHTS: Final = ("GenuineIntel", 6, frozenset({0x57, 0x85}))
"""Knights Landing and Knights Mill, whose nodes without CPUs are MCDRAM (intel-family.h)."""


def parse_numa(
    tree: SysfsTree, cpu: CpuTopology
) -> tuple[tuple[NumaNode, ...], tuple[Unknown, ...]]:
    """The NUMA nodes by index, and what of them is not known. Raises ParseError."""
    matches = (_NODE.fullmatch(name) for name in tree.names(NODES))
    indices = sorted(int(match[1]) for match in matches if match)
    count = sum(_count(tree.line(f"{NODES}/node{index}/cpulist") or "") for index in indices)
    if count > MOST_INDICES:
        raise tree.refuse(NODES, f"{count} CPUs in all nodes", f"at most {MOST_INDICES}")
    kinds = _Kinds(tree, cpu, indices)
    online = frozenset(expand_indices(cpu.cpus)) if cpu.cpus else None
    nodes = [_node(tree, index, online) for index in indices]
    bare = [node for node in nodes if node.distances and len(node.distances) != len(nodes)]
    packages = _Packages(cpu.packages)
    found = tuple(kinds.with_kind(_tidied(node, nodes, packages, not bare)) for node in nodes)
    unknown = [
        Unknown(subject=f"NUMA node {node.index}", what="kind", because=_UNTOLD)
        for node in found
        if node.kind is None and node.memory_bytes
    ]
    if not found:
        because = f"there is no {NODES}: a kernel without NUMA, or not recorded"
        unknown.append(Unknown(subject="node", what="numa_nodes", because=because))
    if bare:
        because = "the distances are those of other nodes than the ones that are there"
        unknown.append(Unknown(subject="node", what="distances", because=because))
    return found, tuple(unknown)


_UNTOLD: Final = "a node without CPUs, and neither its bandwidth nor a driver tells of what memory"


def _count(cpus: str) -> int:
    """How many CPUs a list names, before it is written out; what is no list is refused later."""
    try:
        return count_indices(cpus)
    except ValueError:
        return 0


def gpu_numa(tree: SysfsTree) -> dict[str, int]:
    """The NUMA nodes that hold GPU memory, by the name of the GPU's folder in /proc/driver."""
    found = {}
    for name in tree.names(GPUS):
        match = _GPU_NODE.search(tree.text(f"{GPUS}/{name}/numa_status") or "")
        if match is not None:
            found[name] = int(match[1])
    return found


def _node(tree: SysfsTree, index: int, online: frozenset[int] | None) -> NumaNode:
    folder = f"{NODES}/node{index}"
    cpus = tree.indices(f"{folder}/cpulist")
    if cpus is None:
        cpus = tree.mask(f"{folder}/cpumap")
    if cpus is not None and online is not None:
        cpus = tuple(sorted(online.intersection(cpus)))
    total = _TOTAL.search(tree.text(f"{folder}/meminfo") or "")
    return NumaNode(
        index=index,
        cpus=None if cpus is None else index_list(cpus),
        memory_bytes=int(total[1]) * 1024 if total else None,
        distances=_distances(tree, f"{folder}/distance"),
    )


def _distances(tree: SysfsTree, path: str) -> tuple[int, ...] | None:
    words = (tree.text(path) or "").split()
    if not all(_DISTANCE.fullmatch(word) for word in words):
        raise tree.refuse(path, " ".join(words), "distances such as 10 21")
    return tuple(int(word) for word in words) or None


def _tidied(
    node: NumaNode, nodes: list[NumaNode], packages: _Packages, has_distances: bool
) -> NumaNode:
    package = packages.of(node.cpus or "")
    if package is None and has_distances and node.distances:
        others = [
            (away, other.cpus)
            for away, other in zip(node.distances, nodes, strict=True)
            if other.cpus
        ]
        nearest = min(others, default=(0, None))[0]
        # Of the nodes with CPUs that are nearest; where they are of two packages, of none.
        found = {packages.of(cpus) for away, cpus in others if away == nearest and cpus}
        package = found.pop() if len(found) == 1 and not node.cpus else None
    distances = node.distances if has_distances else None
    return replace(node, package_index=package, distances=distances)


class _Packages:
    """Which package the CPUs of a node are in."""

    def __init__(self, packages: Iterable[CpuPackage]) -> None:
        self._of_cpu: dict[int, set[int]] = {}
        for one in packages:
            for cpu in expand_indices(one.cpus or ""):
                self._of_cpu.setdefault(cpu, set()).add(one.index)
        self._of_list: dict[str, int | None] = {}

    def of(self, cpus: str) -> int | None:
        """The one that holds any of these CPUs; None where there are several, or none."""
        if cpus not in self._of_list:
            found = set[int]().union(*(self._of_cpu.get(cpu, ()) for cpu in expand_indices(cpus)))
            self._of_list[cpus] = found.pop() if len(found) == 1 else None
        return self._of_list[cpus]


class _Kinds:
    """What tells of which memory a node without CPUs is."""

    def __init__(self, tree: SysfsTree, cpu: CpuTopology, indices: Iterable[int]) -> None:
        self._tree = tree
        self._gpu_nodes = frozenset(gpu_numa(tree).values())
        self._is_grace = cpu.model == _GRACE
        vendor, family, numbers = _KNIGHTS
        self._is_knights = (
            cpu.vendor == vendor and cpu.family == family and cpu.model_number in numbers
        )
        dax = (f"sys/bus/dax/devices/{name}" for name in tree.names("sys/bus/dax/devices"))
        with_cpus = (at for at in indices if tree.line(f"{NODES}/node{at}/cpulist"))
        self._of_cpus = [known for at in with_cpus if (known := self._bandwidth(at))]
        self._dax_nodes = {tree.integer(f"{folder}/target_node") for folder in dax}

    def with_kind(self, node: NumaNode) -> NumaNode:
        """The node with its kind, where that can be told."""
        return replace(node, kind=self._kind(node))

    def _kind(self, node: NumaNode) -> NumaKind | None:
        if node.index in self._gpu_nodes:
            return NumaKind.GPU
        if node.cpus:
            return NumaKind.DRAM
        if self._is_grace and node.memory_bytes:
            return NumaKind.GPU
        if self._is_knights or self._is_faster(node.index):
            return NumaKind.HBM
        return NumaKind.OTHER if node.index in self._dax_nodes else None

    def _is_faster(self, index: int) -> bool:
        """Whether the firmware says that this node has more bandwidth than one with CPUs."""
        own = self._bandwidth(index)
        return own is not None and bool(self._of_cpus) and own > max(self._of_cpus)

    def _bandwidth(self, index: int) -> int | None:
        return self._tree.integer(f"{NODES}/node{index}/access0/initiators/read_bandwidth")
