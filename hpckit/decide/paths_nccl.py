"""What lies between the devices of a node in NCCL's words.

Source: NCCL 2.30, src/graph/paths.cc (ncclTopoSetPaths, ncclTopoComputePaths) and topo.h. What
depends on a communicator is left out: NCCL_P2P_LEVEL, and GPUs without peer access.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from hpckit.decide.paths_devices import PathDevice
from hpckit.decide.pci_tree import PciTree, is_one_card
from hpckit.model.hardware import LinkKind, NodeTopology
from hpckit.model.path import NcclPath, PathKind, PathTable

_OF_CELL: Final[Mapping[str, NcclPath]] = {
    PathKind.SELF: NcclPath.LOC,
    PathKind.NV: NcclPath.NVL,
    PathKind.XGMI: NcclPath.NVL,
    PathKind.C2C: NcclPath.C2C,
    PathKind.PIX: NcclPath.PIX,
    PathKind.PXB: NcclPath.PXB,
    PathKind.PHB: NcclPath.PHB,
    PathKind.NODE: NcclPath.PHB,
    PathKind.SYS: NcclPath.SYS,
}

_ORDER: Final = {path: at for at, path in enumerate(NcclPath)}

_Grid = list[list[NcclPath | None]]


def nccl_paths(
    topology: NodeTopology, tree: PciTree, devices: Sequence[PathDevice], table: PathTable
) -> tuple[tuple[NcclPath | None, ...], ...]:
    """NCCL's path between each two devices of a table, from the links, the PCI tree or the cell.

    Broadcom's two levels are one switch here, so PIX may stand where nvidia-smi prints PXB. PXN is
    in the GPU's row alone: NCCL sends through a peer and receives without. None is unknown.
    """
    direct = _Direct(topology, tree)
    size = range(len(devices))
    grid: _Grid = [[NcclPath.LOC for _ in size] for _ in size]
    for row in size:
        for column in size[row + 1 :]:
            cell = table.cells[row][column]
            word = _from_cell(direct, devices[row], devices[column], cell)
            grid[row][column] = grid[column][row] = word
    gpus = [at for at in size if devices[at].gpu_index is not None]
    nics = [at for at in size if devices[at].gpu_index is None]
    _through_peers(grid, gpus)
    _through_cpu_links(grid, devices, gpus, nics, topology)
    _through_relays(grid, devices, gpus, nics, _has_nvlink(topology, table))
    _through_memory(grid, devices, gpus, nics)
    return tuple(tuple(row) for row in grid)


def _from_cell(direct: _Direct, a: PathDevice, b: PathDevice, cell: str | None) -> NcclPath | None:
    """A cell tells of links best, the PCI tree of switches; NUMA nodes say the rest."""
    word = None if cell is None else _OF_CELL.get(cell[:2] if cell.startswith("NV") else cell)
    if word is NcclPath.NVL:
        return word
    return direct.between(a, b) or word or direct.by_numa(a, b)


class _Direct:
    """The path of two devices without a third one."""

    def __init__(self, topology: NodeTopology, tree: PciTree) -> None:
        self._tree = tree
        self._placed = tree.addresses
        self._links = {
            pair: link.kind
            for link in topology.gpu_links
            if link.count != 0
            for pair in ((link.a, link.b), (link.b, link.a))
        }
        self._cpu_links = {link.gpu_index: link for link in topology.cpu_links}
        self._is_one_node = len(topology.numa_nodes) == 1

    def between(self, a: PathDevice, b: PathDevice) -> NcclPath | None:
        if a.gpu_index is not None and b.gpu_index is not None:
            linked = self._linked(a.gpu_index, b.gpu_index)
            if linked is not None:
                return linked
        return self._below_cpu(a, b) or self._across(a, b)

    def _linked(self, a: int, b: int) -> NcclPath | None:
        """Two GPUs with a link, or whose links other than PCIe lead to one CPU."""
        kind = self._links.get((a, b))
        if kind is not None:
            return NcclPath.C2C if kind is LinkKind.C2C else NcclPath.NVL
        one, other = self._cpu_links.get(a), self._cpu_links.get(b)
        if one is None or other is None or one.kind is not other.kind:
            return None
        if one.numa_index is None or one.numa_index != other.numa_index:
            return None
        return NcclPath.C2C if one.kind is LinkKind.C2C else NcclPath.NVL

    def _below_cpu(self, a: PathDevice, b: PathDevice) -> NcclPath | None:
        if a.pci is None or b.pci is None:
            return None
        of_a, of_b = self._tree.switches(a.pci), self._tree.switches(b.pci)
        if of_a and of_b and of_a[-1] != of_b[-1]:
            return None
        if is_one_card(a.pci, b.pci):
            is_nic = a.gpu_index is None and b.gpu_index is None
            return NcclPath.LOC if is_nic else NcclPath.PIX
        if not of_a or not of_b:
            return None
        return NcclPath.PIX if of_a[0] == of_b[0] else NcclPath.PXB

    def _across(self, a: PathDevice, b: PathDevice) -> NcclPath | None:
        """Through the CPUs; NCCL puts all devices of NUMA node -1 on one of its own.

        In its own tree None is that; in a full one it may be that the source does not say.
        """
        if a.pci not in self._placed or b.pci not in self._placed:
            return None
        if a.numa_index is not None and b.numa_index is not None:
            return self.by_numa(a, b)
        is_same = a.numa_index == b.numa_index
        roots = [one and self._tree.host_bridge(one) for one in (a.pci, b.pci)]
        if roots == [None, None]:
            return NcclPath.PHB if is_same else NcclPath.SYS
        is_one = roots[0] == roots[1] or self._is_one_node
        return NcclPath.PHB if is_same and is_one else None

    @staticmethod
    def by_numa(a: PathDevice, b: PathDevice) -> NcclPath | None:
        """What NCCL takes for devices that hang on a CPU, such as NICs without a PCI address."""
        if a.numa_index is None or b.numa_index is None:
            return None
        return NcclPath.PHB if a.numa_index == b.numa_index else NcclPath.SYS


def _is_worse(path: NcclPath | None, than: NcclPath) -> bool:
    return _rank(path) > _ORDER[than]


def _rank(path: NcclPath | None) -> int:
    return len(_ORDER) if path is None else _ORDER[path]


def _through_peers(grid: _Grid, gpus: list[int]) -> None:
    """NVB: two GPUs without a link that both have one to a third."""
    peers = {a: {b for b in gpus if grid[a][b] is NcclPath.NVL} for a in gpus}
    for a in gpus:
        for b in gpus:
            if a != b and _is_worse(grid[a][b], NcclPath.NVB) and peers[a] & peers[b]:
                grid[a][b] = NcclPath.NVB


def _through_cpu_links(
    grid: _Grid,
    devices: Sequence[PathDevice],
    gpus: list[int],
    nics: list[int],
    topology: NodeTopology,
) -> None:
    """P2C: a GPU with C2C to the CPU that its nearest NICs hang on."""
    coherent = {link.gpu_index for link in topology.cpu_links if link.kind is LinkKind.C2C}
    for gpu in gpus:
        if devices[gpu].gpu_index not in coherent:
            continue
        if any(not _is_worse(grid[gpu][nic], NcclPath.PXB) for nic in nics):
            continue
        for nic in nics:
            if grid[gpu][nic] is NcclPath.PHB:
                grid[gpu][nic] = grid[nic][gpu] = NcclPath.P2C


def _has_nvlink(topology: NodeTopology, table: PathTable) -> bool:
    """Whether the GPUs' links are NVIDIA's: RCCL has PXN off by default (its paths.cc)."""
    if any(link.kind is LinkKind.NVLINK for link in topology.gpu_links):
        return True
    return any(cell.startswith("NV") for cell in set().union(*table.cells) if cell is not None)


def _through_relays(
    grid: _Grid,
    devices: Sequence[PathDevice],
    gpus: list[int],
    nics: list[int],
    has_nvlink: bool,
) -> None:
    """PXN: a NIC whose nearest GPU is one that NVLink reaches, and that is far from the GPU itself.

    Of several nearest NCCL takes one, which by channels is mostly the first.
    """
    for nic in nics if has_nvlink else ():
        relay = min(gpus, key=lambda gpu: _rank(grid[gpu][nic]), default=None)
        if relay is None or _is_worse(grid[relay][nic], NcclPath.P2C):
            continue
        if devices[relay].is_gdr is False or devices[nic].is_gdr is False:
            continue
        for gpu in gpus:
            if grid[gpu][relay] is NcclPath.NVL and _is_worse(grid[gpu][nic], NcclPath.PXN):
                grid[gpu][nic] = NcclPath.PXN


def _through_memory(
    grid: _Grid, devices: Sequence[PathDevice], gpus: list[int], nics: list[int]
) -> None:
    """PHB at the least: a GPU and a NIC of which one has no GPUDirect RDMA."""
    for gpu in gpus:
        for nic in nics:
            if devices[gpu].is_gdr is False or devices[nic].is_gdr is False:
                for one, other in ((gpu, nic), (nic, gpu)):
                    path = grid[one][other]
                    if path is not None and not _is_worse(path, NcclPath.PHB):
                        grid[one][other] = NcclPath.PHB
