"""Machines that nobody has: each is the shape of a kind of node, put together by hand.

Figures (lanes, links, rates) are those of the makers' data sheets; addresses and names are made up.
"""

from __future__ import annotations

from dataclasses import replace

from hpckit.core.index_list import IndexList
from hpckit.node.path import PathTable
from hpckit.node.pci import (
    CLASS_3D,
    CLASS_ETHERNET,
    CLASS_INFINIBAND,
    CLASS_OTHER_BRIDGE,
    PciAddress,
)
from hpckit.node.topology import (
    CpuLink,
    CpuPackage,
    CpuTopology,
    Gpu,
    GpuLink,
    Host,
    LinkKind,
    Nic,
    NicRole,
    NodeTopology,
    NumaKind,
    NumaNode,
    Unknown,
)
from hpckit.spec.nic_kind import NicKind
from tests.fakes.machine_parts import (
    GB_PER_S,
    GBIT_PER_S,
    GEN3,
    GEN4,
    GEN5,
    GIB,
    SYNTHETIC,
    all_to_all,
    bridge,
    end_point,
    gpu,
    lanes,
    nic,
    nvlinks,
    paths_by_hand,
    switches,
    two_sockets,
    with_nic_down,
)


def _cards(topology: NodeTopology, name: str, gib: int, nic_like: Nic) -> NodeTopology:
    """The same node, its 3D controllers as GPUs and its network cards as NICs, in tree order."""
    gpus = [one for one in topology.pci if one.class_code == CLASS_3D]
    cpus = {numa.index: numa.cpus for numa in topology.numa_nodes}
    nets = [one for one in topology.pci if one.class_code in {CLASS_INFINIBAND, CLASS_ETHERNET}]
    return replace(
        topology,
        gpus=tuple(
            replace(
                gpu(at, name, one.address, one.numa_index, gib), cpus=cpus.get(one.numa_index or 0)
            )
            for at, one in enumerate(gpus)
        ),
        nics=tuple(
            replace(nic_like, index=at, name=f"{nic_like.name}{at}", pci=one.address)
            for at, one in enumerate(nets)
        ),
    )


def dgx_h100() -> NodeTopology:
    """8 GPUs behind 4 NVSwitches, 4 PCIe switches with 2 GPUs and 2 NICs each, 2 storage NICs."""
    link = lanes(GEN5, 16)
    pci = switches(4, (CLASS_3D, CLASS_INFINIBAND) * 2, link)
    for at in range(2):
        root = f"0000:{0x80 + at:02x}:01.0"
        pci += [
            bridge(root, None, lanes(GEN4, 16), at),
            end_point(f"0000:{0x90 + at:02x}:00.0", root, CLASS_INFINIBAND, lanes(GEN4, 16), at),
        ]
    nvswitches = [
        end_point(f"0000:{0xA0 + at:02x}:00.0", None, CLASS_OTHER_BRIDGE, lanes(GEN4, 2), 0)
        for at in range(4)
    ]
    nvswitches = [replace(one, vendor_id=0x10DE) for one in nvswitches]
    node = two_sockets("Intel(R) Xeon(R) Platinum 8480C", "GenuineIntel", 56, 1024)
    node = replace(
        node, pci=(*pci, *nvswitches), host=Host(name="node012", driver_version="570.124.06")
    )
    node = _cards(node, "NVIDIA H100 80GB HBM3", 80, nic(0, "mlx5_", None, 400, NicKind.INFINIBAND))
    storage = {8, 9}
    nics = tuple(
        replace(one, role=NicRole.STORAGE, rate_bytes_per_s=200 * GBIT_PER_S)
        if one.index in storage
        else one
        for one in node.nics
    )
    gpus = tuple(
        replace(gpu, nvlinks=nvlinks(18), nvlink_version="4.0", architecture="sm_90")
        for gpu in node.gpus
    )
    links = all_to_all(8, 18, LinkKind.NVLINK, 450 * GB_PER_S, is_switched=True)
    node = replace(node, nics=nics, gpus=gpus, gpu_links=links)
    return paths_by_hand(node)


def four_gpu_box() -> NodeTopology:
    """4 GPUs without NVLink, each on its own root port, one of them with 8 of its 16 lanes."""
    pci = []
    for at in range(4):
        root = f"0000:{0x20 * (at + 1):02x}:01.1"
        link = lanes(GEN4, 8, 16) if at == 2 else lanes(GEN4, 16)
        pci += [
            bridge(root, None, lanes(GEN5, 16), at // 2),
            end_point(f"0000:{0x20 * (at + 1) + 1:02x}:00.0", root, CLASS_3D, link, at // 2),
        ]
    root = "0000:a0:01.1"
    pci += [
        bridge(root, None, lanes(GEN4, 8), 1),
        end_point("0000:a1:00.0", root, CLASS_ETHERNET, lanes(GEN4, 8), 1),
        end_point("0000:a1:00.1", root, CLASS_ETHERNET, lanes(GEN4, 8), 1),
    ]
    node = two_sockets("AMD EPYC 9354 32-Core Processor", "AuthenticAMD", 32, 384)
    node = replace(node, pci=tuple(pci), host=Host(name="inference-3", driver_version="550.54"))
    node = _cards(node, "NVIDIA L40S", 48, nic(0, "mlx5_", None, 100, NicKind.ROCE))
    return with_nic_down(paths_by_hand(node), "mlx5_1")


def sixteen_v100() -> NodeTopology:
    """16 GPUs behind NVSwitches, 8 PCIe switches with 2 GPUs and 5 NICs each."""
    pci = switches(8, (CLASS_3D,) * 2 + (CLASS_INFINIBAND,) * 5, lanes(GEN3, 16))
    node = two_sockets("Intel(R) Xeon(R) Platinum 8168 CPU @ 2.70GHz", "GenuineIntel", 24, 768)
    node = replace(node, pci=tuple(pci), host=Host(name="hgx2-07", driver_version="535.161.08"))
    node = _cards(node, "Tesla V100-SXM3-32GB", 32, nic(0, "mlx5_", None, 100, NicKind.INFINIBAND))
    links = all_to_all(16, 6, LinkKind.NVLINK, 150 * GB_PER_S, is_switched=True)
    return paths_by_hand(replace(node, gpu_links=links))


def gb200_tray() -> NodeTopology:
    """2 Grace CPUs, 4 Blackwell GPUs that hang from them by C2C, 4 NICs, memory-only NUMA nodes."""
    cpus = [IndexList("0-71"), IndexList("72-143")]
    packages = tuple(
        CpuPackage(index=at, cpus=cpus[at], model="Neoverse-V2", cores=72) for at in range(2)
    )
    nodes = tuple(
        NumaNode(
            index=at, cpus=cpus[at], memory_bytes=480 * GIB, package_index=at, kind=NumaKind.DRAM
        )
        for at in range(2)
    ) + tuple(
        NumaNode(index=2 + 8 * at, cpus=IndexList(""), memory_bytes=186 * GIB, kind=NumaKind.GPU)
        for at in range(4)
    )
    pci = []
    for at in range(4):
        for domain, code, link in (
            (8 * (at // 2) + at % 2, CLASS_3D, lanes(GEN5, 16)),
            (8 * (at // 2) + 2 + at % 2, CLASS_INFINIBAND, lanes(GEN5, 16)),
        ):
            root = f"{domain:04x}:00:00.0"
            pci += [
                bridge(root, None, link, at // 2),
                end_point(f"{domain:04x}:01:00.0", root, code, link, at // 2),
            ]
    cpu = CpuTopology(
        arch="aarch64", vendor="ARM", model="Neoverse-V2", packages=packages, cores=144
    )
    node = NodeTopology(
        source=SYNTHETIC,
        cpu=cpu,
        numa_nodes=nodes,
        pci=tuple(pci),
        host=Host(name="rack3-tray07", driver_version="570.133.20"),
    )
    node = _cards(node, "NVIDIA GB200", 186, nic(0, "mlx5_", None, 400, NicKind.INFINIBAND))
    gpus = tuple(
        replace(gpu, own_numa_index=2 + 8 * gpu.index, nvlinks=nvlinks(18)) for gpu in node.gpus
    )
    links = all_to_all(4, 18, LinkKind.NVLINK, 900 * GB_PER_S, is_switched=True)
    beside = tuple(
        CpuLink(
            gpu_index=gpu.index,
            kind=LinkKind.C2C,
            numa_index=gpu.numa_index,
            bandwidth_bytes_per_s=450 * GB_PER_S,
        )
        for gpu in gpus
    )
    node = replace(node, gpus=gpus, gpu_links=links, cpu_links=beside)
    return paths_by_hand(node)


def mi300x() -> NodeTopology:
    """8 GPUs with XGMI between all pairs and no switch, each on a PCIe switch with its NIC."""
    pci = switches(8, (CLASS_3D, CLASS_ETHERNET), lanes(GEN5, 16))
    node = two_sockets("AMD EPYC 9654 96-Core Processor", "AuthenticAMD", 96, 1152)
    node = replace(node, pci=tuple(pci), host=Host(name="mi300x-01", driver_version="6.12.12"))
    node = _cards(node, "AMD Instinct MI300X OAM", 192, nic(0, "bnxt_re", None, 400, NicKind.ROCE))
    links = all_to_all(8, 1, LinkKind.XGMI, 64 * GB_PER_S, is_switched=False)
    return paths_by_hand(replace(node, gpu_links=links))


def dgx_1v() -> NodeTopology:
    """8 V100 in a hybrid cube mesh of 1 and 2 NVLinks, 4 PCIe switches with 2 GPUs and a NIC."""
    pci = switches(4, (CLASS_3D, CLASS_3D, CLASS_INFINIBAND), lanes(GEN3, 16))
    node = two_sockets("Intel(R) Xeon(R) CPU E5-2698 v4 @ 2.20GHz", "GenuineIntel", 20, 256)
    node = replace(node, pci=tuple(pci), host=Host(name="dgx1-2", driver_version="450.80.02"))
    node = _cards(node, "Tesla V100-SXM2-32GB", 32, nic(0, "mlx5_", None, 100, NicKind.INFINIBAND))
    twice = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
    once = {(0, 1), (0, 2), (1, 3), (2, 6), (3, 7), (4, 5), (4, 6), (5, 7)}
    mesh = {pair: 2 if pair in twice else 1 for pair in sorted(once | twice)}
    links = tuple(
        GpuLink(
            a=a,
            b=b,
            kind=LinkKind.NVLINK,
            count=count,
            bandwidth_bytes_per_s=count * 25 * GB_PER_S,
            is_switched=False,
        )
        for (a, b), count in mesh.items()
    )
    return paths_by_hand(replace(node, gpu_links=links))


def matrix_only() -> NodeTopology:
    """8 GPUs and 9 NICs of which a matrix is all that is known: no tree, no rates, no states."""
    node = dgx_h100()
    gpus = tuple(
        Gpu(index=gpu.index, numa_index=gpu.numa_index, cpus=gpu.cpus) for gpu in node.gpus
    )
    nics = tuple(
        Nic(index=one.index, name=one.name, label=f"NIC{one.index}") for one in node.nics[:9]
    )
    names = (*(f"GPU{at}" for at in range(8)), *(f"NIC{at}" for at in range(9)))
    table = node.paths
    assert table is not None
    cells = tuple(row[:17] for row in table.cells[:17])
    links = all_to_all(8, 18, LinkKind.NVLINK, 0, is_switched=True)
    links = tuple(replace(link, bandwidth_bytes_per_s=None, is_switched=None) for link in links)
    return NodeTopology(
        source=replace(SYNTHETIC, format="nvidia-smi topo -m"),
        gpus=gpus,
        nics=nics,
        gpu_links=links,
        paths=PathTable(devices=names, cells=cells, is_recorded=True),
        unknown=(
            Unknown(subject="GPUs", what="name", because="topo -m does not hold it"),
            Unknown(subject="NICs", what="state", because="topo -m does not hold it"),
            Unknown(subject="node", what="pci", because="topo -m holds no PCI addresses"),
        ),
    )


def cpu_only() -> NodeTopology:
    """A node of 8 NUMA nodes, one NIC and no GPU."""
    nodes = tuple(
        NumaNode(
            index=at,
            cpus=IndexList(f"{16 * at}-{16 * at + 15}"),
            memory_bytes=96 * GIB,
            package_index=at // 4,
            kind=NumaKind.DRAM,
        )
        for at in range(8)
    )
    packages = tuple(
        CpuPackage(
            index=at,
            cpus=IndexList(f"{64 * at}-{64 * at + 63}"),
            cores=64,
            model="AMD EPYC 7763 64-Core Processor",
        )
        for at in range(2)
    )
    root = "0000:40:01.1"
    pci = (
        bridge(root, None, lanes(GEN4, 16), 2),
        end_point("0000:41:00.0", root, CLASS_INFINIBAND, lanes(GEN4, 16), 2),
    )
    return NodeTopology(
        source=SYNTHETIC,
        host=Host(name="cpu-0042"),
        cpu=CpuTopology(arch="x86_64", model=packages[0].model, packages=packages, cores=128),
        numa_nodes=nodes,
        pci=pci,
        nics=(nic(0, "mlx5_0", PciAddress("0000:41:00.0"), 200, NicKind.INFINIBAND),),
    )


def many_functions() -> NodeTopology:
    """2 GPUs, and a card whose physical function has 40 virtual ones."""
    node = four_gpu_box()
    gpus = node.gpus[:2]
    parent = PciAddress("0000:a0:01.1")
    first = PciAddress("0000:a1:00.0")
    functions = [
        replace(
            end_point(f"0000:a1:{at // 8:02x}.{at % 8}", parent, CLASS_ETHERNET, lanes(GEN4, 8), 1),
            physfn=first,
        )
        for at in range(2, 42)
    ]
    nics = (
        replace(node.nics[0], physfn=None),
        *(
            replace(
                nic(at - 1, f"mlx5_{at}", one.address, 100, NicKind.ROCE),
                is_virtual=True,
                physfn=first,
            )
            for at, one in enumerate(functions, 2)
        ),
    )
    node = replace(node, gpus=gpus, nics=nics, pci=(*node.pci, *functions), paths=None)
    return paths_by_hand(replace(node, host=Host(name="vm-host-9", driver_version="550.54")))
