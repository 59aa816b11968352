"""A node as NCCL loads it: NCCL_TOPO_FILE.

Source: NCCL 2.30, src/graph/xml.cc and topo.cc; RCCL, the same files. What a topology does not
know is left out, never made up: NCCL looks on the machine for every attribute that is not there
(ncclTopoGetXmlFromSys, ncclTopoGetXmlFromGpu, ncclTopoPopulateNics), and that is how `latency` and
`maxconn` of a <net> come, which only the network plugin knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.errors import PlanError
from hpckit.model.hardware import Gpu, GpuVendor, LinkKind, Nic, NodeTopology, Source
from hpckit.model.index_list import expand_indices, greatest_index
from hpckit.model.nic_kind import NicKind
from hpckit.model.pci import PciAddress, PciDevice
from hpckit.render.nccl_xml_devices import NcclLinks, gpu_element, net_element
from hpckit.render.nccl_xml_text import MOST_CHARACTERS, MOST_ELEMENTS, XmlElement, xml_text
from hpckit.render.nccl_xml_tree import NcclTree

_HINT: Final = (
    "inspect the machine itself, or a file that holds its PCI tree: hwloc XML, an archive of"
    " sysfs, or NCCL's own dump"
)
_READ_BY_NCCL: Final = {
    "NUMA nodes": {"numa_index", "numa_nodes"},
    "PCIe bridges": {"parent", "pci"},
    "PCIe links": {"link", "link.width"},
    "links between GPUs": {"nvlinks", "gpu_links", "count"},
}
_ARCHITECTURES: Final = {"aarch64": "arm64", "ppc64le": "ppc64"}
_X86_FAMILY: Final = 0xF
_BITS: Final = 32
_GPU_CLASS: Final = "0x03"
_NIC_CLASS: Final = "0x02"
"""What NCCL writes for a class that it cannot read (ncclTopoFillGpu, ncclTopoFillNet)."""
_MOST_NAMED: Final = 3


def nccl_xml(topology: NodeTopology) -> str:
    """The text of the file, version 1 for NCCL and 2 for RCCL.

    It holds the GPUs that the driver shows, the NICs that are more than plain Ethernet, and the
    switches above them. Raises PlanError where the topology has no GPUs, or no place in the PCI
    tree for one, and where NCCL would not read so many elements; RenderError for a name that
    NCCL cannot read.
    """
    gpus = [gpu for gpu in topology.gpus if not gpu.is_hidden]
    tree = NcclTree(topology)
    _check(gpus, tree, topology.source)
    is_rccl = any(gpu.vendor is GpuVendor.AMD for gpu in gpus) or any(
        link.kind is LinkKind.XGMI for link in topology.gpu_links
    )
    root = _document(topology, gpus, tree, NcclLinks(topology, is_rccl=is_rccl))
    if _count(root) > MOST_ELEMENTS:
        merged = NcclLinks(topology, is_rccl=is_rccl, is_merged=True)
        root = _document(topology, gpus, tree, merged)
    if _count(root) > MOST_ELEMENTS:
        raise PlanError(
            "NCCL reads no topology file of this size",
            have=f"{_count(root)} elements",
            need=f"at most {MOST_ELEMENTS} (NCCL_TOPO_XML_MAX_NODES)",
        )
    return xml_text(root)


def nccl_lacks(topology: NodeTopology) -> tuple[str, ...]:
    """What NCCL reads from such a file and the topology does not know of what is in it."""
    left_out = {"paths", *(nic.name for nic in topology.nics if nic.kind is NicKind.ETHERNET)}
    told = {one.what for one in topology.unknown if one.subject not in left_out}
    return tuple(words for words, whats in _READ_BY_NCCL.items() if told & whats)


def _count(root: XmlElement) -> int:
    return sum(1 for _ in root.walk())


def _check(gpus: Sequence[Gpu], tree: NcclTree, source: Source) -> None:
    if not gpus:
        have, hint = ("none on this machine", None) if source.is_live else ("none", _HINT)
        raise PlanError("NCCL's topology file is about GPUs", have=have, need="one", hint=hint)
    lost = [f"GPU{gpu.index}" for gpu in gpus if tree.device(gpu.pci) is None]
    if lost:
        more = len(lost) - _MOST_NAMED
        some = ", ".join(lost[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
        raise PlanError(
            "NCCL's topology file needs the place of every GPU in the PCI tree",
            have=f"no such place for {some} (source: {source.format})",
            need="the PCI address of each, and the bridges above it",
            hint=_HINT,
        )


def _document(
    topology: NodeTopology, gpus: Sequence[Gpu], tree: NcclTree, links: NcclLinks
) -> XmlElement:
    root = XmlElement("system", {"version": 2 if links.is_rccl else 1})
    cpus: dict[int | None, XmlElement] = {}
    pcis: dict[PciAddress, XmlElement] = {}

    def cpu(index: int | None) -> XmlElement:
        if index not in cpus:
            cpus[index] = _cpu_element(topology, index)
            root.children.append(cpus[index])
        return cpus[index]

    nics = [nic for nic in topology.nics if nic.kind is not NicKind.ETHERNET]
    ends = [tree.device(gpu.pci) for gpu in gpus] + [tree.place(nic) for nic in nics]
    kept = tree.kept([end for end in ends if end is not None])
    classes = dict.fromkeys((nic.pci for nic in nics), _NIC_CLASS)
    classes |= dict.fromkeys((gpu.pci for gpu in gpus), _GPU_CLASS)
    for device in kept:
        pcis[device.address] = _pci_element(device, tree, classes.get(device.address))
    for device in kept:
        above = tree.parent(device)
        parent = cpu(tree.numa_index(device)) if above is None else pcis[above.address]
        parent.children.append(pcis[device.address])
    for gpu in gpus:
        if gpu.pci is not None:
            below = pcis[gpu.pci].children
            element = gpu_element(gpu, links, is_leaf=not below)
            below += [] if element is None else [element]
    for nic in nics:
        place = tree.place(nic)
        if place is not None:
            _add_nic(pcis[place.address], nic, nics, place)
        elif nic.pci is None and nic.numa_index in cpus:
            _add_nic(cpus[nic.numa_index], nic, nics, None)
    return root


def _add_nic(parent: XmlElement, nic: Nic, nics: Sequence[Nic], place: PciDevice | None) -> None:
    """Adds <net> to the one <nic> of its parent; a preset's NIC is a PCI device alone."""
    if nic.name == nic.pci:
        return
    holder = next((child for child in parent.children if child.tag == "nic"), None)
    if holder is None:
        holder = XmlElement("nic", {})
        parent.children.append(holder)
    before = 0
    if place is not None and nic.pci != place.address:
        before = sum(1 for child in holder.children if child.tag == "net")
    holder.children.append(net_element(nic, before))


def _cpu_element(topology: NodeTopology, index: int | None) -> XmlElement:
    cpu = topology.cpu
    return XmlElement(
        "cpu",
        {
            "numaid": -1 if index is None else index,
            "affinity": _mask(topology, index),
            "arch": None if cpu.arch is None else _ARCHITECTURES.get(cpu.arch, cpu.arch),
            "vendor": cpu.vendor,
            "familyid": None if cpu.family is None else _nccl_family(cpu.family),
            "modelid": cpu.model_number,
        },
    )


def _nccl_family(family: int) -> int:
    """NCCL puts CPUID's extended family four bits up instead of adding it (family 25 is 175)."""
    extended = family - _X86_FAMILY
    return _X86_FAMILY + (extended << 4) if extended > 0 else family


def _mask(topology: NodeTopology, index: int | None) -> str | None:
    """The CPUs of a NUMA node as Linux's cpumap, as wide as the node has CPUs.

    None where it would be longer than NCCL reads: over 896 CPUs.
    """
    cpus = next((node.cpus for node in topology.numa_nodes if node.index == index), None)
    if cpus is None:
        return None
    last = max(greatest_index(node.cpus or "") or 0 for node in topology.numa_nodes)
    words = last // _BITS + 1
    if words * len("00000000,") - 1 > MOST_CHARACTERS:
        return None
    bits = sum(1 << at for at in expand_indices(cpus))
    parts = (bits >> _BITS * at & 0xFFFFFFFF for at in reversed(range(words)))
    return ",".join(f"{part:08x}" for part in parts)


def _pci_element(device: PciDevice, tree: NcclTree, general: str | None) -> XmlElement:
    """The <pci> of a device; `general` is the class to write where its own is not known."""
    code, speed = device.class_code, tree.speed_gt_per_s(device)
    return XmlElement(
        "pci",
        {
            "busid": device.address,
            "class": general if code is None else f"0x{code:04x}00",
            "vendor": _hexadecimal(device.vendor_id),
            "device": _hexadecimal(device.device_id),
            "subsystem_vendor": _hexadecimal(device.subsystem_vendor_id),
            "subsystem_device": _hexadecimal(device.subsystem_device_id),
            "link_speed": None if speed is None else f"{speed:.1f} GT/s PCIe",
            "link_width": tree.width(device),
        },
    )


def _hexadecimal(value: int | None) -> str | None:
    return None if value is None else f"0x{value:04x}"
