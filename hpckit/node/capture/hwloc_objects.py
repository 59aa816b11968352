"""The objects of hwloc's XML: what each is, and what it hangs under.

Sources: hwloc, hwloc2.dtd (2.x and 3.x), topology-xml.c, and the documentation's "Upgrading to the
hwloc 2.0 API" (what 1.x wrote differently).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from hpckit.core.errors import ParseError
from hpckit.core.foreign_text import Element, XmlDocument
from hpckit.core.index_list import (
    MOST_INDICES,
    IndexList,
    index_list,
    indices_of_mask,
)
from hpckit.core.late import regex
from hpckit.node.pci import ADDRESS_EXPECTED, PciAddress, pci_address
from hpckit.node.topology import CpuPackage, CpuTopology, Host, L3Group, NumaNode, PackagesOfCpus

# Source: hwloc, hwloc2.dtd and topology-xml.c, which writes them.
_WHOLE: Final = regex(r"\d{1,18}", re.ASCII)
_DECIMAL: Final = regex(r"\d{1,6}(?:\.\d{0,20})?", re.ASCII)
_KIBIBYTES: Final = regex(r"(\d{1,15})(?:KiB)?", re.ASCII)
_NO_INDEX: Final = frozenset({"-1", "4294967295"})


class HwlocElement:
    """An element of the file with what its attributes say; each method raises ParseError.

    None is an attribute that is not there.
    """

    __slots__ = ("document", "element")

    def __init__(self, document: XmlDocument, element: Element) -> None:
        self.document = document
        self.element = element

    def get(self, name: str) -> str | None:
        """Return the text of an attribute."""
        return self.element.get(name)

    def refuse(self, message: str, expected: str) -> ParseError:
        """Return the error that points at the element."""
        return self.document.refuse(self.element, message, expected)

    def refuse_value(self, name: str, expected: str) -> ParseError:
        """Return the error about what an attribute says."""
        return self.refuse(f"{name} is {(self.get(name) or '')[:60]!r}", expected)

    def whole(self, name: str) -> int | None:
        """Return a whole number."""
        text = self.get(name)
        if text is None:
            return None
        if _WHOLE.fullmatch(text) is None:
            raise self.refuse_value(name, "a whole number")
        return int(text)

    def decimal(self, name: str) -> float | None:
        """Return a number such as `15.753846`."""
        text = self.get(name)
        if text is None:
            return None
        if _DECIMAL.fullmatch(text) is None:
            raise self.refuse_value(name, "a number such as 15.753846")
        return float(text)

    def members(self, name: str) -> frozenset[int] | None:
        """Return the CPUs or nodes of a mask such as `0x0000ffff,,0x0`."""
        text = self.get(name)
        if text is None:
            return None
        try:
            return frozenset(indices_of_mask(text))
        except ValueError as error:
            raise self.refuse(f"{name}: {error}", "a mask such as 0x000000ff") from error

    def indices(self, name: str = "cpuset") -> IndexList | None:
        """Return the same as a list."""
        found = self.members(name)
        return None if found is None else index_list(found)

    def info(self, *names: str) -> str | None:
        """Return the value of the first info with one of these names that says something.

        Of two infos with one name the first counts, as in hwloc_obj_get_info_by_name.
        """
        found: dict[str, str] = {}
        for child in self.element.of("info"):
            found.setdefault(child.get("name") or "", (child.get("value") or "").strip())
        return next((found[name] for name in names if found.get(name)), None)

    def size_bytes(self, *names: str) -> int | None:
        """Return the first of these infos that is there and not 0, such as CUDAGlobalMemorySize.

        It is in KiB; from hwloc 3 on the value says so.
        """
        for name in names:
            text = self.info(name) or "0"
            match = _KIBIBYTES.fullmatch(text)
            if match is None:
                raise self.refuse(f"{name} is {text[:40]!r}", "a size in KiB")
            if int(match[1]):
                return int(match[1]) * 1024
        return None

    @property
    def os_index(self) -> int | None:
        """The operating system's number of an object, None where it has none."""
        return None if self.get("os_index") in _NO_INDEX else self.whole("os_index")

    @property
    def node_index(self) -> int:
        """The number of a NUMA node, which every one has."""
        number = self.os_index
        if number is None or number >= MOST_INDICES:
            said = "none" if number is None else str(number)
            raise self.refuse(f"the os_index of a NUMA node is {said}", "a node number")
        return number

    def address(self, name: str = "pci_busid") -> PciAddress:
        """Return the PCI address that an attribute or info has."""
        text = self.get(name) or self.info(name) or ""
        try:
            return pci_address(text)
        except ValueError as error:
            raise self.refuse(f"{name} is {text[:40]!r}", ADDRESS_EXPECTED) from error


_VERSION: Final = regex(r"([1-3])\.\d{1,4}", re.ASCII)
_BRIDGE: Final = regex(r"([01])-([01])", re.ASCII)
_NEWEST: Final = 3


class Kind(StrEnum):
    """What an object is; PART is any other set of CPUs: a group, a die, a cache but the L3."""

    MACHINE = "Machine"
    PACKAGE = "Package"
    NUMA = "NUMANode"
    L3 = "L3Cache"
    CORE = "Core"
    PU = "PU"
    PART = "Group"
    MEMORY_CACHE = "MemCache"
    HOST_BRIDGE = "host bridge"
    PCI = "PCIDev"
    OS = "OSDev"
    MISC = "Misc"


# Socket, Cache and System are words of 1.x; Tile, Module and Cluster of hwloc's own forward list.
_KINDS: Final = {
    "machine": Kind.MACHINE,
    "system": Kind.MACHINE,
    "package": Kind.PACKAGE,
    "socket": Kind.PACKAGE,
    "numanode": Kind.NUMA,
    "l3cache": Kind.L3,
    "core": Kind.CORE,
    "pu": Kind.PU,
    "memcache": Kind.MEMORY_CACHE,
    "pcidev": Kind.PCI,
    "osdev": Kind.OS,
    "misc": Kind.MISC,
    **dict.fromkeys(("group", "die", "tile", "module", "cluster"), Kind.PART),
    **dict.fromkeys(("l1cache", "l2cache", "l4cache", "l5cache"), Kind.PART),
    **dict.fromkeys(("l1icache", "l2icache", "l3icache"), Kind.PART),
}
_DEVICES: Final = frozenset({Kind.HOST_BRIDGE, Kind.PCI, Kind.OS, Kind.MISC, Kind.MEMORY_CACHE})
_CHILDREN: Final = frozenset({"object", "info", "page_type", "userdata", "distances"})
_L3_DEPTH: Final = 3
_INSTRUCTIONS: Final = 2


class HwlocObject(HwlocElement):
    """An object with what it hangs under.

    `place` is the nearest set of CPUs at or above it, `package` the CPU package at or above,
    `function` the PCI function and `host_bridge` the host bridge at or above a device.
    """

    __slots__ = ("function", "host_bridge", "kind", "package", "parent", "place")

    def __init__(self, document: XmlDocument, element: Element, parent: HwlocObject | None) -> None:
        super().__init__(document, element)
        self.kind = kind = _kind(self)
        self.parent = parent
        self.place: HwlocObject = parent.place if parent and kind in _DEVICES else self
        self.package: HwlocObject | None = parent.package if parent else None
        self.function: HwlocObject | None = parent.function if parent else None
        self.host_bridge: HwlocObject | None = parent.host_bridge if parent else None
        if kind is Kind.PACKAGE:
            self.package = self
        elif kind is Kind.PCI:
            self.function = self
        elif kind is Kind.HOST_BRIDGE:
            self.host_bridge = self

    @property
    def card(self) -> HwlocObject | None:
        """The PCI function of an OS device; None if the file leaves it out, its bridges or not."""
        is_bridge = self.function and (self.function.get("type") or "").lower() == "bridge"
        return None if is_bridge else self.function

    @property
    def name(self) -> str:
        """The name of an OS device, such as `mlx5_0`."""
        return (self.get("name") or "").strip()


class HwlocTree:
    """All objects in the order of the file, parents first; `major` is the version of the schema."""

    def __init__(self, document: XmlDocument) -> None:
        self.document = document
        self.major = _major(document)
        self.objects = tuple(_walk(document, _machine(document)))
        self.machine = self.objects[0]
        self._by_kind: dict[Kind, list[HwlocObject]] = {}
        for one in self.objects:
            self._by_kind.setdefault(one.kind, []).append(one)

    def of(self, kind: Kind) -> tuple[HwlocObject, ...]:
        """The objects of a kind, in the order of the file."""
        return tuple(self._by_kind.get(kind, ()))


def _major(document: XmlDocument) -> int:
    version = document.root.get("version")
    if version is None:
        return 1
    match = _VERSION.fullmatch(version)
    if match is None:
        said = f"schema version {version[:20]!r}"
        raise document.refuse(document.root, said, f"hwloc XML up to version {_NEWEST}.x")
    return int(match[1])


def _machine(document: XmlDocument) -> Element:
    roots = list(document.root.of("object"))
    kinds = [_KINDS.get((one.get("type") or "").lower()) for one in roots]
    if kinds != [Kind.MACHINE]:
        shown = roots[0] if roots else document.root
        message = f"{len(roots)} objects at the top" if len(roots) != 1 else "no Machine at the top"
        raise document.refuse(shown, message, "one Machine in <topology>")
    return roots[0]


def _walk(document: XmlDocument, machine: Element) -> Iterator[HwlocObject]:
    stack: list[tuple[Element, HwlocObject | None]] = [(machine, None)]
    while stack:
        element, parent = stack.pop()
        one = HwlocObject(document, element, parent)
        if parent and one.kind is Kind.MACHINE and parent.kind is not Kind.MACHINE:
            raise document.refuse(element, "a Machine inside another object", "Machine at the top")
        yield one
        for child in reversed(element.children):
            if child.tag == "object":
                stack.append((child, one))
            elif child.tag not in _CHILDREN:
                expected = "object, info, page_type, userdata or distances"
                raise document.refuse(child, f"<{child.tag[:40]}> inside an object", expected)


def _kind(one: HwlocElement) -> Kind:
    said = (one.get("type") or "").lower()
    found = _KINDS.get(said)
    if found is not None:
        return found
    if said == "bridge":
        return _bridge(one)
    if said == "cache":
        holds = one.whole("cache_type")
        is_l3 = one.whole("depth") == _L3_DEPTH and holds != _INSTRUCTIONS
        return Kind.L3 if is_l3 else Kind.PART
    message = f"the type of an object is {said[:40]!r}"
    raise one.refuse(message, "an hwloc type such as Package or PCIDev")


def _bridge(one: HwlocElement) -> Kind:
    said = one.get("bridge_type")
    if said is None:
        return Kind.HOST_BRIDGE if one.get("pci_busid") is None else Kind.PCI
    match = _BRIDGE.fullmatch(said)
    if match is None:
        raise one.refuse_value("bridge_type", "0-1 (host) or 1-1 (PCI)")
    return Kind.PCI if match[1] == "1" else Kind.HOST_BRIDGE


# Sources: hwloc's documentation, "Normal attributes" and "Custom string infos"; in 3.x what was
# said of the machine is said of the topology.
# The DMI names that hypervisors give to their machines.
_VIRTUAL_PRODUCTS: Final = (
    *("Virtual Machine", "KVM", "VirtualBox", "HVM domU", "OpenStack", "Google Compute Engine"),
    "Alibaba Cloud",
)
_CPUID: Final = regex(r"\d{1,8}", re.ASCII)
_VIRTUAL_VENDORS: Final = ("QEMU", "VMware", "Xen", "Bochs", "innotek")


def said_of_machine(tree: HwlocTree, name: str) -> str | None:
    """An info of the machine, or of the topology."""
    return tree.machine.info(name) or HwlocElement(tree.document, tree.document.root).info(name)


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
    return CpuTopology(
        arch=said_of_machine(tree, "Architecture"),
        vendor=_of_cpu(tree, "CPUVendor"),
        model=_of_cpu(tree, "CPUModel"),
        family=_number(_of_cpu(tree, "CPUFamilyNumber")),
        model_number=_number(_of_cpu(tree, "CPUModelNumber")),
        packages=tuple(
            CpuPackage(
                index=index,
                cpus=one.indices(),
                model=one.info("CPUModel"),
                cores=of_package[id(one)] or None,
            )
            for index, one in _numbered_packages(tree)
        ),
        l3=tuple(
            L3Group(cpus=cpus, size_bytes=one.whole("cache_size") or None)
            for one in tree.of(Kind.L3)
            if (cpus := one.indices())
        ),
        cores=len(cores) or None,
        core_cpus=tuple(cpus for one in cores if (cpus := one.indices())),
        cpus=tree.machine.indices(),
        allowed=tree.machine.indices("allowed_cpuset"),
    )


def _numbered_packages(tree: HwlocTree) -> list[tuple[int, HwlocObject]]:
    """Packages by their number, or by their place in the file if some have none of their own."""
    packages = tree.of(Kind.PACKAGE)
    known = [number for one in packages if (number := one.os_index) is not None]
    if len(set(known)) != len(packages):
        return list(enumerate(packages))
    return sorted(zip(known, packages, strict=True), key=lambda pair: pair[0])


def package_of_nodes(
    tree: HwlocTree, nodes: tuple[NumaNode, ...], packages: tuple[CpuPackage, ...]
) -> dict[int, int]:
    """The package of each node that is in one alone: by its CPUs, else by what it hangs under.

    Raises ParseError.
    """
    index = {id(one): number for number, one in _numbered_packages(tree)}
    above = {one.os_index: index[id(one.package)] for one in tree.of(Kind.NUMA) if one.package}
    of_cpus = PackagesOfCpus(packages)
    found = {}
    for node in nodes:
        by_cpus = of_cpus.of(node.cpus or "")
        package = above.get(node.index) if by_cpus is None else by_cpus
        if package is not None:
            found[node.index] = package
    return found


def _of_cpu(tree: HwlocTree, name: str) -> str | None:
    places = (*tree.of(Kind.PACKAGE), tree.machine)
    return next((text for one in places if (text := one.info(name))), None)


def _number(text: str | None) -> int | None:
    return int(text) if text and _CPUID.fullmatch(text) else None
