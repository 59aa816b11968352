"""What the attributes of NCCL's topology files hold.

Source: NCCL src/graph/xml.cc and topo.cc, which read numbers with strtol(…, 0).
"""

from __future__ import annotations

import re
from typing import Final

from hpckit.core.foreign_text import Element, XmlDocument
from hpckit.core.index_list import indices_of_mask
from hpckit.core.late import regex
from hpckit.node.pci import (
    ADDRESS_EXPECTED,
    CLASS_ETHERNET,
    CLASS_INFINIBAND,
    PCIE_WIDTHS,
    PciAddress,
    PciDevice,
    PcieLink,
    pci_address,
)
from hpckit.node.pci_tree import is_efa
from hpckit.node.topology import Nic, NicPort
from hpckit.spec.nic_kind import NicKind

_INTEGER = regex(r"([+-]?)(?:0x([0-9a-f]{1,16})|(\d{1,18}))", re.ASCII | re.IGNORECASE)
_SPEED = regex(r"(\d{1,4}(?:\.\d{1,4})?) ?GT/s\b.*", re.ASCII)
_CLASS = regex(r"0x([0-9a-f]{2})([0-9a-f]{2})?(?:[0-9a-f]{2})?", re.ASCII | re.IGNORECASE)

_MOST: Final = 1 << 63
_SIXTEEN_BITS: Final = 0xFFFF


class NcclAttributes:
    """Reads the attributes of a document; each method raises ParseError for what it is not."""

    def __init__(self, document: XmlDocument) -> None:
        self._document = document

    def needed(self, element: Element, name: str) -> str:
        """The text of an attribute that has to be there."""
        text = element.get(name)
        if text is None or not text.strip():
            raise self._document.refuse(
                element, f"<{element.tag}> has no {name}", f"{name}= as written by NCCL"
            )
        return text.strip()

    def integer(
        self, element: Element, name: str, *, least: int = 0, most: int = _MOST
    ) -> int | None:
        """A number, decimal or after 0x; None where it is absent or empty."""
        text = (element.get(name) or "").strip()
        if not text:
            return None
        match = _INTEGER.fullmatch(text)
        if match is None:
            raise self.refuse(element, name, "a number")
        value = int(match[2], 16) if match[2] else int(match[3])
        value = -value if match[1] == "-" else value
        if not least <= value <= most:
            raise self.refuse(element, name, f"a number from {least} to {most}")
        return value

    def flag(self, element: Element, name: str) -> bool | None:
        """A 0 or 1; NCCL also writes how many, which is true."""
        value = self.integer(element, name, least=-1)
        return None if value is None or value < 0 else value > 0

    def address(self, element: Element, name: str) -> PciAddress:
        """A PCI address that has to be there."""
        try:
            return pci_address(self.needed(element, name))
        except ValueError as error:
            raise self.refuse(element, name, ADDRESS_EXPECTED) from error

    def indices(self, element: Element, name: str) -> tuple[int, ...] | None:
        """The CPUs of a mask; None where it is absent or empty."""
        text = (element.get(name) or "").strip()
        if not text:
            return None
        try:
            return indices_of_mask(text)
        except ValueError as error:
            raise self.refuse(element, name, "a mask such as 00000000,000fffff") from error

    def identity(self, element: Element, name: str) -> int | None:
        """A PCI id of 16 bits; 0xffff is a register that nobody answers."""
        value = self.integer(element, name, most=_SIXTEEN_BITS)
        return None if value == _SIXTEEN_BITS else value

    def pci_class(self, element: Element) -> tuple[int | None, int | None]:
        """The base class, and base class with subclass; NCCL writes `0x03` where it knows no more.

        (None, None) where the attribute is absent.
        """
        text = (element.get("class") or "").strip()
        if not text:
            return None, None
        match = _CLASS.fullmatch(text)
        if match is None:
            raise self.refuse(element, "class", "a PCI class such as 0x030200")
        base = int(match[1], 16)
        return base, base << 8 | int(match[2], 16) if match[2] else None

    def link(self, element: Element) -> PcieLink | None:
        """Speed and width; None where neither is known."""
        width = self.integer(element, "link_width")
        width = width if width in PCIE_WIDTHS else None
        link = PcieLink(speed_gt_per_s=self._speed(element), width=width)
        return None if link == PcieLink() else link

    def _speed(self, element: Element) -> float | None:
        text = (element.get("link_speed") or "").strip()
        if not text or text.lower().startswith("unknown"):
            return None
        match = _SPEED.fullmatch(text)
        if match is None:
            raise self.refuse(element, "link_speed", "a speed such as 16.0 GT/s PCIe")
        return float(match[1]) or None

    def limit(self, element: Element, count: int, most: int) -> None:
        """Refuse an element that is one too many."""
        if count > most:
            raise self._document.refuse(
                element, f"more than {most} <{element.tag}>", "the topology of one node"
            )

    def refuse(self, element: Element, name: str, expected: str) -> Exception:
        """The error for an attribute that is not what it should be."""
        text = (element.get(name) or "")[:60]
        return self._document.refuse(element, f"{name} of <{element.tag}> is {text!r}", expected)


_BYTES_PER_S_OF_MBIT: Final = 1e6 / 8
_MOST_MBIT_PER_S: Final = 10_000_000
"""More than a NIC of 2026 carries by an order; some plugins have written kbit/s."""

_ROCE_NAMES: Final = ("mlx", "bnxt_re", "irdma", "rocep", "ionic", "hns", "erdma", "mana")
_NAMES: Final = (
    (re.compile(r"cxi\d"), NicKind.SLINGSHOT),
    (re.compile(r"(efa|rdmap)"), NicKind.EFA),
    (re.compile("|".join(_ROCE_NAMES)), NicKind.ROCE),
)
_BOND: Final = regex(r"(?:\w*_)?bond_?\d+")


def nic_of_net(element: Element, attributes: NcclAttributes, class_code: int | None) -> Nic:
    """The NIC of a <net>, without index and place; its class tells InfiniBand. Raises ParseError.

    `guid` is as NCCL writes it: the number of the system image, its bytes reversed.
    """
    name = attributes.needed(element, "name")
    speed = attributes.integer(element, "speed", least=-(1 << 31))
    port = attributes.integer(element, "port", least=-1, most=255)
    is_rate = speed is not None and 0 < speed <= _MOST_MBIT_PER_S
    rate = speed * _BYTES_PER_S_OF_MBIT if speed is not None and is_rate else None
    return Nic(
        index=0,
        name=name,
        kind=_kind(name, class_code),
        rate_bytes_per_s=rate,
        ports=(NicPort(index=port, rate_bytes_per_s=rate),) if (port or 0) > 0 and port else (),
        guid=(element.get("guid") or "").strip() or None,
        bond=name if _BOND.fullmatch(name) else None,
        is_gdr=attributes.flag(element, "gdr"),
    )


def nic_of_pci(device: PciDevice) -> Nic:
    """The NIC of a preset, named by its address."""
    kind = NicKind.INFINIBAND if device.class_code == CLASS_INFINIBAND else None
    kind = NicKind.EFA if is_efa(device) else kind
    return Nic(index=0, name=device.address, kind=kind, pci=device.address)


def _kind(name: str, class_code: int | None) -> NicKind | None:
    found = next((kind for pattern, kind in _NAMES if pattern.match(name)), None)
    if class_code == CLASS_INFINIBAND and found in {None, NicKind.ROCE}:
        return NicKind.INFINIBAND
    if found is NicKind.ROCE and class_code != CLASS_ETHERNET:
        return None
    return found
