"""The NVLinks, XGMI and C2C links of NCCL's topology files.

Source: NCCL src/graph/topo.cc, ncclTopoAddNvLinks and ncclTopoAddC2c, kvDictPciClass.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final

from hpckit.model.hardware import (
    CpuLink,
    Gpu,
    GpuLink,
    LinkKind,
    NvLink,
    NvLinkRemote,
    Unknown,
)
from hpckit.model.link_rates import LINK_BYTES_PER_S
from hpckit.model.node_limits import MOST_BYTES_PER_S
from hpckit.model.pci import PciAddress, pci_address
from hpckit.parse.nccl_xml_devices import Devices, GpuElement
from hpckit.parse.nccl_xml_values import NcclAttributes
from hpckit.parse.xml_elements import Element

_GPU_CLASSES: Final = ("0x03", "0x12")
_CPU_CLASS: Final = "0x068001"
_C2C_BYTES: Final = 1e6
_MOST_LINKS: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """The GPUs with their NVLinks, and the links between them and to CPUs."""

    gpus: tuple[Gpu, ...]
    gpu_links: tuple[GpuLink, ...]
    cpu_links: tuple[CpuLink, ...]
    unknown: tuple[Unknown, ...]


@dataclass(slots=True)
class _Found:
    """Counts of links: between two GPUs as each says, to switches, and to CPUs."""

    direct: dict[tuple[int, int], int] = field(default_factory=lambda: defaultdict(int))
    switched: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    to_cpu: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    kinds: dict[int, LinkKind] = field(default_factory=dict)
    nvlinks: dict[int, list[NvLink]] = field(default_factory=lambda: defaultdict(list))
    unknown: list[Unknown] = field(default_factory=list)


def read_links(devices: Devices, attributes: NcclAttributes) -> Links:
    """The links that the <gpu> elements name. Raises ParseError."""
    found = _Found()
    by_address = {one.gpu.pci: one.gpu.index for one in devices.gpus if one.gpu.pci is not None}
    c2c: list[CpuLink] = []
    for one in devices.gpus:
        for element in () if one.element is None else one.element.of("nvlink", "xgmi"):
            _read_link(one.gpu, element, attributes, by_address, found)
        for element in () if one.element is None else one.element.of("c2c"):
            c2c.append(_c2c(one.gpu, element, attributes))
    rates = {one.gpu.index: _rate(one.gpu) for one in devices.gpus}
    gpus = tuple(dataclasses.replace(one.gpu, nvlinks=_nvlinks(one, found)) for one in devices.gpus)
    gpu_links = _gpu_links(found, rates)
    return Links(
        gpus=gpus,
        gpu_links=gpu_links,
        cpu_links=(*_cpu_links(gpus, found, rates), *c2c),
        unknown=(*found.unknown, *_unknown(devices, gpu_links)),
    )


def _read_link(
    gpu: Gpu,
    element: Element,
    attributes: NcclAttributes,
    by_address: dict[PciAddress, int],
    found: _Found,
) -> None:
    attributes.needed(element, "count")
    count = attributes.integer(element, "count", most=_MOST_LINKS) or 0
    is_nvlink = element.tag == "nvlink"
    found.kinds[gpu.index] = LinkKind.NVLINK if is_nvlink else LinkKind.XGMI
    address = _target(attributes.needed(element, "target"))
    peer = None if address is None else by_address.get(address)
    remote = _remote(element.get("tclass") or "", peer)
    if is_nvlink:
        _add_nvlinks(found.nvlinks[gpu.index], count, remote, address)
        attributes.limit(element, len(found.nvlinks[gpu.index]), _MOST_LINKS)
    if count == 0:
        return
    if remote is NvLinkRemote.NPU:
        found.to_cpu[gpu.index] += count
    elif remote is NvLinkRemote.SWITCH:
        found.switched[gpu.index] += count
    elif peer is None or peer == gpu.index:
        because = f"they lead to {address}, and the file has no such GPU"
        if peer is not None:
            because = "the file has them lead to the GPU itself, as a VM does that hides the peer"
        what = f"the other end of {count} links"
        found.unknown.append(Unknown(subject=f"GPU{gpu.index}", what=what, because=because))
    else:
        found.direct[gpu.index, peer] += count


def _target(text: str) -> PciAddress | None:
    """NCCL writes `fffffff:ffff:ff` for a switch that it cannot see."""
    try:
        return pci_address(text)
    except ValueError:
        return None


def _remote(text: str, peer: int | None) -> NvLinkRemote:
    """NCCL knows GPUs and CPUs by the class of the target; all else is a switch to it."""
    if peer is not None or text.startswith(_GPU_CLASSES):
        return NvLinkRemote.GPU
    return NvLinkRemote.NPU if text.startswith(_CPU_CLASS) else NvLinkRemote.SWITCH


def _add_nvlinks(
    links: list[NvLink], count: int, remote: NvLinkRemote, address: PciAddress | None
) -> None:
    start = len(links)
    links += [
        NvLink(index=start + at, is_active=True, remote=remote, remote_pci=address)
        for at in range(count)
    ]


def _nvlinks(one: GpuElement, found: _Found) -> tuple[NvLink, ...] | None:
    """The NVLinks that were up, numbered in the order of the file; NCCL names no others."""
    if found.kinds.get(one.gpu.index) is not LinkKind.NVLINK:
        return None
    return tuple(found.nvlinks[one.gpu.index])


def _c2c(gpu: Gpu, element: Element, attributes: NcclAttributes) -> CpuLink:
    count = attributes.integer(element, "count", most=_MOST_LINKS)
    each = attributes.integer(element, "bw", most=1 << 40)
    bandwidth = None if count is None or each is None else each * count * _C2C_BYTES
    if bandwidth is not None and bandwidth > MOST_BYTES_PER_S:
        raise attributes.refuse(element, "bw", "MB/s that links can carry")
    return CpuLink(
        gpu_index=gpu.index,
        kind=LinkKind.C2C,
        numa_index=gpu.numa_index,
        count=count,
        bandwidth_bytes_per_s=bandwidth,
    )


def _rate(gpu: Gpu) -> float | None:
    return LINK_BYTES_PER_S.get(gpu.architecture or "")


def _gpu_links(found: _Found, rates: dict[int, float | None]) -> tuple[GpuLink, ...]:
    links: list[GpuLink] = []
    for a, b in sorted({(min(pair), max(pair)) for pair in found.direct}):
        said = [found.direct[pair] for pair in ((a, b), (b, a)) if pair in found.direct]
        links.append(_link(a, b, min(said), found, rates))
    known = {(link.a, link.b) for link in links}
    behind = sorted(index for index, count in found.switched.items() if count)
    for at, a in enumerate(behind):
        for b in behind[at + 1 :]:
            if (a, b) not in known:
                least = min(found.switched[a], found.switched[b])
                links.append(
                    dataclasses.replace(_link(a, b, least, found, rates), is_switched=True)
                )
    return tuple(sorted(links, key=lambda link: (link.a, link.b)))


def _link(a: int, b: int, count: int, found: _Found, rates: dict[int, float | None]) -> GpuLink:
    both = [rate for rate in (rates[a], rates[b]) if rate is not None]
    return GpuLink(
        a=a,
        b=b,
        kind=found.kinds.get(a, found.kinds.get(b, LinkKind.NVLINK)),
        count=count,
        bandwidth_bytes_per_s=min(both) * count if both else None,
        is_switched=False,
    )


def _cpu_links(
    gpus: tuple[Gpu, ...], found: _Found, rates: dict[int, float | None]
) -> tuple[CpuLink, ...]:
    links: list[CpuLink] = []
    for gpu in gpus:
        count, rate = found.to_cpu.get(gpu.index), rates[gpu.index]
        if count:
            links.append(
                CpuLink(
                    gpu_index=gpu.index,
                    kind=LinkKind.NVLINK,
                    numa_index=gpu.numa_index,
                    count=count,
                    bandwidth_bytes_per_s=None if rate is None else rate * count,
                )
            )
    return tuple(links)


def _unknown(devices: Devices, links: tuple[GpuLink, ...]) -> list[Unknown]:
    found: list[Unknown] = []
    if devices.gpus and all(one.element is None for one in devices.gpus):
        because = "the file is a preset: it holds PCI devices, and NCCL finds the rest by itself"
        what = "index, architecture, links"
        found.append(Unknown(subject="GPUs", what=what, because=because))
    if any(link.bandwidth_bytes_per_s is None for link in links):
        slow = {one.gpu.architecture for one in devices.gpus if _rate(one.gpu) is None}
        named = ", ".join(sorted(name or "an unknown architecture" for name in slow))
        because = f"no figure is known for the links of {named}"
        found.append(
            Unknown(subject="GPUs", what="bandwidth_bytes_per_s of links", because=because)
        )
    return found
