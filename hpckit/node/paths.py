"""What lies between the devices of a node, where no tool has printed it.

nvidia-smi's words follow from the links and the PCI tree. Sources: the legend of
`nvidia-smi topo -m`; nvml.h, nvmlGpuTopologyLevel_t; NCCL 2.4's pciDistance, which reads GPU–NIC
paths off sysfs as nvidia-smi does.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from itertools import combinations, permutations, product
from typing import Final, NamedTuple

from hpckit.core.values import dataclass
from hpckit.node.path import MOST_ROWS, NcclPath, PathKind, PathTable
from hpckit.node.pci import PciAddress
from hpckit.node.pci_tree import PciTree, is_one_card
from hpckit.node.rules.rule import path_cells
from hpckit.node.topology import Gpu, LinkKind, Nic, NodeTopology, Unknown
from hpckit.spec.nic_kind import NicKind


@dataclass(frozen=True, slots=True, kw_only=True)
class PathDevice:
    """A row: its name in the table and where it sits; `gpu_index` is None for a NIC."""

    name: str
    gpu_index: int | None = None
    pci: PciAddress | None = None
    numa_index: int | None = None
    is_gdr: bool | None = None


def devices_to_list(topology: NodeTopology, tree: PciTree) -> tuple[PathDevice, ...]:
    """The rows of a table that no tool has printed: the GPUs that the driver shows, then the NICs.

    Plain Ethernet devices are left out, as by nvidia-smi, whose NICs are those of
    /sys/class/infiniband. So are, where there are more rows than a table has, the virtual functions
    of NICs that have one: they sit where these do.
    """
    gpus = [gpu for gpu in topology.gpus if not gpu.is_hidden]
    nics = [nic for nic in topology.nics if is_listed(nic)]
    if len(gpus) + len(nics) > MOST_ROWS:
        here = {nic.pci for nic in nics if nic.pci is not None}
        nics = [nic for nic in nics if nic.physfn not in here]
    return (*(_of(gpu, tree) for gpu in gpus), *(_of(nic, tree) for nic in nics))


def devices_named(
    topology: NodeTopology, tree: PciTree, names: tuple[str, ...]
) -> tuple[PathDevice, ...]:
    """The devices that a table names; of a name that the topology lacks nothing else is known."""
    known: dict[str, Gpu | Nic] = {nic.name: nic for nic in topology.nics}
    known |= {nic.label: nic for nic in topology.nics if nic.label is not None}
    known |= {f"GPU{gpu.index}": gpu for gpu in topology.gpus}
    return tuple(
        _of(known[name], tree) if name in known else PathDevice(name=name) for name in names
    )


def is_listed(nic: Nic) -> bool:
    """Whether a NIC has a row."""
    return nic.kind is not NicKind.ETHERNET


def _of(part: Gpu | Nic, tree: PciTree) -> PathDevice:
    is_gpu, numa = isinstance(part, Gpu), part.numa_index
    if numa is None and part.pci is not None:
        numa = tree.numa_index(part.pci)
    return PathDevice(
        name=f"GPU{part.index}" if isinstance(part, Gpu) else part.label or part.name,
        gpu_index=part.index if is_gpu else None,
        pci=part.pci,
        numa_index=numa,
        is_gdr=part.is_gdr,
    )


# Source: NCCL 2.30, src/graph/paths.cc (ncclTopoSetPaths, ncclTopoComputePaths) and topo.h. What
# depends on a communicator is left out: NCCL_P2P_LEVEL, and GPUs without peer access.
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


def nccl_paths(
    topology: NodeTopology, tree: PciTree, devices: Sequence[PathDevice], table: PathTable
) -> tuple[tuple[NcclPath | None, ...], ...]:
    """NCCL's path between each two devices of a table, from the links, the PCI tree or the cell.

    Broadcom's two levels are one switch here, so PIX may stand where nvidia-smi prints PXB. PXN is
    in the GPU's row alone: NCCL sends through a peer and receives without. None is unknown.
    """
    direct = _Direct(topology, tree)
    grid = _Grid(devices)
    for row, column in combinations(range(len(devices)), 2):
        cell = table.cells[row][column]
        word = _from_cell(direct, devices[row], devices[column], cell)
        grid.cells[row][column] = grid.cells[column][row] = word
    grid.through_peers()
    grid.through_cpu_links(topology)
    if _has_nvlink(topology, table):
        grid.through_relays()
    grid.through_memory()
    return tuple(tuple(row) for row in grid.cells)


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


def _rank(path: NcclPath | None) -> int:
    return len(_ORDER) if path is None else _ORDER[path]


def _is_worse(path: NcclPath | None, than: NcclPath) -> bool:
    return _rank(path) > _ORDER[than]


def _has_nvlink(topology: NodeTopology, table: PathTable) -> bool:
    """Whether the GPUs' links are NVIDIA's: RCCL has PXN off by default (its paths.cc)."""
    if any(link.kind is LinkKind.NVLINK for link in topology.gpu_links):
        return True
    return any(cell.startswith("NV") for cell in set().union(*table.cells) if cell is not None)


class _Grid:
    """The paths between devices by row and column, which each step of NCCL's makes better."""

    def __init__(self, devices: Sequence[PathDevice]) -> None:
        size = range(len(devices))
        self.cells: list[list[NcclPath | None]] = [[NcclPath.LOC for _ in size] for _ in size]
        self._devices = devices
        self._gpus = [at for at in size if devices[at].gpu_index is not None]
        self._nics = [at for at in size if devices[at].gpu_index is None]

    def through_peers(self) -> None:
        """NVB: two GPUs without a link that both have one to a third."""
        gpus, cells = self._gpus, self.cells
        peers = {a: {b for b in gpus if cells[a][b] is NcclPath.NVL} for a in gpus}
        for a, b in permutations(gpus, 2):
            if _is_worse(cells[a][b], NcclPath.NVB) and peers[a] & peers[b]:
                cells[a][b] = NcclPath.NVB

    def through_cpu_links(self, topology: NodeTopology) -> None:
        """P2C: a GPU with C2C to the CPU that its nearest NICs hang on."""
        coherent = {link.gpu_index for link in topology.cpu_links if link.kind is LinkKind.C2C}
        for gpu in self._gpus:
            row = self.cells[gpu]
            is_close = any(not _is_worse(row[nic], NcclPath.PXB) for nic in self._nics)
            if self._devices[gpu].gpu_index not in coherent or is_close:
                continue
            for nic in self._nics:
                if row[nic] is NcclPath.PHB:
                    row[nic] = self.cells[nic][gpu] = NcclPath.P2C

    def through_relays(self) -> None:
        """PXN: a NIC whose nearest GPU NVLink reaches, and that is far from the GPU itself.

        Of several nearest NCCL takes one, which by channels is mostly the first.
        """
        for nic in self._nics if self._gpus else ():
            relay = min(self._gpus, key=lambda gpu: _rank(self.cells[gpu][nic]))
            if _is_worse(self.cells[relay][nic], NcclPath.P2C) or self._is_without_gdr(relay, nic):
                continue
            for gpu in self._gpus:
                row = self.cells[gpu]
                if row[relay] is NcclPath.NVL and _is_worse(row[nic], NcclPath.PXN):
                    row[nic] = NcclPath.PXN

    def through_memory(self) -> None:
        """PHB at the least: a GPU and a NIC of which one has no GPUDirect RDMA."""
        for gpu, nic in product(self._gpus, self._nics):
            for row, column in ((gpu, nic), (nic, gpu)):
                path = self.cells[row][column]
                is_near = path is not None and not _is_worse(path, NcclPath.PHB)
                if is_near and self._is_without_gdr(gpu, nic):
                    self.cells[row][column] = NcclPath.PHB

    def _is_without_gdr(self, gpu: int, nic: int) -> bool:
        return self._devices[gpu].is_gdr is False or self._devices[nic].is_gdr is False


_SUBJECT: Final = "paths"
_MOST_NAMED: Final = 3


class _Answer(NamedTuple):
    cell: str | None
    because: str = ""


_ANSWERS: Final = {kind: _Answer(kind.value) for kind in PathKind}
_PHB, _NODE, _SYS = (_ANSWERS[kind] for kind in (PathKind.PHB, PathKind.NODE, PathKind.SYS))
_NO_ADDRESS: Final = _Answer(None, "one of the two has no PCI address in the source")
_NO_DEVICE: Final = _Answer(None, "one of the two is missing from the PCI tree of the source")
_NO_NUMA: Final = _Answer(
    None,
    "they are on different root complexes and the NUMA node of one is unknown: NODE or SYS",
)
_NO_ROOT: Final = _Answer(None, "the source has NUMA nodes but no root complexes: PHB or NODE")
_NO_PLACE: Final = _Answer(None, "the source has neither root complexes nor NUMA nodes")


def with_paths(topology: NodeTopology) -> NodeTopology:
    """The topology with `paths`, with NCCL's words beside, and with effective PCIe links.

    A recorded table keeps its cells; what it lacks of the node's devices is added, and then it is
    a recorded one no more. The devices are the GPUs that the driver shows, then the NICs, which
    are called `NIC0` … where they have no label; plain Ethernet devices are left out, as
    nvidia-smi does, whose NICs are those of /sys/class/infiniband. A cell that does not follow is
    None, and `unknown` says why.
    """
    tree = PciTree(topology.pci)
    pci = (dataclasses.replace(one, effective=tree.effective(one.address)) for one in topology.pci)
    topology = dataclasses.replace(topology, pci=tuple(pci))
    # A driver that knows GPUs alone makes a table without the NICs.
    names = {device.name for device in devices_to_list(topology, tree)}
    if topology.paths is None or not names.issubset(topology.paths.devices):
        topology = _with_table(_labelled(topology), tree)
    table = topology.paths
    if table is None:
        return topology
    devices = devices_named(topology, tree, table.devices)
    words = nccl_paths(topology, tree, devices, table)
    return dataclasses.replace(topology, paths=dataclasses.replace(table, nccl=words))


def _labelled(topology: NodeTopology) -> NodeTopology:
    named = () if topology.paths is None else topology.paths.devices
    rows = [nic for nic in topology.nics if is_listed(nic)]
    labels = {nic.index: f"NIC{row}" for row, nic in enumerate(rows) if nic.name not in named}
    nics = tuple(
        dataclasses.replace(nic, label=nic.label or labels.get(nic.index)) for nic in topology.nics
    )
    return dataclasses.replace(topology, nics=nics)


def _with_table(topology: NodeTopology, tree: PciTree) -> NodeTopology:
    devices = devices_to_list(topology, tree)
    if not devices:
        return topology
    left_out = _left_out(topology, len(devices))
    if left_out is not None:
        told = tuple(dict.fromkeys((*topology.unknown, left_out)))
        topology = dataclasses.replace(topology, unknown=told)
    if len(devices) > MOST_ROWS:
        return topology
    rule, recorded = _Rule(topology, tree), path_cells(topology.paths)
    cells: list[list[str | None]] = [[PathKind.SELF.value] * len(devices) for _ in devices]
    lacking: dict[str, list[str]] = {}
    for (row, a), (column, b) in combinations(enumerate(devices), 2):
        known = recorded.get((a.name, b.name))
        cell, because = rule.between(a, b) if known is None else _Answer(known)
        cells[row][column] = cells[column][row] = cell
        if cell is None:
            lacking.setdefault(because, []).append(f"{a.name}–{b.name}")
    table = PathTable(
        devices=tuple(one.name for one in devices), cells=tuple(tuple(row) for row in cells)
    )
    unknown = [Unknown(_SUBJECT, _few(pairs), because) for because, pairs in lacking.items()]
    return dataclasses.replace(topology, paths=table, unknown=(*topology.unknown, *unknown))


def _few(pairs: list[str]) -> str:
    shown, more = ", ".join(pairs[:_MOST_NAMED]), len(pairs) - _MOST_NAMED
    return f"{shown} and {more} more" if more > 0 else shown


def _left_out(topology: NodeTopology, count: int) -> Unknown | None:
    """That a table of `count` devices would be too large, or lacks some to be small enough."""
    if count > MOST_ROWS:
        because = f"{count} devices, but a matrix has at most {MOST_ROWS}"
        return Unknown(_SUBJECT, "devices", because)
    lacking = sum(not gpu.is_hidden for gpu in topology.gpus) - count
    lacking += sum(is_listed(nic) for nic in topology.nics)
    if lacking <= 0:
        return None
    because = f"a matrix has at most {MOST_ROWS} rows; each has the paths of its physical function"
    return Unknown(_SUBJECT, f"{lacking} virtual functions", because)


class _Rule:
    """How the cell of two devices is found: the first that applies."""

    def __init__(self, topology: NodeTopology, tree: PciTree) -> None:
        self._tree = tree
        self._links = {(link.a, link.b): link for link in topology.gpu_links if link.count != 0}
        # Linux says -1 on a machine of one node that has no NUMA tables; in a VM it may be a
        # guest's one node over a host's several.
        self._is_one_node = len(topology.numa_nodes) == 1 and (
            topology.host.is_virtual_machine is False
        )

    def between(self, a: PathDevice, b: PathDevice) -> _Answer:
        if a.gpu_index is not None and b.gpu_index is not None:
            pair = a.gpu_index, b.gpu_index
            link = self._links.get(pair) or self._links.get(pair[::-1])
            if link is not None and link.kind is LinkKind.NVLINK:
                return _Answer(f"{PathKind.NV}{link.count or ''}")
            if link is not None:
                return _ANSWERS[PathKind.C2C if link.kind is LinkKind.C2C else PathKind.XGMI]
        is_known = a.numa_index is not None and b.numa_index is not None
        is_far = is_known and a.numa_index != b.numa_index
        if a.pci is None or b.pci is None:
            return _SYS if is_far else _NO_ADDRESS
        if a.pci not in self._tree.addresses or b.pci not in self._tree.addresses:
            return _SYS if is_far else _NO_DEVICE
        shared = self._tree.shared(a.pci, b.pci)
        return _ANSWERS[shared] if shared is not None else self._across(a, b, a.pci, b.pci)

    def _across(self, a: PathDevice, b: PathDevice, at_a: PciAddress, at_b: PciAddress) -> _Answer:
        root_a, root_b = self._tree.host_bridge(at_a), self._tree.host_bridge(at_b)
        has_roots = root_a is not None and root_b is not None
        if has_roots and root_a == root_b:
            return _PHB
        if a.numa_index is not None and b.numa_index is not None:
            if a.numa_index != b.numa_index:
                return _SYS
            return _NODE if has_roots else _NO_ROOT
        if not has_roots:
            return _NO_PLACE
        return _NODE if self._is_one_node else _NO_NUMA
