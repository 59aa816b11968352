"""Parts of machines that nobody has: switches, cards, links, and the paths that they mean."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from hpckit.core.index_list import IndexList
from hpckit.node.path import PathTable
from hpckit.node.pci import PciAddress, PciDevice, PcieLink
from hpckit.node.places import Branch, Place, places
from hpckit.node.topology import (
    CpuPackage,
    CpuTopology,
    Gpu,
    GpuLink,
    GpuUuid,
    GpuVendor,
    LinkKind,
    Nic,
    NicPort,
    NicRole,
    NodeTopology,
    NumaKind,
    NumaNode,
    NvLink,
    NvLinkRemote,
    Source,
)
from hpckit.spec.nic_kind import NicKind

GIB = 1024**3
GBIT_PER_S = 1e9 / 8
GB_PER_S = 1e9
SYNTHETIC = Source(format="fake", is_synthetic=True)

GEN3 = 8.0
GEN4 = 16.0
GEN5 = 32.0


def lanes(gt_per_s: float, width: int, max_width: int | None = None) -> PcieLink:
    """A link at its highest rate, and with all its lanes unless `max_width` has more."""
    return PcieLink(
        speed_gt_per_s=gt_per_s,
        width=width,
        max_speed_gt_per_s=gt_per_s,
        max_width=max_width or width,
    )


def bridge(address: str, parent: str | None, link: PcieLink, numa: int | None) -> PciDevice:
    """A port of a switch, or a root port."""
    return PciDevice(
        address=PciAddress(address),
        parent=None if parent is None else PciAddress(parent),
        class_code=0x0604,
        numa_index=numa,
        link=link,
        effective=link,
    )


def end_point(
    address: str, parent: str | None, class_code: int, link: PcieLink, numa: int | None
) -> PciDevice:
    """A device at the end of a branch."""
    return replace(bridge(address, parent, link, numa), class_code=class_code)


def two_sockets(model: str, vendor: str, cores: int, memory_gib: int) -> NodeTopology:
    """A node of two packages with a NUMA node and two hardware threads a core each."""
    cpus = [f"{at * cores}-{at * cores + cores - 1}" for at in range(2)]
    cpus = [
        f"{one},{(2 + at) * cores}-{(2 + at) * cores + cores - 1}" for at, one in enumerate(cpus)
    ]
    packages = tuple(
        CpuPackage(index=at, cpus=IndexList(cpus[at]), model=model, cores=cores) for at in range(2)
    )
    nodes = tuple(
        NumaNode(
            index=at,
            cpus=IndexList(cpus[at]),
            memory_bytes=memory_gib * GIB,
            package_index=at,
            kind=NumaKind.DRAM,
            distances=(10, 21) if at == 0 else (21, 10),
        )
        for at in range(2)
    )
    every = IndexList(f"0-{4 * cores - 1}")
    cpu = CpuTopology(
        arch="x86_64",
        vendor=vendor,
        model=model,
        packages=packages,
        cores=2 * cores,
        cpus=every,
        allowed=every,
    )
    return NodeTopology(source=SYNTHETIC, cpu=cpu, numa_nodes=nodes)


def nvlinks(count: int, *, down: Sequence[int] = ()) -> tuple[NvLink, ...]:
    """Links of a GPU to an NVSwitch."""
    return tuple(
        NvLink(index=at, is_active=at not in down, remote=NvLinkRemote.SWITCH)
        for at in range(count)
    )


def all_to_all(
    gpus: int, count: int | None, kind: LinkKind, each: float, *, is_switched: bool
) -> tuple[GpuLink, ...]:
    """Equal links between all pairs; `each` is bytes a second of one pair in one direction."""
    return tuple(
        GpuLink(
            a=a,
            b=b,
            kind=kind,
            count=count,
            bandwidth_bytes_per_s=each,
            is_switched=is_switched,
            is_p2p=True,
        )
        for a in range(gpus)
        for b in range(a + 1, gpus)
    )


def with_dead_link(topology: NodeTopology, gpu: int) -> NodeTopology:
    """The same node, one NVLink of one GPU inactive."""

    def dead(one: Gpu) -> Gpu:
        links = one.nvlinks or ()
        at = len(links) - 7
        return replace(
            one, nvlinks=tuple(replace(link, is_active=link.index != at) for link in links)
        )

    return replace(
        topology,
        gpus=tuple(dead(one) if one.index == gpu else one for one in topology.gpus),
        gpu_links=tuple(
            replace(link, count=(link.count or 1) - 1) if gpu in (link.a, link.b) else link
            for link in topology.gpu_links
        ),
    )


def with_nic_down(topology: NodeTopology, name: str) -> NodeTopology:
    """The same node, the ports of one NIC down."""

    def down(nic: Nic) -> Nic:
        ports = tuple(replace(port, state="DOWN") for port in nic.ports)
        return replace(nic, state="DOWN", rate_bytes_per_s=None, ports=ports)

    nics = tuple(down(nic) if nic.name == name else nic for nic in topology.nics)
    return replace(topology, nics=nics)


def paths_by_hand(topology: NodeTopology) -> NodeTopology:
    """The same node with the paths that its tree means: enough for machines as regular as these."""
    devices: tuple[Gpu | Nic, ...] = (*topology.gpus, *topology.nics)
    where = _where(places(topology))
    names = [f"GPU{gpu.index}" for gpu in topology.gpus] + [nic.name for nic in topology.nics]
    links = {frozenset((link.a, link.b)): link for link in topology.gpu_links}

    def cell(a: Gpu | Nic, b: Gpu | Nic) -> str:
        if a is b:
            return "X"
        if isinstance(a, Gpu) and isinstance(b, Gpu):
            link = links.get(frozenset((a.index, b.index)))
            if link is not None:
                return "XGMI" if link.kind is LinkKind.XGMI else f"NV{link.count}"
        one, other = where[a], where[b]
        if one[0] != other[0]:
            return "SYS"
        common = sum(x == y for x, y in zip(one[1:], other[1:], strict=False))
        if not common:
            return "NODE"
        return "PIX" if common == len(one) - 1 == len(other) - 1 else "PXB"

    cells = tuple(tuple(cell(a, b) for b in devices) for a in devices)
    return replace(topology, paths=PathTable(devices=tuple(names), cells=cells))


def _where(found: Sequence[Place]) -> dict[object, tuple[object, ...]]:
    where: dict[object, tuple[object, ...]] = {}
    for place in found:
        waiting: list[tuple[tuple[object, ...], Branch]] = [((place.numa_index,), place.root)]
        while waiting:
            at, branch = waiting.pop()
            where |= dict.fromkeys(branch.ends, at)
            for below in branch.branches:
                address = None if below.bridge is None else below.bridge.address
                waiting.append(((*at, address), below))
    return where


def switches(count: int, classes: Sequence[int], link: PcieLink) -> list[PciDevice]:
    """Switches below root ports of two sockets, with a card of each class on each switch."""
    devices = []
    for at in range(count):
        bus, numa = 0x10 + 0x10 * at, 2 * at // count
        root, up = f"0000:{bus:02x}:01.0", f"0000:{bus + 1:02x}:00.0"
        devices += [bridge(root, None, link, numa), bridge(up, root, link, numa)]
        for slot, class_code in enumerate(classes):
            port = f"0000:{bus + 2:02x}:{slot:02x}.0"
            card = f"0000:{bus + 3 + slot:02x}:00.0"
            devices.append(bridge(port, up, link, numa))
            devices.append(end_point(card, port, class_code, link, numa))
    return devices


def nic(index: int, name: str, pci: PciAddress | None, gbit: int, kind: NicKind) -> Nic:
    """A NIC of one active port."""
    layer = "InfiniBand" if kind is NicKind.INFINIBAND else "Ethernet"
    rate = gbit * GBIT_PER_S
    return Nic(
        index=index,
        name=name,
        kind=kind,
        pci=pci,
        state="ACTIVE",
        rate_bytes_per_s=rate,
        link_layer=layer,
        role=NicRole.COMPUTE,
        is_gdr=True,
        ports=(NicPort(index=1, state="ACTIVE", rate_bytes_per_s=rate, link_layer=layer),),
    )


def gpu(index: int, name: str, pci: PciAddress | None, numa: int | None, gib: int) -> Gpu:
    """A GPU of which the driver tells the usual."""
    return Gpu(
        index=index,
        name=name,
        pci=pci,
        numa_index=numa,
        memory_bytes=gib * GIB,
        vendor=GpuVendor.AMD if "AMD" in name else GpuVendor.NVIDIA,
        uuid=GpuUuid(f"GPU-00000000-0000-0000-0000-{index:012d}"),
    )
