"""CPUs, packages, L3 caches and what this process may use, from /sys and /proc.

Sources: Linux Documentation/ABI/stable/sysfs-devices-system-cpu, Documentation/admin-guide/
cputopology.rst; proc_pid_status(5); cpuset(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from hpckit.core.index_list import (
    IndexList,
    expand_indices,
    index_list,
)
from hpckit.core.late import regex
from hpckit.node.capture.sysfs import SysfsTree, printable
from hpckit.node.topology import (
    CpuPackage,
    CpuTopology,
    L3Group,
    NumaKind,
    NumaNode,
    PackagesOfCpus,
    Unknown,
)

# Sources: arch/*/kernel/cpu/proc.c and setup.c of Linux; arch/arm64/include/asm/cputype.h (parts).
_FIELD: Final = regex(r"^([^:\n]{1,60}?)[ \t]*:[ \t]*([^\n]*)$", re.MULTILINE)
_NUMBER: Final = regex(r"\d{1,6}", re.ASCII)
_IMPLEMENTERS: Final = {"0x41": "ARM", "0x4e": "NVIDIA", "0xc0": "Ampere", "0x46": "Fujitsu"}
_PARTS: Final = {
    ("0x41", "0xd0c"): "Neoverse-N1",
    ("0x41", "0xd40"): "Neoverse-V1",
    ("0x41", "0xd49"): "Neoverse-N2",
    ("0x41", "0xd4f"): "Neoverse-V2",
    ("0x41", "0xd85"): "Cortex-X925",
    ("0x41", "0xd87"): "Cortex-A725",
    ("0x46", "0x001"): "A64FX",
}


def parse_cpuinfo(tree: SysfsTree) -> tuple[CpuTopology, bool | None]:
    """What the first CPU says of itself, and CPUID's hypervisor bit where there is one.

    Family and model number are Linux's.
    """
    fields = _fields(tree.text("proc/cpuinfo") or "")
    arch = tree.word("proc/sys/kernel/arch") or _nofile(tree, "Architecture")
    if "vendor_id" in fields and "cpu family" in fields:
        flags = fields.get("flags")
        cpu = CpuTopology(
            arch=arch or "x86_64",
            vendor=_shown(fields["vendor_id"]),
            model=_shown(fields.get("model name")),
            family=_number(fields.get("cpu family")),
            model_number=_number(fields.get("model")),
        )
        return cpu, None if flags is None else "hypervisor" in flags.split()
    if "CPU implementer" in fields:
        maker, part = fields["CPU implementer"], fields.get("CPU part", "")
        model = _PARTS.get((maker, part))
        return CpuTopology(
            arch=arch or "aarch64", vendor=_IMPLEMENTERS.get(maker), model=model
        ), None
    name = fields.get("cpu", "")
    if name.startswith("POWER"):
        model = printable(name.partition(",")[0])
        return CpuTopology(arch=arch, vendor="IBM", model=model), None
    return CpuTopology(arch=arch, model=_shown(fields.get("model name"))), None


def host_names(tree: SysfsTree) -> tuple[str | None, str | None]:
    """The host's name and the kernel's release."""
    return (
        tree.word("proc/sys/kernel/hostname") or _nofile(tree, "HostName"),
        tree.word("proc/sys/kernel/osrelease") or _nofile(tree, "OSRelease"),
    )


def _nofile(tree: SysfsTree, key: str) -> str | None:
    """hwloc-gather-topology writes what uname(2) says into a file of its own."""
    return _shown(_fields(tree.text("proc/hwloc-nofile-info") or "").get(key))


def _fields(text: str) -> Mapping[str, str]:
    """The fields of the first block: each CPU has one, and an empty line ends it."""
    block = text.lstrip("\n").replace("\r\n", "\n").split("\n\n", 1)[0]
    return {key.strip(): value.strip() for key, value in _FIELD.findall(block)}


def _number(text: str | None) -> int | None:
    return int(text) if text and _NUMBER.fullmatch(text) else None


def _shown(text: str | None) -> str | None:
    return printable(text) if text else None


CPUS: Final = "sys/devices/system/cpu"

_L3: Final = 3
_DEEPEST_GROUP: Final = 64
_CPU: Final = regex(r"cpu(\d{1,5})", re.ASCII)
_SIZE: Final = regex(r"(\d{1,9})([KM]?)", re.ASCII)
_FACTOR: Final = {"": 1, "K": 1024, "M": 1024**2}
_ALLOWED: Final = regex(r"^Cpus_allowed_list:[ \t]*([^\n]*)$", re.MULTILINE)
_CPUSET_V1: Final = re.compile(r"^\d+:(?:[^:\n]*,)?cpuset(?:,[^:\n]*)?:(/[^\n]*)$", re.MULTILINE)
_CGROUP_V2: Final = re.compile(r"^0::(/[^\n]*)$", re.MULTILINE)


def parse_cpu(tree: SysfsTree, first: CpuTopology) -> tuple[CpuTopology, tuple[Unknown, ...]]:
    """The CPUs that are online, and what of them is not known. Raises ParseError.

    A core is a distinct list of thread siblings: core numbers repeat on some machines.
    """
    online = tree.indices(f"{CPUS}/online")
    siblings = _cores(tree, cpu_indices(tree))
    if online is not None:
        siblings = {cpu: siblings[cpu] for cpu in sorted(siblings.keys() & set(online))}
    present = list(siblings)
    cpus = online if online is not None else [cpu for cpu in present if siblings[cpu]]
    topology = replace(
        first,
        packages=_packages(tree, siblings, first.model),
        l3=_l3_groups(tree, present),
        cores=len({one for one in siblings.values() if one}) or None,
        core_cpus=_core_cpus(siblings, frozenset(cpus)),
        cpus=index_list(cpus) if cpus else None,
        allowed=_allowed(tree, frozenset(cpus)),
    )
    return topology, tuple(_unknown(topology))


def cpu_indices(tree: SysfsTree) -> list[int]:
    """The CPUs that have a folder, ascending."""
    matches = (_CPU.fullmatch(name) for name in tree.names(CPUS))
    return sorted(int(match[1]) for match in matches if match)


def _unknown(cpu: CpuTopology) -> Iterator[Unknown]:
    if cpu.cpus is None:
        yield Unknown("node", "cpus", f"no {CPUS}/online")
    if not cpu.packages:
        because = "physical_package_id is missing or -1 for every CPU"
        yield Unknown("node", "packages", because)
    if cpu.allowed is None:
        yield Unknown("node", "allowed", "neither proc/self/status nor a cpuset found")


def _cores(tree: SysfsTree, cpus: list[int]) -> dict[int, str | None]:
    """Each CPU's core, ascending; one thread of a core may tell of the others, in any order."""
    cores: dict[int, str | None] = {}
    for cpu in cpus:
        if cores.get(cpu) is None:
            cores[cpu] = _siblings(tree, cpu)
            for other in tree.indices(f"{CPUS}/cpu{cpu}/topology/thread_siblings_list") or ():
                cores[other] = cores.get(other) or cores[cpu]
    return dict(sorted(cores.items()))


def _core_cpus(cores: dict[int, str | None], cpus: frozenset[int]) -> tuple[IndexList, ...]:
    members: dict[str, list[int]] = {}
    for cpu in sorted(cpus):
        core = cores.get(cpu)
        if not core:
            return ()
        members.setdefault(core, []).append(cpu)
    return tuple(index_list(each) for each in members.values())


def _siblings(tree: SysfsTree, cpu: int) -> str | None:
    folder = f"{CPUS}/cpu{cpu}/topology"
    listed = tree.line(f"{folder}/thread_siblings_list")
    if listed is not None:
        return listed
    masked = tree.line(f"{folder}/thread_siblings")
    if masked is not None:
        return masked
    core = tree.integer(f"{folder}/core_id")
    package = tree.integer(f"{folder}/physical_package_id")
    return None if core is None else f"{package}:{core}"


def _packages(
    tree: SysfsTree, siblings: dict[int, str | None], model: str | None
) -> tuple[CpuPackage, ...]:
    told = _packages_told(tree, siblings)
    of_core = {core: told[cpu] for cpu, core in siblings.items() if core and cpu in told}
    members: dict[int, list[int]] = {}
    for cpu, core in siblings.items():
        package = told.get(cpu, of_core.get(core or ""))
        if package is not None:
            members.setdefault(package, []).append(cpu)
    return tuple(
        CpuPackage(
            index=package,
            cpus=index_list(members[package]),
            model=model,
            cores=len({siblings[cpu] for cpu in members[package] if siblings[cpu]}) or None,
        )
        for package in sorted(members)
    )


def _packages_told(tree: SysfsTree, cpus: Iterable[int]) -> dict[int, int]:
    """CPU → package; a live reading asks one CPU, which tells of the others in its package."""
    told: dict[int, int] = {}
    for cpu in cpus:
        package = None if cpu in told else _package(tree, cpu)
        if package is not None:
            others = tree.indices(f"{CPUS}/cpu{cpu}/topology/core_siblings_list") or ()
            told |= dict.fromkeys((cpu, *others), package)
    return told


def _package(tree: SysfsTree, cpu: int) -> int | None:
    package = tree.integer(f"{CPUS}/cpu{cpu}/topology/physical_package_id")
    return package if package is not None and package >= 0 else None


def _l3_groups(tree: SysfsTree, cpus: list[int]) -> tuple[L3Group, ...]:
    groups: dict[IndexList, L3Group] = {}
    told = set[int]()
    for cpu in cpus:
        cache = f"{CPUS}/cpu{cpu}/cache"
        for name in tree.names(cache) if cpu not in told else ():
            index = f"{cache}/{name}"
            shared = _shared(tree, index) if _is_l3(tree, index) else ()
            told.update(shared)
            if shared:
                group, size = index_list(shared), _size(tree, f"{index}/size")
                groups.setdefault(group, L3Group(cpus=group, size_bytes=size))
    return tuple(sorted(groups.values(), key=lambda one: expand_indices(one.cpus)[:1]))


def _shared(tree: SysfsTree, index: str) -> tuple[int, ...]:
    listed = tree.indices(f"{index}/shared_cpu_list")
    return listed or tree.mask(f"{index}/shared_cpu_map") or ()


def _is_l3(tree: SysfsTree, index: str) -> bool:
    """index3 is nearly always it; where a level is given, that counts."""
    level = tree.integer(f"{index}/level")
    return level == _L3 or (level is None and index.endswith("/index3"))


def _size(tree: SysfsTree, path: str) -> int | None:
    line = tree.line(path)
    if line is None:
        return None
    match = _SIZE.fullmatch(line)
    if match is None:
        raise tree.refuse(path, line, "a size such as 30720K")
    return int(match[1]) * _FACTOR[match[2]] or None


def _allowed(tree: SysfsTree, cpus: frozenset[int]) -> IndexList | None:
    status = tree.text("proc/self/status")
    match = _ALLOWED.search(status) if status else None
    if match is not None:
        try:
            allowed: tuple[int, ...] | None = expand_indices(match[1])
        except ValueError as error:
            expected = "a list of CPUs such as 0-63"
            raise tree.refuse("proc/self/status", match[1], expected) from error
    else:
        allowed = _cpuset(tree)
    if not allowed:
        return None
    return index_list(cpus.intersection(allowed) if cpus else allowed)


def _cpuset(tree: SysfsTree) -> tuple[int, ...] | None:
    """The CPUs of the recorded process's cpuset, or of the nearest one above that has any."""
    for mount, group, names in _cpusets(tree):
        parts = [part for part in group.split("/", _DEEPEST_GROUP) if part]
        for depth in range(len(parts), -1, -1):
            for name in names:
                found = tree.indices("/".join([mount, *parts[:depth], name]))
                if found:
                    return found
    return None


def _cpusets(tree: SysfsTree) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    cgroup = tree.text("proc/self/cgroup") or ""
    v1 = _CPUSET_V1.search(cgroup)
    group = v1[1] if v1 else tree.line("proc/self/cpuset")
    if group is not None:
        yield "sys/fs/cgroup/cpuset", group, ("cpuset.effective_cpus", "cpuset.cpus")
        yield "dev/cpuset", group, ("cpus",)
    v2 = _CGROUP_V2.search(cgroup)
    if v2 is not None:
        yield "sys/fs/cgroup", v2[1], ("cpuset.cpus.effective", "cpuset.cpus")


# Sources: Linux Documentation/ABI/stable/sysfs-devices-node; Documentation/admin-guide/mm/
# numaperf.rst (access0/initiators); Documentation/ABI/testing/sysfs-bus-dax (target_node).
NODES: Final = "sys/devices/system/node"
GPUS: Final = "proc/driver/nvidia/gpus"

_NODE: Final = regex(r"node(\d{1,5})", re.ASCII)
_TOTAL: Final = regex(r"MemTotal:[ \t]*(\d{1,15})[ \t]*kB", re.ASCII)
_GPU_NODE: Final = regex(r"^Node:[ \t]*(\d{1,5})[ \t\r]*$", re.MULTILINE | re.ASCII)
_GRACE: Final = "Neoverse-V2"
_DISTANCE: Final = regex(r"\d{1,6}", re.ASCII)
_KNIGHTS: Final = ("GenuineIntel", 6, frozenset({0x57, 0x85}))
"""Knights Landing and Knights Mill, whose nodes without CPUs are MCDRAM (intel-family.h)."""


def parse_numa(
    tree: SysfsTree, cpu: CpuTopology
) -> tuple[tuple[NumaNode, ...], tuple[Unknown, ...]]:
    """The NUMA nodes by index, and what of them is not known. Raises ParseError."""
    matches = (_NODE.fullmatch(name) for name in tree.names(NODES))
    indices = sorted(int(match[1]) for match in matches if match)
    kinds = _Kinds(tree, cpu, indices)
    online = frozenset(expand_indices(cpu.cpus)) if cpu.cpus else None
    nodes = [_node(tree, index, online) for index in indices]
    bare = [node for node in nodes if node.distances and len(node.distances) != len(nodes)]
    packages = PackagesOfCpus(cpu.packages)
    found = tuple(
        replace(_tidied(node, nodes, packages, not bare), kind=kinds.of(node)) for node in nodes
    )
    unknown = [
        Unknown(f"NUMA node {node.index}", "kind", _UNTOLD)
        for node in found
        if node.kind is None and node.memory_bytes
    ]
    if not found:
        because = f"no {NODES}: a kernel without NUMA, or not captured"
        unknown.append(Unknown("node", "numa_nodes", because))
    if bare:
        because = "the distances are for other NUMA nodes than those present"
        unknown.append(Unknown("node", "distances", because))
    return found, tuple(unknown)


_UNTOLD: Final = "no CPUs, and neither its bandwidth nor a driver shows the memory type"


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
    node: NumaNode, nodes: list[NumaNode], packages: PackagesOfCpus, has_distances: bool
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


class _Kinds:
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

    def of(self, node: NumaNode) -> NumaKind | None:
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
