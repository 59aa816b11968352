"""Which PCI functions are GPUs."""

from __future__ import annotations

import pytest

from hpckit.node.pci import PciAddress, PciDevice
from hpckit.node.pci_tree import gpu_vendor
from hpckit.node.topology import GpuVendor


@pytest.mark.parametrize(
    ("address", "class_code", "vendor_id", "device_id", "vendor"),
    [
        ("0000:1b:00.0", 0x0302, 0x10DE, 0x2330, GpuVendor.NVIDIA),
        ("0000:01:00.0", 0x1200, 0x1002, 0x74A1, GpuVendor.AMD),
        ("0000:29:00.0", 0x0380, 0x8086, 0x0BD5, GpuVendor.INTEL),
        ("0000:01:01.0", 0x0300, 0x1002, 0x515E, None),  # ES1000
        ("0000:03:00.0", 0x0300, 0x1A03, 0x2000, None),  # ASPEED
        ("0000:00:02.0", 0x0300, 0x8086, 0x4680, None),  # within the CPU
        ("0001:00:02.0", 0x0380, 0x8086, 0x0BD5, GpuVendor.INTEL),  # passed through to a guest
        ("0000:6a:01.0", 0x1200, 0x8086, 0x7D1D, None),  # an NPU
        ("0000:05:00.0", 0x0680, 0x10DE, 0x22A3, None),  # NVSwitch
    ],
)
def test_gpu_vendor(
    address: str, class_code: int, vendor_id: int, device_id: int, vendor: GpuVendor | None
) -> None:
    """GPUs to compute on, and not a server's own display nor other things of the same makers."""
    device = PciDevice(
        address=PciAddress(address),
        class_code=class_code,
        vendor_id=vendor_id,
        device_id=device_id,
    )
    assert gpu_vendor(device) is vendor
