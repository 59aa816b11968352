"""/sys/class/kfd: AMD GPUs, their NUMA nodes and XGMI links, as the kernel's compute driver tells.

No root is needed and no library. Sources: Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c and
kfd_crat.c; the standard library only: a job reads it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from hpckit.model.file_tree import FileTree
from hpckit.model.hardware import (
    CpuLink,
    CpuTopology,
    Gpu,
    GpuLink,
    GpuUuid,
    GpuVendor,
    LinkKind,
    NodeTopology,
    NumaNode,
    Source,
    Unknown,
)
from hpckit.model.link_rates import LINK_BYTES_PER_S
from hpckit.parse.kfd_files import (
    FLAG_ENABLED,
    FLAG_NO_PEER_DMA,
    HEAP_OF_SYSTEM,
    HEAPS_OF_GPU,
    KFD_PATTERNS,
    KFD_ROOT,
    TYPE_HYPERTRANSPORT,
    TYPE_PCIE,
    TYPE_XGMI,
    KfdNode,
    Properties,
    kfd_nodes,
)
from hpckit.parse.kfd_ids import architecture, bus_address, partition_of, product, slot_of
from hpckit.parse.xgmi import (
    HOP_WEIGHT,
    XGMI_LINKS,
    PairReport,
    unknown_of_links,
    xgmi_link,
)
from hpckit.units import format_indices

__all__ = ["KFD_PATTERNS", "KFD_ROOT", "parse_kfd"]

FORMAT: Final = "/sys/class/kfd"
_LOCAL_DISTANCE: Final = 10


def parse_kfd(tree: FileTree, root: str = KFD_ROOT) -> NodeTopology:
    """The node from the files below `root`, the folder that holds `nodes/`.

    GPUs are in the order of their PCI addresses, partitions of one GPU in that of KFD. A NUMA node
    is a CPU node of KFD, counted from 0: kfd_crat.c makes one for each that has CPUs, so Linux's
    numbers differ where one without lies between. A GPU whose firmware names no NUMA node is with
    the first: KFD does not tell this apart. `paths` is None: what KFD knows of them is in
    `gpu_links` and `numa_index`. Raises ParseError.
    """
    nodes = kfd_nodes(tree, root)
    cpus = [node for node in nodes if node.is_cpu]
    gpus = sorted((node for node in nodes if node.is_gpu), key=_place)
    numa = {node.index: index for index, node in enumerate(cpus)}
    indices = {node.index: index for index, node in enumerate(gpus)}
    links = _gpu_links(gpus, indices)
    return NodeTopology(
        source=Source(format=FORMAT),
        cpu=CpuTopology(vendor=_cpu_vendor(cpus)),
        numa_nodes=tuple(_numa_node(node, numa[node.index], cpus) for node in cpus),
        gpus=_with_partitions(gpus, [_gpu(node, indices[node.index], numa) for node in gpus]),
        gpu_links=links,
        cpu_links=tuple(link for node in gpus for link in _cpu_links(node, indices, numa)),
        unknown=(*_unknown(nodes, gpus), *unknown_of_links(links, because="KFD gives 0 for it")),
    )


def _place(node: KfdNode) -> tuple[tuple[int, int], int]:
    return slot_of(node.get("domain"), node.get("location_id")), node.index


def _cpu_vendor(cpus: Sequence[KfdNode]) -> str | None:
    """AMD where CPUs are joined by HyperTransport, the kernel's word for any link of AMD's.

    For all others the kernel says QPI, whoever made them.
    """
    kinds = {link.get("type") for node in cpus for link in node.io_links.values()}
    return "AuthenticAMD" if TYPE_HYPERTRANSPORT in kinds else None


def _numa_node(node: KfdNode, index: int, cpus: Sequence[KfdNode]) -> NumaNode:
    """A CPU node; the weight of a link to another is the firmware's distance (node_distance)."""
    weights = [
        _LOCAL_DISTANCE
        if other is node
        else node.io_links.get(other.index, node.p2p_links.get(other.index, {})).get("weight", 0)
        for other in cpus
    ]
    return NumaNode(
        index=index,
        memory_bytes=node.bytes_of(frozenset({HEAP_OF_SYSTEM})),
        distances=tuple(weights) if all(weights) else None,
    )


def _gpu(node: KfdNode, index: int, numa: Mapping[int, int]) -> Gpu:
    unique_id = node.get("unique_id")
    gfx = architecture(node.get("gfx_target_version"))
    return Gpu(
        index=index,
        name=product(node.get("vendor_id"), node.get("device_id")) or _codename(node),
        vendor=GpuVendor.AMD,
        pci=bus_address(node.get("domain"), node.get("location_id")),
        uuid=GpuUuid(f"GPU-{unique_id:016x}") if unique_id else None,
        architecture=gfx,
        memory_bytes=node.bytes_of(HEAPS_OF_GPU) or node.get("local_mem_size") or None,
        numa_index=_nearest(node, numa),
    )


def _codename(node: KfdNode) -> str | None:
    """The driver's name for the chip, such as `vega20`; newer ones have none."""
    return node.name if node.name != "ip discovery" else None


def _nearest(node: KfdNode, numa: Mapping[int, int]) -> int | None:
    """The NUMA node of the CPUs that a GPU has the lightest link to; its own on an APU."""
    if node.index in numa:
        return numa[node.index]
    weights = {
        peer: link.get("weight", 0)
        for links in (node.p2p_links, node.io_links)
        for peer, link in links.items()
        if peer in numa
    }
    return numa[min(weights, key=lambda peer: (weights[peer], peer))] if weights else None


def _with_partitions(nodes: Sequence[KfdNode], gpus: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """GPUs with the partition, where several nodes of KFD are one PCI device.

    Some releases of the driver add the partition to the PCI function; the first is the device's.
    """
    groups: dict[object, list[int]] = defaultdict(list)
    for at, node in enumerate(nodes):
        slot = slot_of(node.get("domain"), node.get("location_id"))
        groups[slot, node.get("unique_id") or None].append(at)
    found = list(gpus)
    for group in groups.values():
        codes = [partition_of(nodes[at].get("location_id")) for at in group]
        if len(group) < 2 or len(set(codes)) < len(codes):  # noqa: PLR2004  a pair
            continue
        pci = gpus[group[codes.index(min(codes))]].pci
        is_high = any(high for high, _ in codes)
        for at, (high, low) in zip(group, codes, strict=True):
            found[at] = replace(gpus[at], pci=pci, partition=str(high if is_high else low))
    return tuple(found)


def _report(link: Properties) -> PairReport:
    flags = link.get("flags")
    is_xgmi = link.get("type") == TYPE_XGMI
    return PairReport(
        kind=LinkKind.XGMI if is_xgmi else None,
        is_pcie=link.get("type") == TYPE_PCIE,
        weight=link.get("weight"),
        min_mbytes_per_s=link.get("min_bandwidth"),
        max_mbytes_per_s=link.get("max_bandwidth"),
        is_p2p=None if flags is None else flags & (FLAG_ENABLED | FLAG_NO_PEER_DMA) == FLAG_ENABLED,
    )


def _gpu_links(gpus: Sequence[KfdNode], indices: Mapping[int, int]) -> tuple[GpuLink, ...]:
    reports = {
        (indices[node.index], indices[peer]): _report(link)
        for node in gpus
        for links in (node.p2p_links, node.io_links)
        for peer, link in links.items()
        if peer in indices and peer != node.index
    }
    links = [
        xgmi_link(a, b, one, reports.get((b, a), one))
        for (a, b), one in sorted(reports.items())
        if one.kind is LinkKind.XGMI and (a < b or (b, a) not in reports)
    ]
    return tuple(_told_by_architecture(gpus, _ordered(links)))


def _ordered(links: Sequence[GpuLink]) -> list[GpuLink]:
    return sorted(
        (replace(link, a=min(link.a, link.b), b=max(link.a, link.b)) for link in links),
        key=lambda link: (link.a, link.b),
    )


def _told_by_architecture(gpus: Sequence[KfdNode], links: Sequence[GpuLink]) -> list[GpuLink]:
    """Links with one to a peer where KFD gives no bandwidth, and a GPU has no more than its peers.

    Older kernels give none at all. An MI100 has three links and three peers, an MI300X seven.
    """
    peers: dict[int, int] = defaultdict(int)
    for link in links:
        if link.weight == HOP_WEIGHT:
            peers[link.a] += 1
            peers[link.b] += 1
    found = []
    for link in links:
        gfx = architecture(gpus[link.a].get("gfx_target_version")) or ""
        is_single = peers[link.a] == peers[link.b] == XGMI_LINKS.get(gfx)
        if link.bandwidth_bytes_per_s is None and link.weight == HOP_WEIGHT and is_single:
            each = LINK_BYTES_PER_S[gfx]
            found.append(replace(link, count=1, bandwidth_bytes_per_s=each))
        else:
            found.append(link)
    return found


def _cpu_links(
    node: KfdNode, indices: Mapping[int, int], numa: Mapping[int, int]
) -> tuple[CpuLink, ...]:
    reports = {peer: _report(link) for peer, link in node.io_links.items() if peer in numa}
    return tuple(
        CpuLink(
            gpu_index=indices[node.index],
            kind=LinkKind.XGMI,
            numa_index=numa[peer],
            count=one.count,
            bandwidth_bytes_per_s=one.bandwidth_bytes_per_s,
        )
        for peer, one in sorted(reports.items())
        if one.kind is LinkKind.XGMI
    )


def _unknown(nodes: Sequence[KfdNode], gpus: Sequence[KfdNode]) -> list[Unknown]:
    known = {node.index for node in nodes if node.properties}
    named = {peer for node in nodes for peer in (*node.io_links, *node.p2p_links)}
    hidden = (named | {node.index for node in nodes}) - known
    found = []
    if hidden:
        because = "they cannot be read: the container or job was not given these GPUs"
        what = f"properties of KFD's nodes {format_indices(hidden)}"
        found.append(Unknown(subject="GPUs", what=what, because=because))
    if gpus and not any(node.get("gfx_target_version") for node in gpus):
        because = "the kernel is too old to give gfx_target_version"
        found.append(Unknown(subject="GPUs", what="architecture", because=because))
    if gpus and not any(_gpu_memory(node) for node in gpus):
        because = "no mem_banks were captured"
        found.append(Unknown(subject="GPUs", what="memory_bytes", because=because))
    because = "KFD tells which NUMA node a GPU is with, not which PCIe bridges it shares"
    found.append(Unknown(subject="GPUs", what="paths over PCIe", because=because))
    return found


def _gpu_memory(node: KfdNode) -> int | None:
    return node.bytes_of(HEAPS_OF_GPU) or node.get("local_mem_size") or None
