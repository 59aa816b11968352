"""Host, CPUs and packages of hwloc's XML.

Sources: hwloc's documentation, "Normal attributes" and "Custom string infos"; in 3.x what was
said of the machine is said of the topology.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from hpckit.model.hardware import CpuPackage, CpuTopology, Host, L3Group, NumaNode
from hpckit.model.index_list import IndexList, expand_indices, index_list
from hpckit.parse.hwloc_objects import HwlocObject, HwlocTree, Kind
from hpckit.parse.hwloc_values import info, members, os_index, whole

# The DMI names that hypervisors give to their machines.
_VIRTUAL_PRODUCTS: Final = (
    *("Virtual Machine", "KVM", "VirtualBox", "HVM domU", "OpenStack", "Google Compute Engine"),
    "Alibaba Cloud",
)
_CPUID: Final = re.compile(r"\d{1,8}", re.ASCII)
_VIRTUAL_VENDORS: Final = ("QEMU", "VMware", "Xen", "Bochs", "innotek")


def said_of_machine(tree: HwlocTree, name: str) -> str | None:
    """An info of the machine, or of the topology."""
    return info(tree.machine.element, name) or info(tree.document.root, name)


def host(tree: HwlocTree) -> Host:
    """The machine as a whole."""
    product = said_of_machine(tree, "DMIProductName") or said_of_machine(tree, "PlatformModel")
    return Host(
        name=said_of_machine(tree, "HostName"),
        product=product,
        os_release=said_of_machine(tree, "OSRelease"),
        is_virtual_machine=_is_virtual(product or "", said_of_machine(tree, "DMISysVendor") or ""),
    )


def _is_virtual(product: str, vendor: str) -> bool | None:
    if product.startswith(_VIRTUAL_PRODUCTS) or vendor.startswith(_VIRTUAL_VENDORS):
        return True
    return True if vendor == "Amazon EC2" and "metal" not in product else None


def cpu_topology(tree: HwlocTree) -> CpuTopology:
    """The CPUs; those that are offline or were left out of the file are in none of its sets.

    Raises ParseError.
    """
    cores = tree.of(Kind.CORE)
    of_package = Counter(id(core.package) for core in cores)
    packages = tree.of(Kind.PACKAGE)
    return CpuTopology(
        arch=said_of_machine(tree, "Architecture"),
        vendor=_of_cpu(tree, "CPUVendor"),
        model=_of_cpu(tree, "CPUModel"),
        family=_number(_of_cpu(tree, "CPUFamilyNumber")),
        model_number=_number(_of_cpu(tree, "CPUModelNumber")),
        packages=tuple(
            CpuPackage(
                index=index,
                cpus=_cpus(tree, one, "cpuset"),
                model=info(one.element, "CPUModel"),
                cores=of_package[id(one)] or None,
            )
            for index, one in package_indices(tree, packages)
        ),
        l3=tuple(
            L3Group(
                cpus=index_list(cpus),
                size_bytes=whole(tree.document, one.element, "cache_size") or None,
            )
            for one in tree.of(Kind.L3)
            if (cpus := members(tree.document, one.element, "cpuset"))
        ),
        cores=len(cores) or None,
        core_cpus=tuple(
            index_list(cpus)
            for one in cores
            if (cpus := members(tree.document, one.element, "cpuset"))
        ),
        cpus=_cpus(tree, tree.machine, "cpuset"),
        allowed=_cpus(tree, tree.machine, "allowed_cpuset"),
    )


def package_indices(
    tree: HwlocTree, packages: tuple[HwlocObject, ...]
) -> tuple[tuple[int, HwlocObject], ...]:
    """Packages by their number, or by their place in the file if some have none of their own.

    Raises ParseError.
    """
    numbers = [os_index(tree.document, one.element) for one in packages]
    known = [number for number in numbers if number is not None]
    if len(set(known)) != len(packages):
        return tuple(enumerate(packages))
    return tuple(sorted(zip(known, packages, strict=True), key=lambda pair: pair[0]))


def package_of_nodes(
    tree: HwlocTree, nodes: tuple[NumaNode, ...], packages: tuple[CpuPackage, ...]
) -> dict[int, int]:
    """The package of each node that is in one alone: by its CPUs, else by what it hangs under.

    Raises ParseError.
    """
    above = _packages_above(tree)
    of_cpu = {cpu: one.index for one in packages for cpu in expand_indices(one.cpus or "")}
    found: dict[int, int] = {}
    for node in nodes:
        near = {of_cpu[cpu] for cpu in expand_indices(node.cpus or "") if cpu in of_cpu}
        if len(near) == 1:
            found[node.index] = near.pop()
        elif not near and node.index in above:
            found[node.index] = above[node.index]
    return found


def _packages_above(tree: HwlocTree) -> dict[int, int]:
    index = {id(one): number for number, one in package_indices(tree, tree.of(Kind.PACKAGE))}
    return {
        number: index[id(node.package)]
        for node in tree.of(Kind.NUMA)
        if node.package and (number := os_index(tree.document, node.element)) is not None
    }


def _of_cpu(tree: HwlocTree, name: str) -> str | None:
    places = (*tree.of(Kind.PACKAGE), tree.machine)
    return next((text for one in places if (text := info(one.element, name))), None)


def _number(text: str | None) -> int | None:
    return int(text) if text and _CPUID.fullmatch(text) else None


def _cpus(tree: HwlocTree, one: HwlocObject, name: str) -> IndexList | None:
    found = members(tree.document, one.element, name)
    return None if found is None else index_list(found)
