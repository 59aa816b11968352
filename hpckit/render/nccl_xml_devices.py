"""The elements of NCCL's topology file that say what a PCI device is: <gpu> and <net>.

Source: NCCL src/graph/xml.cc (ncclTopoGetXmlFromGpu) and topo.cc (ncclTopoPopulateNics).
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from hpckit.model.hardware import (
    CpuLink,
    Gpu,
    GpuLink,
    LinkKind,
    Nic,
    NodeTopology,
    NvLinkRemote,
)
from hpckit.model.pci import PciAddress
from hpckit.render.nccl_xml_text import XmlElement

_UNSEEN: Final = "fffffff:ffff:ff"
"""NCCL's own word for a switch that is not to be seen."""

_SWITCH_CLASS: Final = "0x068000"
_CPU_CLASS: Final = "0x068001"
_GPU_CLASS: Final = "0x030200"
_BITS_PER_BYTE: Final = 8
_MEGA: Final = 1e6
_SM: Final = re.compile(r"sm_(\d{2,4})", re.ASCII)
_GUID: Final = re.compile(r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}", re.ASCII | re.IGNORECASE)

_Target = tuple[str, str]
"""An address and a class."""


class NcclLinks:
    """The links of each GPU as NCCL lists them: how many lead to which address.

    `is_merged` makes one element of all switches, which NCCL takes for one switch anyway.
    """

    def __init__(self, topology: NodeTopology, *, is_rccl: bool, is_merged: bool = False) -> None:
        self.is_rccl = is_rccl
        self._is_merged = is_merged
        self._topology = topology
        self._addresses = {gpu.index: gpu.pci for gpu in topology.gpus}
        self._classes = {device.address: device.class_code for device in topology.pci}
        self._links: dict[tuple[int, LinkKind], list[GpuLink]] = {}
        for link in topology.gpu_links:
            for index in {link.a, link.b}:
                self._links.setdefault((index, link.kind), []).append(link)

    def is_alone(self, gpu: Gpu) -> bool:
        """Whether no other GPU, such as a part of the same one, has its PCI address."""
        return list(self._addresses.values()).count(gpu.pci) == 1

    def elements(self, gpu: Gpu) -> list[XmlElement]:
        """The <nvlink> or <xgmi>, then the <c2c> of a GPU."""
        tag = "xgmi" if self.is_rccl else "nvlink"
        counts = self._xgmi(gpu) if self.is_rccl else self._nvlink(gpu)
        links = [
            XmlElement(tag, {"target": target, "count": count, "tclass": tclass})
            for (target, tclass), count in counts.items()
        ]
        coherent = (
            self._c2c(link) for link in self._topology.cpu_links if link.gpu_index == gpu.index
        )
        return [*links, *(element for element in coherent if element is not None)]

    def _xgmi(self, gpu: Gpu) -> Counter[_Target]:
        """RCCL lists the peers that are one hop away."""
        return self._of_pairs(gpu, LinkKind.XGMI)

    def _nvlink(self, gpu: Gpu) -> Counter[_Target]:
        if gpu.nvlinks is None:
            found = self._of_pairs(gpu, LinkKind.NVLINK)
            for link in self._topology.cpu_links:
                if link.gpu_index == gpu.index and link.kind is LinkKind.NVLINK and link.count:
                    found[_UNSEEN, _CPU_CLASS] += link.count
            return found
        counts: Counter[_Target] = Counter()
        for one in gpu.nvlinks:
            if one.is_active:
                counts[self._target(one.remote, one.remote_pci)] += 1
        return counts

    def _target(self, remote: NvLinkRemote | None, address: PciAddress | None) -> _Target:
        is_gpu = remote is NvLinkRemote.GPU or (
            address is not None and address in self._addresses.values()
        )
        if is_gpu:
            return address or _UNSEEN, self._class(address)
        if remote is NvLinkRemote.NPU:
            return address or _UNSEEN, _CPU_CLASS
        return _UNSEEN if self._is_merged else address or _UNSEEN, _SWITCH_CLASS

    def _of_pairs(self, gpu: Gpu, kind: LinkKind) -> Counter[_Target]:
        """What the pairs of a GPU tell; nothing if one of them does not tell its count.

        NCCL asks the driver for the links of a GPU that has none in the file, and only then.
        """
        found: Counter[_Target] = Counter()
        switched = 0
        for link in self._links.get((gpu.index, kind), ()):
            if link.hops not in {None, 1}:
                continue
            peer = self._addresses.get(link.b if link.a == gpu.index else link.a)
            if link.count is None or peer is None:
                return Counter()
            if link.is_switched:
                switched = max(switched, link.count)
            elif link.count:
                found[peer, self._class(peer)] += link.count
        if switched:
            found[_UNSEEN, _SWITCH_CLASS] = switched
        return found

    def _class(self, address: PciAddress | None) -> str:
        code = None if address is None else self._classes.get(address)
        return _GPU_CLASS if code is None else f"0x{code:04x}00"

    def _c2c(self, link: CpuLink) -> XmlElement | None:
        count, rate = link.count or 0, link.bandwidth_bytes_per_s
        if link.kind is not LinkKind.C2C or count < 1 or rate is None:
            return None
        return XmlElement("c2c", {"bw": round(rate / count / _MEGA), "count": count})


def gpu_element(gpu: Gpu, links: NcclLinks, *, is_leaf: bool) -> XmlElement | None:
    """The <gpu> of a device; None of one of which only its place is known, as in a preset.

    `rank` is the index: NCCL writes its own over it.
    """
    children = links.elements(gpu)
    is_known = gpu.architecture is not None or gpu.is_gdr is not None or bool(children)
    if not is_known and is_leaf and links.is_alone(gpu):
        return None
    match = _SM.fullmatch(gpu.architecture or "")
    return XmlElement(
        "gpu",
        {
            "dev": gpu.index,
            "sm": match[1] if match else None,
            "gcn": gpu.architecture if links.is_rccl else None,
            "mlopart": gpu.partition if not links.is_rccl else None,
            "rank": gpu.index,
            "gdr": None if gpu.is_gdr is None else int(gpu.is_gdr),
        },
        children,
    )


def net_element(nic: Nic, ports_before: int) -> XmlElement:
    """The <net> of a NIC; `ports_before` are those of the functions of its card that come first.

    Source: NCCL's InfiniBand plugin, which counts the functions of a card as ports of one device.
    """
    rate = nic.rate_bytes_per_s
    port = nic.ports[0].index if nic.ports else None
    return XmlElement(
        "net",
        {
            "name": nic.name,
            "dev": nic.index,
            "speed": None if rate is None else round(rate * _BITS_PER_BYTE / _MEGA),
            "port": None if port is None else port + ports_before,
            "guid": None if nic.guid is None else _nccl_guid(nic.guid),
            "gdr": None if nic.is_gdr is None else int(nic.is_gdr),
        },
    )


def _nccl_guid(guid: str) -> str:
    """A GUID as NCCL prints it: the eight bytes of Linux's spelling as a little-endian number."""
    if not _GUID.fullmatch(guid):
        return guid
    return f"0x{int.from_bytes(bytes.fromhex(guid.replace(':', '')), 'little'):x}"
