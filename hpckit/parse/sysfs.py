"""A node from its /sys and /proc: what a live reading or an archive of them tells of it.

Only the standard library is used, so that it also runs inside jobs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from hpckit.model.file_tree import FileTree
from hpckit.model.hardware import Host, NodeTopology, Source, Unknown
from hpckit.parse.sysfs_cpu import parse_cpu
from hpckit.parse.sysfs_cpuinfo import CpuInfo, host_names, parse_cpuinfo
from hpckit.parse.sysfs_devices import parse_accelerators, parse_gpus
from hpckit.parse.sysfs_net import parse_nics
from hpckit.parse.sysfs_numa import parse_numa
from hpckit.parse.sysfs_pci import parse_pci
from hpckit.parse.sysfs_tree import SysfsTree

_DRIVER: Final = re.compile(r"Kernel Module.*?[ \t](\d{2,4}(?:\.\d{1,4}){1,2})[ \t\r\n]", re.ASCII)
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
    info = parse_cpuinfo(files)
    cpu, no_cpu = parse_cpu(files, info)
    numa, no_numa = parse_numa(files, cpu)
    pci = parse_pci(files, numa)
    gpus, no_gpu = parse_gpus(files, pci, numa)
    nics, no_nic = parse_nics(files, {device.address: device for device in pci})
    if cpu.cpus is None and not (numa or pci or nics):
        first = next(iter(tree.texts), None)
        if first is None:
            raise files.refuse(
                "sys/", "", "files below it, not links alone, as /sys/class has them"
            )
        raise files.refuse(first, first, "CPUs, PCI devices or NICs below sys/")
    return NodeTopology(
        source=Source(format=source_format),
        host=_host(files, info),
        cpu=cpu,
        numa_nodes=numa,
        gpus=gpus,
        nics=nics,
        accelerators=parse_accelerators(pci),
        pci=pci,
        unknown=(*no_cpu, *no_numa, *_no_pci(pci), *no_gpu, *no_nic),
    )


_NO_ACS: Final = "needs root: ACSCtl in lspci -vvv; hpckit reads what every user may"


def _no_pci(pci: tuple[object, ...]) -> Iterator[Unknown]:
    if pci:
        yield Unknown(subject="node", what="ACS", because=_NO_ACS)
    else:
        because = "no PCI device is there: not recorded, or hidden by a container or hypervisor"
        yield Unknown(subject="node", what="pci", because=because)


def _host(tree: SysfsTree, info: CpuInfo) -> Host:
    name, release = host_names(tree)
    version = _DRIVER.search(tree.text("proc/driver/nvidia/version") or "")
    return Host(
        name=name,
        product=tree.word("sys/class/dmi/id/product_name") or tree.word("proc/device-tree/model"),
        os_release=release,
        driver_version=tree.word("sys/module/nvidia/version")
        or (version[1] if version else tree.word("sys/module/amdgpu/version")),
        is_virtual_machine=_is_guest(tree, info),
    )


def _is_guest(tree: SysfsTree, info: CpuInfo) -> bool | None:
    """CPUID's bit where there is one; else what the firmware calls the machine, if a guest."""
    if info.is_guest is not None:
        return info.is_guest
    names = (
        tree.line("sys/class/dmi/id/sys_vendor"),
        tree.line("sys/class/dmi/id/product_name"),
    )
    told = any(guest in name for name in names if name for guest in _GUESTS)
    return True if told or tree.line("sys/hypervisor/type") == "xen" else None
