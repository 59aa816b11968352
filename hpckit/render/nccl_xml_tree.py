"""The PCI devices of a node as NCCL nests them.

Source: NCCL src/graph/xml.cc, ncclTopoGetXmlFromSys: from a device it climbs two levels of sysfs at
a time, so that of a switch the upstream port is left, and of a root port nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from hpckit.model.hardware import Nic, NodeTopology
from hpckit.model.pci import PciAddress, PciDevice


class NcclTree:
    """What lies above a device in NCCL's view.

    A tree that names no root complexes is NCCL's own already.
    """

    def __init__(self, topology: NodeTopology) -> None:
        self._devices = {device.address: device for device in topology.pci}
        self._numa = {gpu.pci: gpu.numa_index for gpu in topology.gpus}

    def device(self, address: PciAddress | None) -> PciDevice | None:
        """The device at an address."""
        return None if address is None else self._devices.get(address)

    def parent(self, device: PciDevice) -> PciDevice | None:
        """The switch above, None below a CPU."""
        above = self.device(device.parent)
        if above is None or not self._is_full(device):
            return above
        return self.device(above.parent)

    def place(self, nic: Nic) -> PciDevice | None:
        """The device that NCCL puts a NIC in: for every function of a card, its first.

        Source: NCCL's InfiniBand plugin, ncclIbGetPciPath.
        """
        own = self.device(nic.pci)
        if own is None or not self._is_full(own):
            return own
        return self.device(PciAddress(f"{own.address[:-1]}0")) or own

    def kept(self, ends: Iterable[PciDevice]) -> list[PciDevice]:
        """The devices that lead to these ends, and the ends, in the order of the topology."""
        found: set[PciAddress] = set()
        for end in ends:
            at: PciDevice | None = end
            while at is not None and at.address not in found:
                found.add(at.address)
                at = self.parent(at)
        return [device for address, device in self._devices.items() if address in found]

    def numa_index(self, device: PciDevice) -> int | None:
        """The NUMA node of a device, of what is above it, or of the GPU that it is."""
        known = (one.numa_index for one in self._way_up(device))
        index = next((index for index in known if index is not None), None)
        return self._numa.get(device.address) if index is None else index

    def speed_gt_per_s(self, device: PciDevice) -> float | None:
        """The speed that NCCL writes: the slower maximum of the device and the port above it."""
        speeds = (
            link.max_speed_gt_per_s or link.speed_gt_per_s
            for link in (one.link for one in self._ends_of_link(device))
            if link is not None
        )
        return min((speed for speed in speeds if speed), default=None)

    def width(self, device: PciDevice) -> int | None:
        """The lanes that NCCL writes, found alike."""
        widths = (
            link.max_width or link.width
            for link in (one.link for one in self._ends_of_link(device))
            if link is not None
        )
        return min((width for width in widths if width), default=None)

    def _ends_of_link(self, device: PciDevice) -> list[PciDevice]:
        above = self.device(device.parent)
        return [device] if above is None or not self._is_full(device) else [device, above]

    def _is_full(self, device: PciDevice) -> bool:
        return any(one.host_bridge is not None for one in self._way_up(device))

    def _way_up(self, device: PciDevice) -> list[PciDevice]:
        way: list[PciDevice] = []
        at: PciDevice | None = device
        while at is not None:  # a model's tree has no loop
            way.append(at)
            at = self.device(at.parent)
        return way
