"""PCI configuration space as bytes: what a record without the named files still tells.

Sources: PCI Local Bus Specification 3.0, 6.1 (header); PCI-to-PCI Bridge Architecture
Specification 1.2, 3.2 (bus numbers); PCI Express Base Specification, 7.5.3 (link registers);
Linux include/uapi/linux/pci_regs.h.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hpckit.model.pci import PCIE_GT_PER_S, PcieLink

_HEADER_BYTES: Final = 64
_STATUS: Final = 0x06
_HAS_CAPABILITIES: Final = 0x10
_HEADER_TYPE: Final = 0x0E
_BRIDGE: Final = 1
_FIRST_CAPABILITY: Final = 0x34
_PCI_EXPRESS: Final = 0x10
_LINK_CAPABILITIES: Final = 0x0C
_LINK_STATUS: Final = 0x12
_MOST_CAPABILITIES: Final = 48
_NO_DEVICE: Final = 0xFFFF

WIDTHS: Final = frozenset({1, 2, 4, 8, 12, 16, 32})


@dataclass(frozen=True, slots=True, kw_only=True)
class PciConfig:
    """A device's header; `buses` are the first and last bus below a bridge."""

    vendor_id: int
    device_id: int
    class_code: int
    subsystem_vendor_id: int | None
    subsystem_device_id: int | None
    buses: tuple[int, int] | None
    link: PcieLink | None


def parse_pci_config(text: str) -> PciConfig | None:
    """The header of a `config` file that was read as text; None for less than one."""
    data = text.encode("utf-8", "surrogateescape")
    if len(data) < _HEADER_BYTES or _word(data, 0) == _NO_DEVICE:
        return None
    is_bridge = data[_HEADER_TYPE] & 0x7F == _BRIDGE
    subsystem = (None, None) if is_bridge else (_word(data, 0x2C), _word(data, 0x2E))
    return PciConfig(
        vendor_id=_word(data, 0),
        device_id=_word(data, 2),
        class_code=_word(data, 0x0A),
        subsystem_vendor_id=subsystem[0],
        subsystem_device_id=subsystem[1],
        buses=(data[0x19], data[0x1A]) if is_bridge and data[0x19] else None,
        link=_link(data),
    )


def _word(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 2], "little")


def _link(data: bytes) -> PcieLink | None:
    if not _word(data, _STATUS) & _HAS_CAPABILITIES:
        return None
    at = data[_FIRST_CAPABILITY] & ~3
    for _ in range(_MOST_CAPABILITIES):
        if at < _HEADER_BYTES or at + _LINK_STATUS + 2 > len(data):
            return None
        if data[at] == _PCI_EXPRESS:
            most, now = _word(data, at + _LINK_CAPABILITIES), _word(data, at + _LINK_STATUS)
            link = PcieLink(
                speed_gt_per_s=PCIE_GT_PER_S.get(now & 0xF),
                width=_width(now),
                max_speed_gt_per_s=PCIE_GT_PER_S.get(most & 0xF),
                max_width=_width(most),
            )
            return None if link == PcieLink() else link
        at = data[at + 1] & ~3
    return None


def _width(register: int) -> int | None:
    lanes = register >> 4 & 0x3F
    return lanes if lanes in WIDTHS else None
