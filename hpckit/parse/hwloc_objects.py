"""The objects of hwloc's XML: what each is, and what it hangs under.

Sources: hwloc, hwloc2.dtd (2.x and 3.x), topology-xml.c, and the documentation's "Upgrading to the
hwloc 2.0 API" (what 1.x wrote differently).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from hpckit.model.pci import ADDRESS_EXPECTED, PciAddress, pci_address
from hpckit.parse.hwloc_values import whole
from hpckit.parse.xml_elements import Element, XmlDocument

_VERSION: Final = re.compile(r"([1-3])\.\d{1,4}", re.ASCII)
_BRIDGE: Final = re.compile(r"([01])-([01])", re.ASCII)
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


class HwlocObject:
    """An object with what it hangs under.

    `place` is the nearest set of CPUs at or above it, `package` the CPU package at or above,
    `function` the PCI function and `host_bridge` the host bridge at or above a device.
    """

    __slots__ = ("element", "function", "host_bridge", "kind", "package", "parent", "place")

    def __init__(self, element: Element, kind: Kind, parent: HwlocObject | None) -> None:
        self.element = element
        self.kind = kind
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
        is_bridge = self.function and (self.function.element.get("type") or "").lower() == "bridge"
        return None if is_bridge else self.function

    @property
    def name(self) -> str:
        """The name of an OS device, such as `mlx5_0`."""
        return (self.element.get("name") or "").strip()


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

    def address(self, function: HwlocObject) -> PciAddress:
        """The address of a PCI function. Raises ParseError."""
        text = function.element.get("pci_busid")
        try:
            return pci_address(text or "")
        except ValueError as error:
            message = f"pci_busid is {(text or '')[:40]!r}"
            raise self.document.refuse(function.element, message, ADDRESS_EXPECTED) from error


def _major(document: XmlDocument) -> int:
    version = document.root.get("version")
    if version is None:
        return 1
    match = _VERSION.fullmatch(version)
    if document.root.tag != "topology" or match is None:
        said = f"the schema's version is {version[:20]!r}"
        raise document.refuse(document.root, said, f"hwloc's XML of a version up to {_NEWEST}.x")
    return int(match[1])


def _machine(document: XmlDocument) -> Element:
    roots = list(document.root.of("object"))
    kinds = [_KINDS.get((one.get("type") or "").lower()) for one in roots]
    if document.root.tag != "topology" or kinds != [Kind.MACHINE]:
        shown = roots[0] if roots else document.root
        message = f"{len(roots)} objects at the top" if len(roots) != 1 else "no Machine at the top"
        raise document.refuse(shown, message, "one Machine in <topology>")
    return roots[0]


def _walk(document: XmlDocument, machine: Element) -> Iterator[HwlocObject]:
    stack: list[tuple[Element, HwlocObject | None]] = [(machine, None)]
    while stack:
        element, parent = stack.pop()
        one = HwlocObject(element, _kind(document, element), parent)
        if parent and one.kind is Kind.MACHINE and parent.kind is not Kind.MACHINE:
            raise document.refuse(element, "a Machine within another object", "it at the top")
        yield one
        for child in reversed(element.children):
            if child.tag == "object":
                stack.append((child, one))
            elif child.tag not in _CHILDREN:
                expected = "object, info, page_type, userdata or distances"
                raise document.refuse(child, f"<{child.tag[:40]}> within an object", expected)


def _kind(document: XmlDocument, element: Element) -> Kind:
    said = (element.get("type") or "").lower()
    found = _KINDS.get(said)
    if found is not None:
        return found
    if said == "bridge":
        return _bridge(document, element)
    if said == "cache":
        depth = whole(document, element, "depth")
        holds = whole(document, element, "cache_type")
        return Kind.L3 if depth == _L3_DEPTH and holds != _INSTRUCTIONS else Kind.PART
    message = f"the type of an object is {said[:40]!r}"
    raise document.refuse(element, message, "a type of hwloc's, such as Package or PCIDev")


def _bridge(document: XmlDocument, element: Element) -> Kind:
    said = element.get("bridge_type")
    if said is None:
        return Kind.HOST_BRIDGE if element.get("pci_busid") is None else Kind.PCI
    match = _BRIDGE.fullmatch(said)
    if match is None:
        raise document.refuse(element, f"bridge_type is {said[:20]!r}", "0-1 (host) or 1-1 (PCI)")
    return Kind.PCI if match[1] == "1" else Kind.HOST_BRIDGE
