"""hwloc's XML (`lstopo --of xml`) as a topology: schemas 1.x, 2.x and 3.x.

Sources: hwloc, hwloc2.dtd, topology-xml.c; the documentation of 1.11 and 2.x, "Importing and
exporting topologies from/to XML files".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from hpckit.core.foreign_text import XmlDocument
from hpckit.node.capture.hwloc_devices import FoundGpu, accelerators, links
from hpckit.node.capture.hwloc_devices import gpus as found_gpus
from hpckit.node.capture.hwloc_nics import lacks_bridge, nics, pci_devices
from hpckit.node.capture.hwloc_numa import Places, numa_nodes
from hpckit.node.capture.hwloc_objects import (
    HwlocTree,
    Kind,
    cpu_topology,
    host,
    package_of_nodes,
    said_of_machine,
)
from hpckit.node.topology import Gpu, GpuVendor, LinkKind, Nic, NodeTopology, Source, Unknown

_SEVERAL = "hwloc puts it next to several NUMA nodes, or next to the whole machine"


def _unknowns(
    tree: HwlocTree, topology: NodeTopology, found: tuple[FoundGpu, ...]
) -> Iterator[Unknown]:
    yield from _of_nodes(topology)
    yield from _of_gpus(topology, found)
    yield from _of_links(tree, topology)
    yield from _of_nics(topology)
    yield from _of_pci(tree, topology)
    if not (topology.pci or topology.gpus or topology.nics or topology.accelerators):
        because = "the file has no I/O devices: lstopo writes all of them with --whole-io"
        yield Unknown("node", "PCI devices", because)


def _lacking(
    parts: Sequence[Gpu] | Sequence[Nic], together: str, what: str, because: str
) -> Iterator[Unknown]:
    """One for each that lacks a field; one for all of them `together` if all do."""
    names = [f"GPU{part.index}" if isinstance(part, Gpu) else part.name for part in parts]
    fields = zip(names, parts, strict=True)
    lack = [name for name, part in fields if getattr(part, what) is None]
    for subject in [together] if lack and len(lack) == len(parts) else lack:
        yield Unknown(subject, what, because)


def _of_nodes(topology: NodeTopology) -> Iterator[Unknown]:
    nodes = topology.numa_nodes
    if not nodes:
        yield Unknown("NUMA nodes", "index", "the file has no NUMA nodes")
        return
    if all(node.kind is None for node in nodes):
        yield Unknown("NUMA nodes", "kind", "the file has no subtype for its NUMA nodes")
    if len(nodes) > 1 and any(node.distances is None for node in nodes):
        because = "the file has no latencies between all of its NUMA nodes"
        yield Unknown("NUMA nodes", "distances", because)


def _of_gpus(topology: NodeTopology, found: tuple[FoundGpu, ...]) -> Iterator[Unknown]:
    if not found:
        return
    if not any(one.is_numbered for one in found):
        because = "the file has no NVML, CUDA, ROCm SMI or Level Zero device: numbered by bus ID"
        yield Unknown("GPUs", "index", because)
    yield Unknown("GPUs", "architecture", "hwloc does not record it")
    gpus = topology.gpus
    yield from _lacking(gpus, "GPUs", "name", "no name from a driver or from pci.ids in the file")
    because = "the file has no NVML, ROCm SMI or Level Zero device with it"
    yield from _lacking(gpus, "GPUs", "uuid", because)
    yield from _lacking(gpus, "GPUs", "numa_index", _SEVERAL)


def _of_links(tree: HwlocTree, topology: NodeTopology) -> Iterator[Unknown]:
    kinds = {link.kind for link in topology.gpu_links}
    for vendor, kind, of in (
        (GpuVendor.NVIDIA, LinkKind.NVLINK, "NVLinkBandwidth: no NVLinks, or no NVML"),
        (GpuVendor.AMD, LinkKind.XGMI, "XGMIBandwidth: no XGMI, or no ROCm SMI"),
    ):
        if kind not in kinds and sum(gpu.vendor is vendor for gpu in topology.gpus) > 1:
            why = "schema 1.x has no GPU links" if tree.major == 1 else f"the file has no {of}"
            yield Unknown("GPUs", "gpu_links", why)
    if any(link.bandwidth_bytes_per_s is None for link in topology.gpu_links):
        because = "hwloc writes the same figure for every XGMI pair: assumed, not measured"
        yield Unknown("GPUs", "gpu_links.bandwidth_bytes_per_s", because)


def _of_nics(topology: NodeTopology) -> Iterator[Unknown]:
    if not topology.nics:
        return
    yield Unknown("NICs", "rate_bytes_per_s", "hwloc records no rates of network devices")
    if topology.numa_nodes:
        yield from _lacking(topology.nics, "NICs", "numa_index", _SEVERAL)
    because = "it has no LID, and no PCI class of InfiniBand"
    yield from _lacking(topology.nics, "NICs", "kind", because)


def _of_pci(tree: HwlocTree, topology: NodeTopology) -> Iterator[Unknown]:
    if any(one.link for one in topology.pci):
        because = "hwloc records GB/s only, which fits several speeds and widths"
        yield Unknown("PCI devices", "link.width", because)
    lost = sum(map(lacks_bridge, tree.of(Kind.PCI)))
    if lost:
        because = f"the file leaves out bridges above {lost} of {len(topology.pci)} devices"
        yield Unknown("PCI devices", "parent", because)


def is_hwloc_xml(document: XmlDocument) -> bool:
    """Whether the root is hwloc's."""
    return document.root.tag == "topology"


def parse_hwloc_xml(document: XmlDocument) -> NodeTopology:
    """The node that the file describes; `paths` are not in it. Raises ParseError.

    What hwloc leaves out when it is not asked for it (bridges, CPUs that were forbidden to the
    process that wrote the file) is not in the topology either.
    """
    tree = HwlocTree(document)
    nodes = numa_nodes(tree)
    places = Places(tree, nodes)
    cpu = cpu_topology(tree)
    packages = package_of_nodes(tree, nodes, cpu.packages)
    pci = pci_devices(tree, places)
    found = found_gpus(tree, places, pci)
    between, to_cpus = links(tree, places, found, pci)
    is_synthetic = said_of_machine(tree, "Backend") == "Synthetic"
    topology = NodeTopology(
        source=Source(format="hwloc XML", is_synthetic=is_synthetic),
        host=host(tree),
        cpu=cpu,
        numa_nodes=tuple(replace(one, package_index=packages.get(one.index)) for one in nodes),
        gpus=tuple(one.gpu for one in found),
        gpu_links=between,
        cpu_links=to_cpus,
        nics=nics(tree, places, pci),
        accelerators=accelerators(tree, places, pci),
        pci=pci,
    )
    return replace(topology, unknown=tuple(_unknowns(tree, topology, found)))
