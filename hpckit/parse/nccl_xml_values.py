"""What the attributes of NCCL's topology files hold.

Source: NCCL src/graph/xml.cc and topo.cc, which read numbers with strtol(…, 0).
"""

from __future__ import annotations

import re
from typing import Final

from hpckit.model.index_list import indices_of_mask
from hpckit.model.pci import ADDRESS_EXPECTED, PciAddress, PcieLink, pci_address
from hpckit.parse.xml_elements import Element, XmlDocument

_INTEGER = re.compile(r"([+-]?)(?:0x([0-9a-f]{1,16})|(\d{1,18}))", re.ASCII | re.IGNORECASE)
_SPEED = re.compile(r"(\d{1,4}(?:\.\d{1,4})?) ?GT/s\b.*", re.ASCII)
_CLASS = re.compile(r"0x([0-9a-f]{2})([0-9a-f]{2})?(?:[0-9a-f]{2})?", re.ASCII | re.IGNORECASE)

_MOST: Final = 1 << 63
_SIXTEEN_BITS: Final = 0xFFFF
_MOST_LANES: Final = 32
_NO_LANES: Final = frozenset({0, 63, 255})
"""Linux says 0, 63 or 255 where the width is not known: none, or all bits of what answers not."""


class NcclAttributes:
    """Reads the attributes of a document; each method raises ParseError for what it is not."""

    def __init__(self, document: XmlDocument) -> None:
        self._document = document

    def needed(self, element: Element, name: str) -> str:
        """The text of an attribute that has to be there."""
        text = element.get(name)
        if text is None or not text.strip():
            raise self._document.refuse(
                element, f"<{element.tag}> has no {name}", f"{name}= as NCCL writes it"
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

    def vendor(self, element: Element, name: str) -> int | None:
        """A PCI id that is not 0, which no vendor has; 0xffff is a register that nobody answers."""
        return self.identity(element, name) or None

    def identity(self, element: Element, name: str) -> int | None:
        """A PCI id of 16 bits."""
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
        width = self.integer(element, "link_width", most=255)
        if width is not None and width > _MOST_LANES and width not in _NO_LANES:
            raise self.refuse(element, "link_width", f"at most {_MOST_LANES} lanes")
        link = PcieLink(
            speed_gt_per_s=self._speed(element), width=None if width in _NO_LANES else width
        )
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
        """Refuses an element that is one too many."""
        if count > most:
            raise self._document.refuse(
                element, f"there are over {most} of <{element.tag}>", "the topology of one node"
            )

    def refuse(self, element: Element, name: str, expected: str) -> Exception:
        """The error for an attribute that is not what it should be."""
        text = (element.get(name) or "")[:60]
        return self._document.refuse(element, f"{name} of <{element.tag}> is {text!r}", expected)
