"""What the numbers of KFD stand for: architectures, PCI addresses, products.

Sources: Linux drivers/gpu/drm/amd/amdkfd/kfd_device.c (gfx_target_version), kfd_topology.c
kfd_topology_add_device (location_id), pci.ids (products of vendor 1002).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from hpckit.model.pci import PciAddress
from hpckit.model.pci_vendors import AMD

_PRODUCTS: Final = MappingProxyType(
    {
        0x6860: "Instinct MI25",
        0x66A1: "Radeon Pro VII / Instinct MI50",
        0x738C: "Instinct MI100",
        0x738E: "Instinct MI100",
        0x7408: "Instinct MI250X",
        0x740C: "Instinct MI250X / MI250",
        0x740F: "Instinct MI210",
        0x74A0: "Instinct MI300A",
        0x74A1: "Instinct MI300X",
        0x74A2: "Instinct MI308X",
        0x74A5: "Instinct MI325X",
        0x74A9: "Instinct MI300X HF",
        0x74B5: "Instinct MI300X VF",
        0x74B9: "Instinct MI325X VF",
        0x74BD: "Instinct MI300X HF",
        0x75A0: "Instinct MI350X",
        0x75A3: "Instinct MI355X",
    }
)
# Releases of the driver write the partition there, or into the three bits of the function.
_PARTITION_SHIFT: Final = 28
_FUNCTION_BITS: Final = 0b111
_MAJOR, _MINOR = 10_000, 100


def architecture(gfx_target_version: int) -> str | None:
    """`gfx90a` from 90010: major, minor and stepping in two decimal digits each; 0 is unknown."""
    if not 0 < gfx_target_version < _MAJOR * 100:
        return None
    major, rest = divmod(gfx_target_version, _MAJOR)
    minor, stepping = divmod(rest, _MINOR)
    return f"gfx{major}{minor:x}{stepping:x}"


def product(vendor_id: int, device_id: int) -> str | None:
    """What AMD sells a PCI device as; None for one that is not in this short list."""
    return _PRODUCTS.get(device_id) if vendor_id == AMD else None


def slot_of(domain: int, location_id: int) -> tuple[int, int]:
    """Domain, and bus with device but without function: the same for partitions of one GPU."""
    return domain, location_id & 0xFFFF & ~_FUNCTION_BITS


def partition_of(location_id: int) -> tuple[int, int]:
    """What tells partitions of a GPU apart: the driver has written it to the one or the other."""
    return location_id >> _PARTITION_SHIFT, location_id & _FUNCTION_BITS


def bus_address(domain: int, location_id: int) -> PciAddress:
    """The PCI address of bus, device and function in 16 bits, below a domain of 32."""
    bus, device, function = (
        location_id >> 8 & 0xFF,
        location_id >> 3 & 0x1F,
        location_id & _FUNCTION_BITS,
    )
    return PciAddress(f"{domain & 0xFFFFFFFF:04x}:{bus:02x}:{device:02x}.{function}")
