"""What lies above a PCI device."""

from __future__ import annotations

from itertools import pairwise

from hpckit.node.pci import PciAddress, PciDevice, PcieLink, pci_address
from hpckit.node.pci_tree import PciTree


def _at(text: str) -> PciAddress:
    return pci_address(text)


def _chain(*addresses: str, host_bridge: str | None = "pci0000:00") -> list[PciDevice]:
    """Devices each below the one before; the first knows its root complex."""
    devices = [PciDevice(address=_at(addresses[0]), host_bridge=host_bridge)]
    devices += [
        PciDevice(address=_at(lower), parent=_at(upper)) for upper, lower in pairwise(addresses)
    ]
    return devices


def test_effective_is_the_least_of_what_is_known() -> None:
    """What a bridge does not tell takes no part in the minimum; without any it is None."""
    root, device = _chain("00:01.0", "01:00.0")
    narrow = PciDevice(address=root.address, link=PcieLink(width=8, max_width=16))
    fast = PciDevice(
        address=device.address,
        parent=device.parent,
        link=PcieLink(speed_gt_per_s=32.0, width=16, max_speed_gt_per_s=32.0),
    )
    assert PciTree([narrow, fast]).effective(fast.address) == PcieLink(
        speed_gt_per_s=32.0, width=8, max_speed_gt_per_s=32.0, max_width=16
    )
    assert PciTree([root, device]).effective(device.address) is None
    assert PciTree([narrow, fast]).effective(narrow.address) == narrow.link


def test_numa_comes_from_the_nearest_that_knows() -> None:
    """A device that does not know its NUMA node has that of the nearest bridge above it."""
    root = PciDevice(address=_at("00:01.0"), numa_index=1)
    device = PciDevice(address=_at("01:00.0"), parent=root.address)
    assert PciTree([root, device]).numa_index(device.address) == 1
    assert PciTree([device]).numa_index(device.address) is None
