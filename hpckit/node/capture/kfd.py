"""/sys/class/kfd: AMD GPUs, their NUMA nodes and XGMI links, as the kernel's compute driver tells.

No root is needed and no library. Sources: Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c and
kfd_crat.c; the standard library only: a job reads it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal
from hpckit.core.file_tree import FileTree
from hpckit.core.late import regex
from hpckit.core.units import format_indices
from hpckit.core.values import dataclass
from hpckit.node.capture.xgmi import HOP_WEIGHT, XGMI_LINKS, PairReport, unknown_of_links, xgmi_link
from hpckit.node.path import LINK_BYTES_PER_S, PathKind
from hpckit.node.pci import PciAddress
from hpckit.node.pci_tree import AMD
from hpckit.node.topology import (
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

# Sources: Linux drivers/gpu/drm/amd/amdkfd/kfd_topology.c (node_show, mem_show, iolink_show) and
# kfd_crat.h (types and flags of links, types of heaps). The standard library only: a job reads it.
KFD_ROOT: Final = "sys/class/kfd/kfd/topology"

KFD_PATTERNS: Final = tuple(
    f"{KFD_ROOT}/nodes/*/{name}"
    for name in (
        "name",
        "properties",
        "mem_banks/*/properties",
        "io_links/*/properties",
        "p2p_links/*/properties",
    )
)
"""What a probe reads below its root, as glob patterns; `kfd` is a symbolic link to follow."""

_NAMES: Final = frozenset(pattern.rpartition("/")[2] for pattern in KFD_PATTERNS)


TYPE_HYPERTRANSPORT: Final = 1
_KINDS: Final[Mapping[int, LinkKind | PathKind]] = {2: PathKind.SYS, 11: LinkKind.XGMI}
"""Of links, by their type."""
FLAG_ENABLED: Final = 1 << 0
FLAG_NO_PEER_DMA: Final = 1 << 4
HEAPS_OF_GPU: Final = frozenset({1, 2})
HEAP_OF_SYSTEM: Final = 0

_NODE = regex(r"(?P<node>\d{1,5})/(?P<file>[^\0]{1,200})", re.ASCII)
_OF_NODE = regex(r"(?P<kind>mem_banks|io_links|p2p_links)/(?P<at>\d{1,5})/properties", re.ASCII)
_PROPERTY = regex(r"(?P<key>\w{1,60})[ \t]+(?P<value>\d{1,20})", re.ASCII)

# Releases of the driver write the partition there, or into the three bits of the function.
_PARTITION_SHIFT: Final = 28
_FUNCTION_BITS: Final = 0b111

Properties = Mapping[str, int]


@dataclass(slots=True)
class KfdNode:
    """A node of KFD: CPUs, a GPU or a partition of one, or both on an APU.

    Links are by the node that they lead to; direct ones (`io_links`) come first.
    """

    index: int
    properties: Properties = field(default_factory=dict)
    name: str | None = None
    banks: list[Properties] = field(default_factory=list)
    io_links: dict[int, Properties] = field(default_factory=dict)
    p2p_links: dict[int, Properties] = field(default_factory=dict)

    @property
    def is_cpu(self) -> bool:
        """Whether it holds CPUs."""
        return self.get("cpu_cores_count") > 0

    @property
    def is_gpu(self) -> bool:
        """Whether it holds a GPU."""
        return self.get("simd_count") > 0

    def get(self, name: str) -> int:
        """A property; 0, KFD's own word for nothing, if it is not there."""
        return self.properties.get(name, 0)

    @property
    def slot(self) -> tuple[int, int]:
        """Domain, and bus with device but without function: the same for partitions of one GPU."""
        return self.get("domain"), self.get("location_id") & 0xFFFF & ~_FUNCTION_BITS

    @property
    def partition(self) -> tuple[int, int]:
        """What tells partitions of a GPU apart: the driver has written it to one or the other."""
        location = self.get("location_id")
        return location >> _PARTITION_SHIFT, location & _FUNCTION_BITS

    @property
    def address(self) -> PciAddress:
        """The PCI address: bus, device and function in 16 bits, below a domain of 32."""
        domain, location = self.get("domain") & 0xFFFFFFFF, self.get("location_id")
        bus, device = location >> 8 & 0xFF, location >> 3 & 0x1F
        return PciAddress(f"{domain:04x}:{bus:02x}:{device:02x}.{location & _FUNCTION_BITS}")

    @property
    def gpu_memory_bytes(self) -> int | None:
        """The GPU's own memory."""
        return self.bytes_of(HEAPS_OF_GPU) or self.get("local_mem_size") or None

    def bytes_of(self, heaps: frozenset[int]) -> int | None:
        """The memory of these heaps; None if there is no bank of them."""
        sizes = [one.get("size_in_bytes", 0) for one in self.banks if one.get("heap_type") in heaps]
        return sum(sizes) or None


def kfd_nodes(tree: FileTree, root: str) -> list[KfdNode]:
    """The nodes below `root`/nodes in their order.

    A node whose `properties` are empty or absent was not to be read. Raises ParseError.
    """
    nodes: dict[int, KfdNode] = {}
    for path, index, name in _files(tree, root):
        node = nodes.setdefault(index, KfdNode(index))
        _take(node, name, path, tree.texts[path])
    if not any(node.properties for node in nodes.values()):
        raise _refusal(root or ".", 1, "", "no node has properties", "nodes/0/properties")
    return [nodes[index] for index in sorted(nodes)]


def _files(tree: FileTree, root: str) -> Iterator[tuple[str, int, str]]:
    folder = f"{root.strip('/')}/nodes/".lstrip("/")
    for path in sorted(path for path in tree.texts if path.startswith(folder)):
        match = _NODE.fullmatch(path, len(folder))
        if match:
            yield path, int(match["node"]), match["file"]


def _take(node: KfdNode, name: str, path: str, text: str) -> None:
    part = _OF_NODE.fullmatch(name)
    text = text.rstrip("\0")  # GNU tar fills a file of sysfs up to the size that stat gives
    if name == "properties":
        node.properties = _properties(path, text)
    elif name == "name":
        node.name = text.strip()[:100] or None
    elif part and part["kind"] == "mem_banks":
        node.banks.append(_properties(path, text))
    elif part:
        links = node.io_links if part["kind"] == "io_links" else node.p2p_links
        link = _properties(path, text)
        if link and not {"node_to", "type"} <= link.keys():
            line, expected = text.split("\n", 1)[0], "type and node_to"
            raise _refusal(path, 1, line, "a link without an end", expected)
        if link:
            links[link["node_to"]] = link


def _properties(path: str, text: str) -> Properties:
    found: dict[str, int] = {}
    for line_no, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped:
            continue
        match = _PROPERTY.fullmatch(stripped)
        if match is None:
            raise _refusal(path, line_no, line, "not a KFD property", "a name and a number")
        found[match["key"]] = int(match["value"])
    return found


def _refusal(path: str, line_no: int, line: str, message: str, expected: str) -> ParseError:
    return refusal(message, tool=path[-120:], line_no=line_no, line=line, expected=expected)


def is_kfd_file(path: str) -> bool:
    """Whether a file of an archive may be one of these; where it lies there is not known yet."""
    return path.rpartition("/")[2] in _NAMES


# Sources: Linux drivers/gpu/drm/amd/amdkfd/kfd_device.c (gfx_target_version), kfd_topology.c
# kfd_topology_add_device (location_id), pci.ids (products of vendor 1002).
_PRODUCTS: Final = {
    0x6860: "Instinct MI25",
    0x66A1: "Radeon Pro VII / Instinct MI50",
    0x738C: "Instinct MI100",
    0x738E: "Instinct MI100",
    0x7408: "Instinct MI250X",
    0x740C: "Instinct MI250X / MI250",
    0x740F: "Instinct MI210",
    0x74A0: "Instinct MI300A",
    0x74A1: "Instinct MI300X",
    0x74A2: "Instinct MI308X",
    0x74A5: "Instinct MI325X",
    0x74A9: "Instinct MI300X HF",
    0x74B5: "Instinct MI300X VF",
    0x74B9: "Instinct MI325X VF",
    0x74BD: "Instinct MI300X HF",
    0x75A0: "Instinct MI350X",
    0x75A3: "Instinct MI355X",
}
_MAJOR, _MINOR = 10_000, 100


def architecture(gfx_target_version: int) -> str | None:
    """`gfx90a` from 90010: major, minor and stepping in two decimal digits each; 0 is unknown."""
    if not 0 < gfx_target_version < _MAJOR * 100:
        return None
    major, rest = divmod(gfx_target_version, _MAJOR)
    minor, stepping = divmod(rest, _MINOR)
    return f"gfx{major}{minor:x}{stepping:x}"


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
    gpus = [node for node in nodes if node.is_gpu]
    gpus.sort(key=lambda node: node.slot)
    numa = {node.index: index for index, node in enumerate(cpus)}
    indices = {node.index: index for index, node in enumerate(gpus)}
    links = _gpu_links(gpus, indices)
    return NodeTopology(
        source=Source(format="/sys/class/kfd"),
        cpu=CpuTopology(vendor=_cpu_vendor(cpus)),
        numa_nodes=tuple(_numa_node(node, numa[node.index], cpus) for node in cpus),
        gpus=_with_partitions(gpus, [_gpu(node, indices[node.index], numa) for node in gpus]),
        gpu_links=links,
        cpu_links=tuple(link for node in gpus for link in _cpu_links(node, indices, numa)),
        unknown=(*_unknown(nodes, gpus), *unknown_of_links(links, because="KFD reports 0")),
    )


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
    # Else the driver's name for the chip, such as `vega20`; newer ones have none.
    codename = None if node.name == "ip discovery" else node.name
    sold_as = _PRODUCTS.get(node.get("device_id")) if node.get("vendor_id") == AMD else None
    return Gpu(
        index=index,
        name=sold_as or codename,
        vendor=GpuVendor.AMD,
        pci=node.address,
        uuid=GpuUuid(f"GPU-{unique_id:016x}") if unique_id else None,
        architecture=architecture(node.get("gfx_target_version")),
        memory_bytes=node.gpu_memory_bytes,
        numa_index=_nearest(node, numa),
    )


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
        groups[node.slot, node.get("unique_id") or None].append(at)
    found = list(gpus)
    for group in groups.values():
        codes = [nodes[at].partition for at in group]
        if len(group) < 2 or len(set(codes)) < len(codes):  # noqa: PLR2004  a pair
            continue
        pci = gpus[group[codes.index(min(codes))]].pci
        is_high = any(high for high, _ in codes)
        for at, (high, low) in zip(group, codes, strict=True):
            found[at] = replace(gpus[at], pci=pci, partition=str(high if is_high else low))
    return tuple(found)


def _report(link: Properties) -> PairReport:
    flags = link.get("flags")
    return PairReport(
        kind=_KINDS.get(link.get("type", 0)),
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
    links = [replace(link, a=min(link.a, link.b), b=max(link.a, link.b)) for link in links]
    links.sort(key=lambda link: (link.a, link.b))
    return tuple(_told_by_architecture(gpus, links))


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
        because = "not readable: the container or job does not have these GPUs"
        what = f"properties of KFD nodes {format_indices(hidden)}"
        found.append(Unknown("GPUs", what, because))
    if gpus and not any(node.get("gfx_target_version") for node in gpus):
        because = "the kernel is too old to report gfx_target_version"
        found.append(Unknown("GPUs", "architecture", because))
    if gpus and not any(node.gpu_memory_bytes for node in gpus):
        found.append(Unknown("GPUs", "memory_bytes", "the capture has no mem_banks"))
    because = "KFD reports the NUMA node of a GPU, not the PCIe bridges that it shares"
    found.append(Unknown("GPUs", "paths over PCIe", because))
    return found
