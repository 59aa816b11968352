"""CPUs, packages, L3 caches and what this process may use, from /sys and /proc.

Sources: Linux Documentation/ABI/stable/sysfs-devices-system-cpu, Documentation/admin-guide/
cputopology.rst; proc_pid_status(5); cpuset(7).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from hpckit.model.hardware import CpuPackage, CpuTopology, L3Group, Unknown
from hpckit.model.index_list import IndexList, expand_indices, index_list
from hpckit.parse.sysfs_cpuinfo import CpuInfo
from hpckit.parse.sysfs_tree import SysfsTree

CPUS: Final = "sys/devices/system/cpu"

_L3: Final = 3
_DEEPEST_GROUP: Final = 64
_CPU: Final = re.compile(r"cpu(\d{1,5})", re.ASCII)
_SIZE: Final = re.compile(r"(\d{1,9})([KM]?)", re.ASCII)
_FACTOR: Final = {"": 1, "K": 1024, "M": 1024**2}
_ALLOWED: Final = re.compile(r"^Cpus_allowed_list:[ \t]*([^\n]*)$", re.MULTILINE)
_CPUSET_V1: Final = re.compile(r"^\d+:(?:[^:\n]*,)?cpuset(?:,[^:\n]*)?:(/[^\n]*)$", re.MULTILINE)
_CGROUP_V2: Final = re.compile(r"^0::(/[^\n]*)$", re.MULTILINE)


def parse_cpu(tree: SysfsTree, info: CpuInfo) -> tuple[CpuTopology, tuple[Unknown, ...]]:
    """The CPUs that are online, and what of them is not known. Raises ParseError.

    A core is a distinct list of thread siblings: core numbers repeat on some machines.
    """
    online = tree.indices(f"{CPUS}/online")
    siblings = _cores(tree, cpu_indices(tree))
    if online is not None:
        siblings = {cpu: siblings[cpu] for cpu in sorted(siblings.keys() & set(online))}
    present = list(siblings)
    cpus = online if online is not None else [cpu for cpu in present if siblings[cpu]]
    topology = CpuTopology(
        arch=info.arch,
        vendor=info.vendor,
        model=info.model,
        family=info.family,
        model_number=info.model_number,
        packages=_packages(tree, siblings, info.model),
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
        yield Unknown(subject="node", what="cpus", because=f"there is no {CPUS}/online")
    if not cpu.packages:
        because = "no physical_package_id of any CPU is there, or all of them are -1"
        yield Unknown(subject="node", what="packages", because=because)
    if cpu.allowed is None:
        because = "there is neither proc/self/status nor a cpuset"
        yield Unknown(subject="node", what="allowed", because=because)


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
    """The CPUs of each core; none where the core of one is not told."""
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
        allowed: tuple[int, ...] | None = _listed(tree, "proc/self/status", match[1])
    else:
        allowed = _cpuset(tree)
    if not allowed:
        return None
    return index_list(cpus.intersection(allowed) if cpus else allowed)


def _listed(tree: SysfsTree, path: str, text: str) -> tuple[int, ...]:
    try:
        return expand_indices(text)
    except ValueError as error:
        raise tree.refuse(path, text, "a list of CPUs such as 0-63") from error


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
