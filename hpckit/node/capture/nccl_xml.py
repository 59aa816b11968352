"""NCCL's and RCCL's topology files: dumps (NCCL_TOPO_DUMP_FILE) and vendors' presets.

Source: NCCL 2.30, src/graph/xml.cc and topo.cc; RCCL, the same files. Version 1 is NCCL's, version
2 RCCL's, which has <xgmi> for <nvlink>. A preset holds PCI devices alone: what they are follows
from their class. Attributes that NCCL keeps for itself (rank, maxconn, latency, coll, keep, rail,
plane) are not taken over; elements that it does not know, it and hpckit pass by.
"""

from __future__ import annotations

from typing import Final

from hpckit.core.foreign_text import Element, XmlDocument
from hpckit.core.index_list import MOST_INDICES, index_list
from hpckit.node.capture.nccl_xml_devices import read_devices, read_links
from hpckit.node.capture.nccl_xml_values import NcclAttributes
from hpckit.node.topology import CpuTopology, NodeTopology, NumaNode, Source, Unknown

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


_NEVER: Final = "NCCL's topology file does not hold it"
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
    devices = read_devices(cpus, attributes, is_rccl=source.format == _FORMATS[2])
    links = read_links(devices, attributes)
    return NodeTopology(
        source=source,
        cpu=_cpu(cpus, attributes),
        numa_nodes=_numa_nodes(cpus, attributes),
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
            "these are the rings and trees that NCCL chose (NCCL_GRAPH_DUMP_FILE), and no machine",
            "a topology file (NCCL_TOPO_DUMP_FILE), which starts with <system>",
        )
    if root.tag != "system":
        raise document.refuse(root, f"the root is <{root.tag[:40]}>", "<system>")
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
                    f"<{child.tag}> in <{parent.tag[:40]}>",
                    f"it in {' or '.join(f'<{tag}>' for tag in sorted(_PLACES[child.tag]))}",
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
        "the file holds the hosts of an NVLink domain, and this is the first of them",
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


def _numa_nodes(cpus: list[Element], attributes: NcclAttributes) -> tuple[NumaNode, ...]:
    found: dict[int, set[int] | None] = {}
    for cpu in cpus:
        index = attributes.integer(cpu, "numaid", least=-1, most=MOST_INDICES - 1)
        if index is None or index < 0:
            continue
        indices = attributes.indices(cpu, "affinity")
        before = found.get(index)
        found[index] = before if indices is None else {*(before or ()), *indices}
    return tuple(
        NumaNode(index=index, cpus=None if cpus is None else index_list(cpus))
        for index, cpus in sorted(found.items())
    )
