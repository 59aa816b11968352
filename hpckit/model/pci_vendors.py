"""Makers of PCI devices by number. Source: pci.ids."""

from __future__ import annotations

from typing import Final

AMAZON: Final = 0x1D0F
AMD: Final = 0x1002
BROADCOM: Final = 0x14E4
BROADCOM_LSI: Final = 0x1000
"""Whose PCIe switches bear the number of LSI."""
CRAY: Final = 0x17DB
GOOGLE: Final = 0x1AE0
HABANA: Final = 0x1DA3
INTEL: Final = 0x8086
MELLANOX: Final = 0x15B3
MICROSOFT: Final = 0x1414
NVIDIA: Final = 0x10DE
PENSANDO: Final = 0x1DD8
