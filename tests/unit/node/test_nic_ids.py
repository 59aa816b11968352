"""What the numbers of PCI functions tell of NICs."""

from __future__ import annotations

import pytest

from hpckit.node.pci import PciDevice, pci_address
from hpckit.node.pci_tree import is_efa, is_virtual_nic


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
