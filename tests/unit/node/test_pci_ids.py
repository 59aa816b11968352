"""What the numbers of PCI functions tell: which are GPUs, EFAs and virtual NICs."""

from __future__ import annotations

import pytest

from hpckit.node.pci import PciAddress, PciDevice, pci_address
from hpckit.node.pci_tree import gpu_vendor, is_efa, is_virtual_nic
from hpckit.node.topology import GpuVendor


@pytest.mark.parametrize(
    ("address", "class_code", "vendor_id", "device_id", "vendor"),
    [
        ("0000:1b:00.0", 0x0302, 0x10DE, 0x2330, GpuVendor.NVIDIA),
        ("0000:65:00.0", 0x0300, 0x10DE, 0x2684, GpuVendor.NVIDIA),  # a GeForce
        ("0000:01:00.0", 0x1200, 0x1002, 0x74A1, GpuVendor.AMD),
        ("0000:02:00.0", 0x0380, 0x1002, 0x740C, GpuVendor.AMD),
        ("0000:29:00.0", 0x0380, 0x8086, 0x0BD5, GpuVendor.INTEL),
        ("0000:01:01.0", 0x0300, 0x1002, 0x515E, None),  # ES1000
        ("0000:03:00.0", 0x0300, 0x1A03, 0x2000, None),  # ASPEED
        ("0000:00:02.0", 0x0300, 0x8086, 0x4680, None),  # within the CPU
        ("0001:00:02.0", 0x0380, 0x8086, 0x0BD5, GpuVendor.INTEL),  # passed through to a guest
        ("0000:6a:01.0", 0x1200, 0x8086, 0x7D1D, None),  # an NPU
        ("0000:05:00.0", 0x0680, 0x10DE, 0x22A3, None),  # NVSwitch
        ("0000:05:00.1", 0x0403, 0x10DE, 0x2331, None),  # sound
        ("0000:06:00.0", 0x0300, 0x102B, 0x0522, None),  # Matrox
        ("0000:07:00.0", 0x1200, 0x1DA3, 0x1060, None),  # Gaudi
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


def _device(vendor_id: int | None, device_id: int) -> PciDevice:
    return PciDevice(address=pci_address("3b:00.0"), vendor_id=vendor_id, device_id=device_id)


@pytest.mark.parametrize(
    ("vendor_id", "device_id", "is_virtual"),
    [
        (0x15B3, 0x101E, True),
        (0x15B3, 0x1021, False),
        (0x8086, 0x1889, True),
        (0x8086, 0x101E, False),
        (0x14E4, 0x1806, True),
        (None, 0x101E, False),
    ],
)
def test_a_virtual_function_is_known_by_its_number(
    vendor_id: int | None, device_id: int, *, is_virtual: bool
) -> None:
    """ConnectX, iavf and bnxt_en have numbers of their own for it; another maker's mean nothing."""
    assert is_virtual_nic(_device(vendor_id, device_id)) is is_virtual


def test_an_efa_is_known_by_its_number() -> None:
    """Amazon's numbers from efa0 on are EFA, its others and another maker's not."""
    assert is_efa(_device(0x1D0F, 0xEFA3))
    assert not is_efa(_device(0x1D0F, 0xEC20))
    assert not is_efa(_device(0x15B3, 0xEFA3))
