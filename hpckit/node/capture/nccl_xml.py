"""NCCL's and RCCL's topology files: dumps (NCCL_TOPO_DUMP_FILE) and vendors' presets.

Source: NCCL 2.30, src/graph/xml.cc and topo.cc; RCCL, the same files. Version 1 is NCCL's, version
2 RCCL's, which has <xgmi> for <nvlink>. A preset holds PCI devices alone: what they are follows
from their class. Attributes that NCCL keeps for itself (rank, maxconn, latency, coll, keep, rail,
plane) are not taken over; elements that it does not know, it and hpckit pass by.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import combinations
from typing import Final, TypeVar

from hpckit.core.foreign_text import Element, XmlDocument
from hpckit.core.index_list import MOST_INDICES, IndexList, index_list
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.node.capture.nccl_xml_values import NcclAttributes, nic_of_net, nic_of_pci
from hpckit.node.path import LINK_BYTES_PER_S
from hpckit.node.pci import (
    CLASS_ACCELERATOR,
    GPU_CLASSES,
    NIC_CLASSES,
    PciAddress,
    PciDevice,
    address_or_none,
)
from hpckit.node.pci_tree import GPU_VENDORS
from hpckit.node.topology import (
    Accelerator,
    CpuLink,
    CpuTopology,
    Gpu,
    GpuLink,
    GpuVendor,
    LinkKind,
    Nic,
    NodeTopology,
    NumaNode,
    NvLink,
    NvLinkRemote,
    Source,
    Unknown,
)

_BASE_GPU: Final = 0x03
_BASE_NIC: Final = 0x02
_GCN: Final = regex(r"\d{3}", re.ASCII)
_GFX: Final = {"910": "gfx90a"}
_MOST_INDEX: Final = MOST_INDICES - 1


Device = TypeVar("Device", Gpu, Nic)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    parent: PciAddress | None
    numa_index: int | None = None
    cpus: IndexList | None = None

    def gpu(self, address: PciAddress | None) -> Gpu:
        """A GPU there."""
        numa = None if self.numa_index is None else IndexList(str(self.numa_index))
        return Gpu(
            index=0, pci=address, numa_index=self.numa_index, cpus=self.cpus, memory_numa=numa
        )


class _Devices:
    """What is read: `pci` in the order of the file, and at the end GPUs and NICs by index.

    `elements` are the GPUs' <gpu> by index; a preset has none.
    """

    def __init__(self, attributes: NcclAttributes, *, is_rccl: bool) -> None:
        self.numa: dict[int, set[int] | None] = {}
        self.pci: dict[PciAddress, PciDevice] = {}
        self.gpus: list[Gpu] = []
        self.elements: dict[int, Element] = {}
        self.nics: list[Nic] = []
        self.accelerators: list[Accelerator] = []
        self.unknown: list[Unknown] = []
        self._attributes = attributes
        self._is_rccl = is_rccl
        self._gpus: list[tuple[int | None, Gpu, Element | None]] = []
        self._nics: list[tuple[int | None, Nic, Element | None]] = []
        self._classless = 0
        self._has_side_links = False

    def note(self, subject: str, what: str, because: str) -> None:
        """Say that something is not known."""
        self.unknown.append(Unknown(subject, what, because))

    def read_cpu(self, cpu: Element) -> None:
        self._attributes.needed(cpu, "numaid")
        index = self._attributes.integer(cpu, "numaid", least=-1, most=_MOST_INDEX)
        indices = self._attributes.indices(cpu, "affinity")
        top = _Place(parent=None)
        if index is not None and index >= 0:
            before = self.numa.get(index)
            self.numa[index] = before if indices is None else {*(before or ()), *indices}
            cpus = None if indices is None else index_list(indices)
            top = _Place(parent=None, numa_index=index, cpus=cpus)
        else:
            because = "the file has them on NUMA node -1, which is unknown in Linux"
            self.note("the devices below that <cpu>", "numa_index", because)
        stack = [(cpu, top)]
        while stack:
            element, place = stack.pop()
            below = place if element is cpu else self._read_pci(element, place)
            if element is cpu:
                self._read_nets(element, place, None)
            stack += [(child, below) for child in reversed(list(element.of("pci")))]

    def finish(self) -> None:
        """Number the GPUs and NICs, and note what the file does not tell."""
        if self._classless:
            because = "the file lacks their PCI class, which NCCL reads on the machine"
            self.note("GPUs, NICs", f"class of {self._classless} PCI devices", because)
        if self._has_side_links:
            because = "the file has <pcilink>, which hpckit does not follow"
            self.note("switches", "direct links", because)
        for index, gpu, element in self._numbered(self._gpus, "GPUs"):
            self.gpus.append(dataclasses.replace(gpu, index=index))
            if element is not None:
                self.elements[index] = element
        self.nics = [
            dataclasses.replace(nic, index=index)
            for index, nic, _ in self._numbered(self._nics, "NICs")
        ]

    def _numbered(
        self, devices: list[tuple[int | None, Device, Element | None]], subject: str
    ) -> list[tuple[int, Device, Element | None]]:
        """Devices by the numbers that NCCL gave them, or else by those of their order."""
        known = [dev for dev, _, _ in devices if dev is not None]
        is_whole = len(known) == len(devices) == len(set(known))
        if known and not is_whole:
            because = "the file has no unique dev for each: numbered in file order"
            self.note(subject, "index", because)
        order = known if is_whole else range(len(devices))
        numbered = [
            (at, part, element) for at, (_, part, element) in zip(order, devices, strict=True)
        ]
        return sorted(numbered, key=lambda one: one[0])

    def _read_pci(self, element: Element, place: _Place) -> _Place:
        address = self._attributes.address(element, "busid")
        self._has_side_links = self._has_side_links or any(element.of("pcilink"))
        is_again = address in self.pci
        device = self._device(element, place, address)
        if not is_again:
            self.pci[address] = device
        own = None if is_again else address
        has_gpu = self._read_gpus(element, place, own)
        has_net = self._read_nets(element, place, own)
        if is_again:
            because = f"the file has two devices at {address}"
            if has_gpu or has_net:
                self.note("the later one", "pci", because)
            else:
                self.note("switches", "identity (read as one)", because)
        if not (has_gpu or has_net or is_again or list(element.of("pci"))):
            self._by_class(element, device, place)
        return dataclasses.replace(place, parent=address)

    def _device(self, element: Element, place: _Place, address: PciAddress) -> PciDevice:
        attributes = self._attributes
        return PciDevice(
            address=address,
            parent=place.parent if place.parent != address else None,
            class_code=attributes.pci_class(element)[1],
            vendor_id=attributes.identity(element, "vendor") or None,
            device_id=attributes.identity(element, "device"),
            subsystem_vendor_id=attributes.identity(element, "subsystem_vendor"),
            subsystem_device_id=attributes.identity(element, "subsystem_device"),
            numa_index=place.numa_index,
            link=attributes.link(element),
        )

    def _read_gpus(self, pci: Element, place: _Place, address: PciAddress | None) -> bool:
        elements = list(pci.of("gpu"))
        for element in elements:
            maker = self._attributes.identity(pci, "vendor")
            architecture = self._architecture(element)
            guess = None if architecture is None else GpuVendor.NVIDIA
            guess = GpuVendor.AMD if self._is_rccl else guess
            part = self._attributes.integer(element, "mlopart", least=-1)
            gpu = dataclasses.replace(
                place.gpu(address),
                vendor=GPU_VENDORS.get(maker) if maker else guess,
                architecture=architecture,
                partition=None if part is None or part < 0 else str(part),
                is_gdr=self._attributes.flag(element, "gdr"),
            )
            self._gpus.append((self._dev(element), gpu, element))
        return bool(elements)

    def _architecture(self, element: Element) -> str | None:
        """`sm` is a compute capability to NVIDIA, and to AMD a number of compute units."""
        gcn = (element.get("gcn") or "").strip().partition(":")[0]
        capability = self._attributes.integer(element, "sm", most=9999)
        if not gcn and not self._is_rccl:
            return f"sm_{capability}" if capability else None
        is_number = _GCN.fullmatch(gcn) is not None
        known = gcn.startswith("gfx") or is_number
        return _GFX.get(gcn, f"gfx{gcn}" if is_number else gcn) if known else None

    def _read_nets(self, parent: Element, place: _Place, address: PciAddress | None) -> bool:
        elements = [net for nic in parent.of("nic") for net in nic.of("net")]
        class_code = self._attributes.pci_class(parent)[1] if parent.tag == "pci" else None
        for element in elements:
            nic = nic_of_net(element, self._attributes, class_code)
            nic = dataclasses.replace(nic, pci=address, numa_index=place.numa_index)
            self._nics.append((self._dev(element), nic, element))
            if nic.rate_bytes_per_s is None:
                said = element.get("speed")
                because = f"the file has {said} Mbit/s" if said else "not in the file"
                self.note(nic.name, "rate_bytes_per_s", because)
        return bool(elements)

    def _dev(self, element: Element) -> int | None:
        dev = self._attributes.integer(element, "dev", least=-1, most=_MOST_INDEX)
        return None if dev is None or dev < 0 else dev

    def _by_class(self, element: Element, device: PciDevice, place: _Place) -> None:
        """What a preset holds: a device without an element that says what it is."""
        numa = place.numa_index
        base, code = self._attributes.pci_class(element)
        vendor = device.vendor_id
        if base is None:
            self._classless += 1
        if code == CLASS_ACCELERATOR and vendor is not None and vendor not in GPU_VENDORS:
            index = len(self.accelerators)
            self.accelerators.append(
                Accelerator(index=index, name=device.address, pci=device.address, numa_index=numa)
            )
        elif code in GPU_CLASSES or (code is None and base == _BASE_GPU):
            if vendor is None or vendor in GPU_VENDORS:
                gpu = dataclasses.replace(
                    place.gpu(device.address), vendor=GPU_VENDORS.get(vendor or 0)
                )
                self._gpus.append((self._dev(element), gpu, None))
        elif code in NIC_CLASSES or (code is None and base == _BASE_NIC):
            nic = dataclasses.replace(nic_of_pci(device), numa_index=numa)
            self._nics.append((self._dev(element), nic, None))


# Source: NCCL src/graph/topo.cc, ncclTopoAddNvLinks and ncclTopoAddC2c, kvDictPciClass.
_GPU_CLASSES: Final = ("0x03", "0x12")
_CPU_CLASS: Final = "0x068001"
_C2C_BYTES: Final = 1e6
_MOST_LINKS: Final = 256
_TO_ITSELF: Final = "in the file they lead back to the GPU itself, as in a VM that hides the peer"


class _Links:
    """The links that the <gpu> elements name; what is not known is noted. Raises ParseError.

    `gpus` have their NVLinks: those that were up, in the order of the file; NCCL names no others.
    """

    def __init__(self, devices: _Devices, attributes: NcclAttributes) -> None:
        self._devices = devices
        self._attributes = attributes
        self._by_address = {gpu.pci: gpu.index for gpu in devices.gpus if gpu.pci is not None}
        self._direct: dict[tuple[int, int], int] = defaultdict(int)
        self._switched: dict[int, int] = defaultdict(int)
        self._to_cpu: dict[int, int] = defaultdict(int)
        self._kinds: dict[int, LinkKind] = {}
        self._nvlinks: dict[int, list[NvLink]] = defaultdict(list)
        c2c: list[CpuLink] = []
        for gpu in devices.gpus:
            own = devices.elements.get(gpu.index)
            for element in () if own is None else own.of("nvlink", "xgmi"):
                self._read(gpu, element)
            c2c += [_c2c(gpu, element, attributes) for element in (own.of("c2c") if own else ())]
        self._rates = {
            gpu.index: LINK_BYTES_PER_S.get(gpu.architecture or "") for gpu in devices.gpus
        }
        self.gpus = tuple(
            dataclasses.replace(gpu, nvlinks=tuple(self._nvlinks[gpu.index]))
            if self._kinds.get(gpu.index) is LinkKind.NVLINK
            else gpu
            for gpu in devices.gpus
        )
        self.gpu_links = self._gpu_links()
        self.cpu_links = (*self._cpu_links(), *c2c)
        self._note_unknown()

    def _read(self, gpu: Gpu, element: Element) -> None:
        attributes = self._attributes
        attributes.needed(element, "count")
        count = attributes.integer(element, "count", most=_MOST_LINKS) or 0
        is_nvlink = element.tag == "nvlink"
        self._kinds[gpu.index] = LinkKind.NVLINK if is_nvlink else LinkKind.XGMI
        # NCCL writes `fffffff:ffff:ff` for a switch that it cannot see.
        address = address_or_none(attributes.needed(element, "target"))
        peer = None if address is None else self._by_address.get(address)
        remote = _remote(element.get("tclass") or "", peer)
        if is_nvlink:
            links = self._nvlinks[gpu.index]
            links += [
                NvLink(index=at, is_active=True, remote=remote, remote_pci=address)
                for at in range(len(links), len(links) + count)
            ]
            attributes.limit(element, len(links), _MOST_LINKS)
        if count == 0:
            return
        if remote is NvLinkRemote.NPU:
            self._to_cpu[gpu.index] += count
        elif remote is NvLinkRemote.SWITCH:
            self._switched[gpu.index] += count
        elif peer is None or peer == gpu.index:
            because = f"they lead to {address}, which is not a GPU in the file"
            if peer is not None:
                because = _TO_ITSELF
            self._devices.note(f"GPU{gpu.index}", f"the other end of {count} links", because)
        else:
            self._direct[gpu.index, peer] += count

    def _gpu_links(self) -> tuple[GpuLink, ...]:
        links: dict[tuple[int, int], GpuLink] = {}
        for a, b in {(min(pair), max(pair)) for pair in self._direct}:
            said = [self._direct[pair] for pair in ((a, b), (b, a)) if pair in self._direct]
            links[a, b] = self._link(a, b, min(said), is_switched=False)
        for a, b in combinations(sorted(self._switched), 2):
            if (a, b) not in links:
                least = min(self._switched[a], self._switched[b])
                links[a, b] = self._link(a, b, least, is_switched=True)
        return tuple(links[pair] for pair in sorted(links))

    def _link(self, a: int, b: int, count: int, *, is_switched: bool) -> GpuLink:
        both = [rate for rate in (self._rates[a], self._rates[b]) if rate is not None]
        return GpuLink(
            a=a,
            b=b,
            kind=self._kinds.get(a, self._kinds.get(b, LinkKind.NVLINK)),
            count=count,
            bandwidth_bytes_per_s=min(both) * count if both else None,
            is_switched=is_switched,
        )

    def _cpu_links(self) -> Iterator[CpuLink]:
        for gpu in self.gpus:
            rate, count = self._rates[gpu.index], self._to_cpu.get(gpu.index)
            if count:
                yield CpuLink(
                    gpu_index=gpu.index,
                    kind=LinkKind.NVLINK,
                    numa_index=gpu.numa_index,
                    count=count,
                    bandwidth_bytes_per_s=None if rate is None else rate * count,
                )

    def _note_unknown(self) -> None:
        devices = self._devices
        if devices.gpus and not devices.elements:
            because = "the file is a preset: it has PCI devices only, and NCCL detects the rest"
            devices.note("GPUs", "index, architecture, links", because)
        if any(link.bandwidth_bytes_per_s is None for link in self.gpu_links):
            slow = {gpu.architecture for gpu in devices.gpus if self._rates[gpu.index] is None}
            named = ", ".join(sorted(name or "an unknown architecture" for name in slow))
            because = f"hpckit has no link bandwidth for {named}"
            devices.note("GPUs", "bandwidth_bytes_per_s of links", because)


def _remote(text: str, peer: int | None) -> NvLinkRemote:
    """NCCL knows GPUs and CPUs by the class of the target; all else is a switch to it."""
    if peer is not None or text.startswith(_GPU_CLASSES):
        return NvLinkRemote.GPU
    return NvLinkRemote.NPU if text.startswith(_CPU_CLASS) else NvLinkRemote.SWITCH


def _c2c(gpu: Gpu, element: Element, attributes: NcclAttributes) -> CpuLink:
    count = attributes.integer(element, "count", most=_MOST_LINKS)
    each = attributes.integer(element, "bw")
    bandwidth = None if count is None or each is None else each * count * _C2C_BYTES
    return CpuLink(
        gpu_index=gpu.index,
        kind=LinkKind.C2C,
        numa_index=gpu.numa_index,
        count=count,
        bandwidth_bytes_per_s=bandwidth,
    )


_FORMATS: Final = {1: "nccl-xml", 2: "rccl-xml"}
_PLACES: Final = {
    "cpu": {"system"},
    "pci": {"cpu", "pci"},
    "gpu": {"pci"},
    "nic": {"cpu", "pci"},
    "net": {"nic"},
    "nvlink": {"gpu"},
    "xgmi": {"gpu"},
    "c2c": {"gpu"},
    "pcilink": {"pci"},
}
_FAMILY_MORE: Final = 0xF
_MOST_FAMILY: Final = 0xFFF
_MOST_DISPLAYED: Final = _FAMILY_MORE + 0xFF


_NEVER: Final = "NCCL's topology file does not have it"
_NEVER_GPUS: Final = Unknown("GPUs", "name, uuid, memory_bytes", _NEVER)
_NEVER_NICS: Final = Unknown("NICs", "state, link_layer", _NEVER)


def is_nccl_xml(document: XmlDocument) -> bool:
    """Whether a document is NCCL's: a topology, or one of its graphs, which is refused."""
    return document.root.tag in {"system", "graphs"}


def parse_nccl_xml(document: XmlDocument) -> NodeTopology:
    """The node of a topology file; of the hosts of an NVLink domain, the first.

    GPUs and NICs have the numbers that NCCL gave them (`dev`), or else those of their order in the
    file. Raises ParseError.
    """
    attributes = NcclAttributes(document)
    source = Source(format=_format(document, attributes))
    _check_places(document)
    cpus, unknown = _first_host(document)
    devices = _Devices(attributes, is_rccl=source.format == _FORMATS[2])
    for cpu in cpus:
        devices.read_cpu(cpu)
    devices.finish()
    links = _Links(devices, attributes)
    return NodeTopology(
        source=source,
        cpu=_cpu(cpus, attributes),
        numa_nodes=tuple(
            NumaNode(index=index, cpus=None if held is None else index_list(held))
            for index, held in sorted(devices.numa.items())
        ),
        gpus=links.gpus,
        gpu_links=links.gpu_links,
        cpu_links=links.cpu_links,
        nics=tuple(devices.nics),
        accelerators=tuple(devices.accelerators),
        pci=tuple(devices.pci.values()),
        unknown=(
            *unknown,
            *devices.unknown,
            *((_NEVER_GPUS,) if devices.gpus else ()),
            *((_NEVER_NICS,) if devices.nics else ()),
        ),
    )


def _format(document: XmlDocument, attributes: NcclAttributes) -> str:
    root = document.root
    if root.tag == "graphs":
        raise document.refuse(
            root,
            "NCCL's rings and trees (NCCL_GRAPH_DUMP_FILE), not the topology of a machine",
            "a topology file (NCCL_TOPO_DUMP_FILE), which starts with <system>",
        )
    version = attributes.integer(root, "version")
    if version not in _FORMATS:
        raise attributes.refuse(root, "version", "1 (NCCL) or 2 (RCCL)")
    return _FORMATS[version]


def _check_places(document: XmlDocument) -> None:
    for parent in document.root.walk():
        for child in parent.children:
            if parent.tag not in _PLACES.get(child.tag, {parent.tag}):
                raise document.refuse(
                    child,
                    f"<{child.tag}> inside <{parent.tag[:40]}>",
                    f"it inside {' or '.join(f'<{tag}>' for tag in sorted(_PLACES[child.tag]))}",
                )


def _first_host(document: XmlDocument) -> tuple[list[Element], list[Unknown]]:
    cpus = list(document.root.of("cpu"))
    if not cpus:
        raise document.refuse(document.root, "<system> has no <cpu>", "the NUMA nodes as <cpu>")
    hosts = list(dict.fromkeys(cpu.get("host_hash") for cpu in cpus))
    if len(hosts) == 1:
        return cpus, []
    others = [cpu for cpu in cpus if cpu.get("host_hash") != hosts[0]]
    gpus = sum(1 for cpu in others for element in cpu.walk() if element.tag == "gpu")
    left_out = Unknown(
        "hosts",
        f"{len(hosts) - 1} more, with {gpus} GPUs",
        "the file has the hosts of an NVLink domain; this is the first",
    )
    return [cpu for cpu in cpus if cpu.get("host_hash") == hosts[0]], [left_out]


def _cpu(cpus: list[Element], attributes: NcclAttributes) -> CpuTopology:
    def text(name: str) -> str | None:
        return next((cpu.attributes[name].strip() for cpu in cpus if cpu.get(name)), None)

    def number(name: str) -> int | None:
        told = (attributes.integer(cpu, name, least=-1, most=_MOST_FAMILY) for cpu in cpus)
        return next((value for value in told if value is not None and value >= 0), None)

    # NCCL puts the extended family four bits up (ncclTopoGetXmlFromCpu); CPUID's users add it to a
    # family of 15 (leaf 1). What is neither is not known.
    family = number("familyid")
    if family is not None and family >> 4 and family & 0xF == _FAMILY_MORE:
        family = _FAMILY_MORE + (family >> 4)
    return CpuTopology(
        arch=text("arch"),
        vendor=text("vendor"),
        family=None if family is None or family > _MOST_DISPLAYED else family,
        model_number=number("modelid"),
    )
