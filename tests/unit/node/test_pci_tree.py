"""What lies above a PCI device."""

from __future__ import annotations

from itertools import pairwise

from hpckit.node.path import PathKind
from hpckit.node.pci import PciAddress, PciDevice, PcieLink, pci_address
from hpckit.node.pci_tree import PciTree, is_one_card


def _at(text: str) -> PciAddress:
    return pci_address(text)


def _chain(*addresses: str, host_bridge: str | None = "pci0000:00") -> list[PciDevice]:
    """Devices each below the one before; the first knows its root complex."""
    devices = [PciDevice(address=_at(addresses[0]), host_bridge=host_bridge)]
    devices += [
        PciDevice(address=_at(lower), parent=_at(upper)) for upper, lower in pairwise(addresses)
    ]
    return devices


def _broadcom(address: str, parent: str | None, device: int, subsystem: int) -> PciDevice:
    return PciDevice(
        address=_at(address),
        parent=None if parent is None else _at(parent),
        vendor_id=0x1000,
        device_id=device,
        subsystem_vendor_id=0x1000,
        subsystem_device_id=subsystem,
    )


SWITCH = ("00:01.0", "01:00.0", "02:00.0", "03:00.0")
"""Root port, upstream port, downstream port, device."""


def test_ports_of_one_switch_are_pix() -> None:
    """Two devices behind two ports of one switch cross at most one bridge in nvidia-smi's words."""
    beside = _chain("01:00.0", "02:01.0", "04:00.0", host_bridge=None)[1:]
    tree = PciTree([*_chain(*SWITCH), *beside])
    assert tree.shared(_at("03:00.0"), _at("04:00.0")) is PathKind.PIX


def test_a_switch_below_a_switch_is_pxb() -> None:
    """A device behind a second switch below the first is PXB from one behind the first."""
    below = _chain("01:00.0", "02:01.0", "04:00.0", "05:00.0", "06:00.0", host_bridge=None)[1:]
    tree = PciTree([*_chain(*SWITCH), *below])
    assert tree.shared(_at("03:00.0"), _at("06:00.0")) is PathKind.PXB


def test_functions_of_a_card_are_pix() -> None:
    """Two functions of one card share its link, below a root port or beside it."""
    tree = PciTree([*_chain("00:01.0", "01:00.0"), PciDevice(address=_at("01:00.1"))])
    assert tree.shared(_at("01:00.0"), _at("01:00.1")) is PathKind.PIX
    assert is_one_card(_at("01:00.0"), _at("01:00.1"))
    assert not is_one_card(_at("01:00.0"), _at("01:01.0"))


def test_root_ports_are_not_shared() -> None:
    """Devices below two root ports of one root complex meet in no bridge."""
    tree = PciTree([*_chain("00:01.0", "01:00.0"), *_chain("00:02.0", "02:00.0")])
    assert tree.shared(_at("01:00.0"), _at("02:00.0")) is None
    assert tree.host_bridge(_at("01:00.0")) == "pci0000:00"


def test_each_bridge_of_ncclss_tree_is_a_switch() -> None:
    """Without root complexes one bridge is a whole switch, and one more makes PXB."""
    devices = [
        *_chain("10:00.0", "11:00.0", host_bridge=None),
        *_chain("10:00.0", "12:00.0", host_bridge=None)[1:],
        *_chain("10:00.0", "13:00.0", "14:00.0", host_bridge=None)[1:],
    ]
    tree = PciTree(devices)
    assert tree.shared(_at("11:00.0"), _at("12:00.0")) is PathKind.PIX
    assert tree.shared(_at("11:00.0"), _at("14:00.0")) is PathKind.PXB
    assert tree.switches(_at("14:00.0")) == (_at("13:00.0"), _at("10:00.0"))


def test_nccl_climbs_two_levels() -> None:
    """Of a full tree NCCL keeps the upstream port of a switch, and neither root nor lower port."""
    tree = PciTree(_chain(*SWITCH))
    assert tree.switches(_at("03:00.0")) == (_at("01:00.0"),)
    assert PciTree(_chain("00:01.0", "01:00.0")).switches(_at("01:00.0")) == ()


def test_two_levels_of_a_broadcom_switch_are_one() -> None:
    """A PEX switch of generation 5 shows its level in the subsystem, one of 4 shows none."""
    gen5 = [
        _broadcom("10:00.0", None, 0xC030, 0x0072),
        _broadcom("11:00.0", "10:00.0", 0xC030, 0x1003),
        PciDevice(address=_at("12:00.0"), parent=_at("11:00.0")),
    ]
    assert PciTree(gen5).switches(_at("12:00.0")) == (_at("10:00.0"),)
    gen4 = [
        _broadcom("10:00.0", None, 0xC010, 0xA096),
        _broadcom("11:00.0", "10:00.0", 0xC010, 0xA096),
        _broadcom("12:00.0", "11:00.0", 0xC010, 0xA096),
        PciDevice(address=_at("13:00.0"), parent=_at("12:00.0")),
    ]
    assert PciTree(gen4).switches(_at("13:00.0")) == (_at("12:00.0"), _at("10:00.0"))


def test_other_switches_stay_two() -> None:
    """A switch of another maker, or of the wrong level, is not merged."""
    for upper, lower in ((0x1003, 0x1003), (0x0072, 0x0072)):
        devices = [
            _broadcom("10:00.0", None, 0xC030, upper),
            _broadcom("11:00.0", "10:00.0", 0xC030, lower),
            PciDevice(address=_at("12:00.0"), parent=_at("11:00.0")),
        ]
        assert len(PciTree(devices).switches(_at("12:00.0"))) == 2


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
    assert PciTree([narrow, fast]).with_effective([narrow])[0].effective == narrow.link


def test_numa_comes_from_the_nearest_that_knows() -> None:
    """A device that does not know its NUMA node has that of the nearest bridge above it."""
    root = PciDevice(address=_at("00:01.0"), numa_index=1)
    device = PciDevice(address=_at("01:00.0"), parent=root.address)
    assert PciTree([root, device]).numa_index(device.address) == 1
    assert PciTree([device]).numa_index(device.address) is None
