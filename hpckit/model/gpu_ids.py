"""Which PCI functions are GPUs to compute on, or NVSwitches. Source: pci.ids."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import Final

from hpckit.model.hardware import GpuVendor
from hpckit.model.pci import (
    CLASS_ACCELERATOR,
    CLASS_OTHER_BRIDGE,
    GPU_CLASSES,
    PciDevice,
)
from hpckit.model.pci_vendors import AMD, INTEL, NVIDIA

GPU_VENDORS: Final = MappingProxyType(
    {NVIDIA: GpuVendor.NVIDIA, AMD: GpuVendor.AMD, INTEL: GpuVendor.INTEL}
)
"""The makers of GPUs by PCI vendor."""

NVSWITCH: Final = "NVSwitch"
"""What hwloc calls one, by which it is known where its numbers could not be read."""

# Rage XL, RV100 and ES1000: the graphics of servers before 2015.
_AMD_SERVER_GRAPHICS: Final = frozenset({0x4752, 0x5159, 0x515E, 0x5969})

# Where Intel's graphics within a CPU are, and their virtual functions (i915, intel_vgpu).
_INTEL_INTEGRATED: Final = re.compile(r"0000:00:02\.[0-7]", re.ASCII)


def gpu_vendor(device: PciDevice) -> GpuVendor | None:
    """Who made it, if it is a GPU: a server's own display is none, nor is Intel's class 1200."""
    vendor = GPU_VENDORS.get(device.vendor_id or 0)
    if device.class_code not in GPU_CLASSES:
        return None
    if vendor is GpuVendor.AMD and device.device_id in _AMD_SERVER_GRAPHICS:
        return None
    is_integrated = _INTEL_INTEGRATED.fullmatch(device.address) is not None
    if vendor is GpuVendor.INTEL and (device.class_code == CLASS_ACCELERATOR or is_integrated):
        return None
    return vendor


def is_nvswitch(device: PciDevice) -> bool:
    """Whether a device is a switch between GPUs: the one bridge of NVIDIA's that is none of PCI."""
    is_bridge = device.class_code == CLASS_OTHER_BRIDGE and device.vendor_id == NVIDIA
    return is_bridge or device.name == NVSWITCH
