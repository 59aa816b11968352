"""What lspci's words stand for: classes, vendors, and devices that only a name tells of.

Source: pci.ids, whose words lspci prints, also as older editions spelled them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from hpckit.model import pci
from hpckit.model.pci_vendors import (
    AMAZON,
    AMD,
    BROADCOM,
    BROADCOM_LSI,
    CRAY,
    GOOGLE,
    HABANA,
    INTEL,
    MELLANOX,
    NVIDIA,
    PENSANDO,
)

CLASS_SERIAL_INFINIBAND: Final = 0x0C06
CLASS_HOST_BRIDGE: Final = 0x0600

CLASSES: Final = MappingProxyType(
    {
        "SCSI storage controller": 0x0100,
        "IDE interface": 0x0101,
        "RAID bus controller": 0x0104,
        "SATA controller": 0x0106,
        "Serial Attached SCSI controller": 0x0107,
        "Non-Volatile memory controller": 0x0108,
        "Mass storage controller": 0x0180,
        "Ethernet controller": pci.CLASS_ETHERNET,
        "Infiniband controller": pci.CLASS_INFINIBAND,
        "InfiniBand controller": pci.CLASS_INFINIBAND,
        "Fabric controller": pci.CLASS_FABRIC,
        "Network controller": pci.CLASS_NETWORK,
        "VGA compatible controller": pci.CLASS_VGA,
        "3D controller": pci.CLASS_3D,
        "Display controller": pci.CLASS_DISPLAY,
        "Multimedia audio controller": 0x0401,
        "Audio device": 0x0403,
        "RAM memory": 0x0500,
        "Memory controller": 0x0580,
        "Host bridge": CLASS_HOST_BRIDGE,
        "ISA bridge": 0x0601,
        "PCI bridge": pci.CLASS_PCI_BRIDGE,
        "Bridge": pci.CLASS_OTHER_BRIDGE,
        "Serial controller": 0x0700,
        "Communication controller": 0x0780,
        "PIC": 0x0800,
        "SD Host controller": 0x0805,
        "IOMMU": 0x0806,
        "System peripheral": 0x0880,
        "Co-processor": 0x0B40,
        "USB controller": 0x0C03,
        "USB Controller": 0x0C03,
        "SMBus": 0x0C05,
        "InfiniBand": CLASS_SERIAL_INFINIBAND,
        "IPMI Interface": 0x0C07,
        "IPMI SMIC interface": 0x0C07,
        "Serial bus controller": 0x0C80,
        "Encryption controller": 0x1080,
        "Performance counters": 0x1101,
        "Signal processing controller": 0x1180,
        "Processing accelerators": pci.CLASS_ACCELERATOR,
        "Non-Essential Instrumentation": 0x1300,
    }
)

_VENDORS: Final = MappingProxyType(
    {
        "NVIDIA Corporation": NVIDIA,
        "nVidia Corporation": NVIDIA,
        "Advanced Micro Devices, Inc. [AMD/ATI]": AMD,
        "Advanced Micro Devices [AMD] nee ATI": AMD,
        "Advanced Micro Devices, Inc. [AMD]": 0x1022,
        "Advanced Micro Devices [AMD]": 0x1022,
        "Intel Corporation": INTEL,
        "Mellanox Technologies": MELLANOX,
        "Broadcom / LSI": BROADCOM_LSI,
        "LSI Logic / Symbios Logic": BROADCOM_LSI,
        "Broadcom Inc. and subsidiaries": BROADCOM,
        "Broadcom Corporation": BROADCOM,
        "PLX Technology, Inc.": 0x10B5,
        "Amazon.com, Inc.": AMAZON,
        "Habana Labs Ltd.": HABANA,
        "Google, Inc.": GOOGLE,
        "ASPEED Technology, Inc.": 0x1A03,
        "Matrox Electronics Systems Ltd.": 0x102B,
        "Microsoft Corporation": 0x1414,
        "Cray Inc": CRAY,
        "Pensando Systems Inc": PENSANDO,
        "Pensando Systems": PENSANDO,
        "Red Hat, Inc.": 0x1AF4,
    }
)

_UNNAMED: Final = re.compile(r"(?:(.*) )?Device(?: (?:([0-9a-f]{4}):)?([0-9a-f]{4}))?", re.ASCII)

_NO_GPU: Final = re.compile(
    r"audio|usb|ucsi|nvswitch|bridge|smbus|sata|\bide\b|controller|ethernet|memory|\bhost\b|iommu"
    r"|\bport\b|switch|connectx|bluefield|\bmcp\d\d",
    re.ASCII | re.IGNORECASE,
)
SERVER_GRAPHICS: Final = re.compile(r"ES1000|RV100|\bRage\b", re.ASCII)
"""AMD's of servers before 2015: for a console, not to compute on."""

_INTEL_GPU: Final = re.compile(r"Data Center GPU|Ponte Vecchio|\bDG[12]\b|\bArc\b", re.ASCII)
_NVSWITCHES: Final = frozenset({0x1AC0, 0x1AC1, 0x1AC2, 0x1AF1, 0x22A3})

_NIC: Final = re.compile(
    r"ethernet|infiniband|connectx|omni-path|netxtreme|gvnic|10GBASE|slingshot|cassini"
    r"|elastic (?:fabric|network) adapter|network (?:adapter|connection|controller|device)",
    re.ASCII | re.IGNORECASE,
)
_NO_NIC: Final = re.compile(
    r"\b(?:SoC|DMA|Crypto|Flash|Bridge|Switch|NVMe)\b", re.ASCII | re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """A device by its words: ids as far as they follow from them, the name without its vendor."""

    vendor_id: int | None = None
    device_id: int | None = None
    name: str | None = None


def naming(words: str) -> Naming:
    """What `NVIDIA Corporation Device 2330` tells; a device without a name has only its number."""
    unnamed = _UNNAMED.fullmatch(words)
    if unnamed is not None and (unnamed[3] or unnamed[1] is None or unnamed[1] in _VENDORS):
        vendor, number = unnamed[2], unnamed[3]
        return Naming(
            vendor_id=int(vendor, 16) if vendor else _VENDORS.get(unnamed[1] or ""),
            device_id=int(number, 16) if number else None,
        )
    for vendor_words, vendor_id in _VENDORS.items():
        if words.startswith(f"{vendor_words} "):
            return Naming(vendor_id=vendor_id, name=words[len(vendor_words) + 1 :].strip() or None)
    return Naming(name=words)


def is_named_gpu(device: pci.PciDevice) -> bool:
    """Whether a device whose class is not printed is a GPU to compute on.

    A device of NVIDIA or AMD without a name is taken for one, NVSwitches by their number not.
    """
    name = device.name or ""
    if not device.address.endswith(".0"):
        return False
    if device.vendor_id == INTEL:
        return _INTEL_GPU.search(name) is not None
    if device.vendor_id not in {NVIDIA, AMD} or device.device_id in _NVSWITCHES:
        return False
    return not (_NO_GPU.search(name) or SERVER_GRAPHICS.search(name))


def is_named_nic(device: pci.PciDevice) -> bool:
    """Whether a device whose class is not printed is a NIC."""
    name = device.name or ""
    return _NIC.search(name) is not None and _NO_NIC.search(name) is None
