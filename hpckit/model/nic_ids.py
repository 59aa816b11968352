"""What the numbers and drivers of PCI functions tell of NICs. Source: pci.ids."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from hpckit.model.pci import PciDevice
from hpckit.model.pci_vendors import AMAZON, BROADCOM, INTEL, MELLANOX, MICROSOFT, PENSANDO

CXI_DRIVERS: Final = frozenset({"cxi_core", "cxi_ss1", "cxi_eth"})
"""Those of Slingshot."""

_EFA: Final = range(0xEFA0, 0xEFB0)

# Of the drivers mlx4, mlx5; igbvf, ixgbevf, iavf, idpf, fm10k; bnxt_en; ionic; mana.
_VIRTUAL: Final = MappingProxyType(
    {
        MELLANOX: frozenset(
            {0x1002, 0x1004, 0x1012, 0x1014, 0x1016, 0x1018, 0x101A, 0x101C, 0x101E, 0xA2D3}
        ),
        INTEL: frozenset(
            {0x10CA, 0x1520, 0x152D, 0x152F, 0x10ED, 0x1515, 0x1565, 0x15A8, 0x15C5, 0x152E, 0x1530}
            | {0x1564, 0x15A9, 0x15B4, 0x57AD, 0x154C, 0x1571, 0x37CD, 0x37D9, 0x1889, 0x145C}
            | {0x15A5}
        ),
        BROADCOM: frozenset(
            {0x1606, 0x1607, 0x1608, 0x1609, 0x16BD, 0x16C1, 0x16C2, 0x16C3, 0x16C4, 0x16C5, 0x16CB}
            | {0x16D3, 0x16DC, 0x16E1, 0x16E5, 0x16E6, 0x1806, 0x1807, 0x1808, 0x1809, 0x1819}
            | {0x181B, 0xD800}
        ),
        PENSANDO: frozenset({0x1003}),
        MICROSOFT: frozenset({0x00BA}),
    }
)


def is_efa(device: PciDevice) -> bool:
    """Whether it is Amazon's Elastic Fabric Adapter."""
    return device.vendor_id == AMAZON and device.device_id in _EFA


def is_virtual_nic(device: PciDevice) -> bool:
    """Whether its number is one of virtual functions, which a guest sees without the physical."""
    return device.device_id in _VIRTUAL.get(device.vendor_id or 0, ())
