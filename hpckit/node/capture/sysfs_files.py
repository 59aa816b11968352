"""Which files of /sys and /proc tell what a node looks like, and no others.

A pattern is a path from the root. In a name, `*` stands for any part of it and `[0-9]` for a
digit; `{a,b}` is a choice of names. At the end, `?c` keeps to the folders in which an earlier
pattern found a `c`, and `!c` to the others. `~c` is for folders of CPUs: `c`, a list of CPUs, is
read too, and those in it are passed over, as they would say the same. `^f` passes over folders
that are links to a name for which an earlier pattern found a link in the folder `f`. Where a
symbolic link matches, its target is taken as text. Files that only root can read are not among
them (Linux, Documentation/ABI).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpckit.core.file_tree import FileTree
from hpckit.core.late import regex
from hpckit.node.capture.sysfs import SysfsTree
from hpckit.node.capture.sysfs_cpu import host_names, parse_cpu, parse_cpuinfo, parse_numa
from hpckit.node.capture.sysfs_net import parse_nics
from hpckit.node.capture.sysfs_pci import parse_accelerators, parse_gpus, parse_pci
from hpckit.node.topology import Host, NodeTopology, Source, Unknown

# Only the standard library is used, so that it also runs inside jobs.
_DRIVER: Final = regex(r"Kernel Module.*?[ \t](\d{2,4}(?:\.\d{1,4}){1,2})[ \t\r\n]", re.ASCII)
_GUESTS: Final = (
    "QEMU",
    "KVM",
    "VMware",
    "Xen",
    "innotek",
    "Virtual Machine",
    "Bochs",
)
_FORMAT: Final = "sysfs"


def parse_sysfs(tree: FileTree, *, source_format: str = _FORMAT) -> NodeTopology:
    """The node whose `sys/...` and `proc/...` these are.

    Holds no links between GPUs and no paths: drivers tell of the links, and the paths follow from
    the PCI tree. Raises ParseError for a file that is not in its format, and for a tree that has
    nothing of a node in it.
    """
    files = SysfsTree(tree)
    first_cpu, is_guest = parse_cpuinfo(files)
    cpu, no_cpu = parse_cpu(files, first_cpu)
    numa, no_numa = parse_numa(files, cpu)
    pci = parse_pci(files, numa)
    gpus, no_gpu = parse_gpus(files, pci, numa)
    nics, no_nic = parse_nics(files, {device.address: device for device in pci})
    if cpu.cpus is None and not (numa or pci or nics):
        first = next(iter(tree.texts), None)
        if first is None:
            raise files.refuse("sys/", "", "files below it, not only links as in /sys/class")
        raise files.refuse(first, first, "CPUs, PCI devices or NICs below sys/")
    return NodeTopology(
        source=Source(format=source_format),
        host=_host(files, is_guest=is_guest),
        cpu=cpu,
        numa_nodes=numa,
        gpus=gpus,
        nics=nics,
        accelerators=parse_accelerators(pci),
        pci=pci,
        unknown=(*no_cpu, *no_numa, *_no_pci(pci), *no_gpu, *no_nic),
    )


_NO_ACS: Final = "needs root (ACSCtl in lspci -vvv); hpckit reads only what every user may"


def _no_pci(pci: tuple[object, ...]) -> Iterator[Unknown]:
    if pci:
        yield Unknown("node", "ACS", _NO_ACS)
    else:
        because = "no PCI devices: not captured, or hidden by a container or hypervisor"
        yield Unknown("node", "pci", because)


def _host(tree: SysfsTree, *, is_guest: bool | None) -> Host:
    name, release = host_names(tree)
    version = _DRIVER.search(tree.text("proc/driver/nvidia/version") or "")
    return Host(
        name=name,
        product=tree.word("sys/class/dmi/id/product_name") or tree.word("proc/device-tree/model"),
        os_release=release,
        driver_version=tree.word("sys/module/nvidia/version")
        or (version[1] if version else tree.word("sys/module/amdgpu/version")),
        is_virtual_machine=_is_guest(tree) if is_guest is None else is_guest,
    )


def _is_guest(tree: SysfsTree) -> bool | None:
    """What the firmware calls the machine, if a guest."""
    names = (
        tree.line("sys/class/dmi/id/sys_vendor"),
        tree.line("sys/class/dmi/id/product_name"),
    )
    told = any(guest in name for name in names if name for guest in _GUESTS)
    return True if told or tree.line("sys/hypervisor/type") == "xen" else None


_CPU: Final = "sys/devices/system/cpu"
_NODE: Final = "sys/devices/system/node"
_PCI: Final = "sys/bus/pci/devices"
_PCIE_LINK: Final = "max_link_width,max_link_speed,current_link_width,current_link_speed"
_NET: Final = "sys/class/net"
_IB: Final = "sys/class/infiniband"

SYSFS_PATTERNS: Final[tuple[str, ...]] = (
    "proc/self/status",
    "proc/cpuinfo",
    "proc/sys/kernel/{hostname,osrelease,arch}",
    "proc/driver/nvidia/version",
    "proc/driver/nvidia/gpus/*/{information,numa_status}",
    "proc/device-tree/model",
    "sys/module/{nvidia,amdgpu,nvidia_peermem}/{version,initstate}",
    "sys/class/dmi/id/{product_name,sys_vendor}",
    "sys/hypervisor/type",
    f"{_CPU}/{{online,present}}",
    f"{_CPU}/cpu[0-9]*/topology/thread_siblings_list~thread_siblings_list",
    f"{_CPU}/cpu[0-9]*/topology/physical_package_id~core_siblings_list",
    f"{_CPU}/cpu[0-9]*/topology/{{physical_package_id,core_id,thread_siblings}}!thread_siblings_list",
    f"{_CPU}/cpu[0-9]*/cache/index3/{{level,size}}~shared_cpu_list",
    f"{_NODE}/node[0-9]*/{{cpulist,distance,meminfo}}",
    f"{_NODE}/node[0-9]*/cpumap!cpulist",
    f"{_NODE}/node[0-9]*/access0/initiators/read_bandwidth",
    "sys/bus/dax/devices/*/target_node",
    f"{_PCI}/*",
    f"{_PCI}/*/{{uevent,numa_node,physfn,{_PCIE_LINK}}}",
    f"{_PCI}/*/{{class,vendor,device,subsystem_vendor,subsystem_device,driver}}!uevent",
    f"{_PCI}/*/{{local_cpulist,local_cpus}}!numa_node",
    f"{_IB}/*",
    f"{_IB}/*/{{device,node_guid,node_type,fw_ver,parent}}",
    f"{_IB}/*/device/driver^{_PCI}",
    f"{_IB}/*/ports/*/{{state,phys_state,rate,link_layer}}",
    "sys/class/cxi/*",
    "sys/class/cxi/*/device",
    f"sys/class/cxi/*/device/driver^{_PCI}",
    f"{_NET}/bonding_masters",
    f"{_NET}/*",
    f"{_NET}/*/{{device,master}}",
    f"{_NET}/*/{{operstate,speed,phys_port_name}}?device",
    f"{_NET}/*/device/driver^{_PCI}",
)
"""What is read of a live system."""

RECORDED_PATTERNS: Final[tuple[str, ...]] = (
    *SYSFS_PATTERNS,
    "proc/hwloc-nofile-info",
    f"{_CPU}/cpu[0-9]*/cache/index3/{{shared_cpu_list,shared_cpu_map,level,size}}",
    "proc/self/{cpuset,cgroup}",
    f"{_PCI}/*/config",
    f"{_PCI}/*/{{local_cpulist,local_cpus}}",
)
"""What is read of a recorded tree: also what a running kernel says better elsewhere."""

_CPUSET_FILES: Final = ("cpus", "cpuset.cpus", "cpuset.effective_cpus", "cpuset.cpus.effective")
_CHOICE: Final = regex(r"[{},]")
_SIGN: Final = regex(r"[?!~]")


def _last_names(patterns: tuple[str, ...]) -> frozenset[str]:
    told = (pattern.partition("^")[0] for pattern in patterns)
    lasts = (part.rpartition("/")[2] for pattern in told for part in _SIGN.split(pattern))
    return frozenset(name for last in lasts for name in _CHOICE.split(last) if name)


_NAMES: Final = _last_names(RECORDED_PATTERNS) | frozenset(_CPUSET_FILES)


def sysfs_wanted(path: str) -> bool:
    """Whether a file of an archive is one of these; where it lies there is not known yet."""
    return path.rpartition("/")[2] in _NAMES
