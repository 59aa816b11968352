"""What lies between the devices of a node, where no tool has printed it.

nvidia-smi's words follow from the links and the PCI tree. Sources: the legend of
`nvidia-smi topo -m`; nvml.h, nvmlGpuTopologyLevel_t; NCCL 2.4's pciDistance, which reads GPU–NIC
paths off sysfs as nvidia-smi does. NCCL's words are in `paths_nccl`.
"""

from __future__ import annotations

import dataclasses
from typing import Final, NamedTuple

from hpckit.decide.paths_devices import PathDevice, devices_named, devices_to_list, is_listed
from hpckit.decide.paths_nccl import nccl_paths
from hpckit.decide.pci_tree import PciTree
from hpckit.model.hardware import GpuLink, LinkKind, NodeTopology, Unknown
from hpckit.model.path import MOST_ROWS, PathKind, PathTable
from hpckit.model.pci import PciAddress

_SUBJECT: Final = "paths"
_MOST_NAMED: Final = 3


class _Answer(NamedTuple):
    """A cell, or why there is none."""

    cell: str | None
    because: str = ""


_ANSWERS: Final = {kind: _Answer(kind.value) for kind in PathKind}
_PHB, _NODE, _SYS = (_ANSWERS[kind] for kind in (PathKind.PHB, PathKind.NODE, PathKind.SYS))
_NO_ADDRESS: Final = _Answer(None, "the source has no PCI address of one of the two")
_NO_DEVICE: Final = _Answer(None, "the PCI tree of the source lacks one of the two")
_NO_NUMA: Final = _Answer(
    None,
    "they are on different root complexes and the NUMA node of one is unknown,"
    " so this may be NODE or SYS",
)
_NO_ROOT: Final = _Answer(
    None, "the source tells NUMA nodes and no root complexes, so this may be PHB or NODE"
)
_NO_PLACE: Final = _Answer(None, "the source tells neither root complexes nor NUMA nodes")


def with_paths(topology: NodeTopology) -> NodeTopology:
    """The topology with `paths`, with NCCL's words beside, and with effective PCIe links.

    A recorded table keeps its cells; what it lacks of the node's devices is added, and then it is
    a recorded one no more. The devices are the GPUs that the driver shows, then the NICs, which
    are called `NIC0` … where they have no label; plain Ethernet devices are left out, as
    nvidia-smi does, whose NICs are those of /sys/class/infiniband. A cell that does not follow is
    None, and `unknown` says why.
    """
    tree = PciTree(topology.pci)
    topology = dataclasses.replace(topology, pci=tree.with_effective(topology.pci))
    if topology.paths is None or _is_partial(topology, topology.paths, tree):
        topology = _with_table(_labelled(topology), tree)
    table = topology.paths
    if table is None:
        return topology
    devices = devices_named(topology, tree, table.devices)
    words = nccl_paths(topology, tree, devices, table)
    return dataclasses.replace(topology, paths=dataclasses.replace(table, nccl=words))


def _is_partial(topology: NodeTopology, table: PathTable, tree: PciTree) -> bool:
    """Whether a driver that knows GPUs alone made it."""
    names = {one.name for one in devices_to_list(topology, tree)}
    return not names.issubset(table.devices)


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
    rule, recorded = _Rule(topology, tree), _recorded(topology.paths)
    size = len(devices)
    cells: list[list[str | None]] = [[PathKind.SELF.value] * size for _ in devices]
    lacking: dict[str, list[str]] = {}
    for row in range(size):
        for column in range(row + 1, size):
            names = devices[row].name, devices[column].name
            cell, because = recorded.get(names) or rule.between(devices[row], devices[column])
            cells[row][column] = cells[column][row] = cell
            if cell is None:
                lacking.setdefault(because, []).append("–".join(names))
    table = PathTable(
        devices=tuple(one.name for one in devices), cells=tuple(tuple(row) for row in cells)
    )
    unknown = (*topology.unknown, *(_unknown(pairs, why) for why, pairs in lacking.items()))
    return dataclasses.replace(topology, paths=table, unknown=unknown)


def _left_out(topology: NodeTopology, count: int) -> Unknown | None:
    """That a table of `count` devices would be too large, or lacks some to be small enough."""
    if count > MOST_ROWS:
        because = f"there are {count} of them, and a table has up to {MOST_ROWS}"
        return Unknown(subject=_SUBJECT, what="devices", because=because)
    lacking = sum(not gpu.is_hidden for gpu in topology.gpus) - count
    lacking += sum(is_listed(nic) for nic in topology.nics)
    if lacking <= 0:
        return None
    because = f"a table has up to {MOST_ROWS} rows, and each sits where its physical function does"
    return Unknown(subject=_SUBJECT, what=f"{lacking} virtual functions", because=because)


def _recorded(table: PathTable | None) -> dict[tuple[str, str], _Answer]:
    """The known cells of a table, which is the same both ways."""
    if table is None:
        return {}
    return {
        (one, other): _Answer(cell)
        for one, row in zip(table.devices, table.cells, strict=True)
        for other, cell in zip(table.devices, row, strict=True)
        if cell is not None
    }


def _unknown(pairs: list[str], because: str) -> Unknown:
    named = ", ".join(pairs[:_MOST_NAMED])
    more = len(pairs) - _MOST_NAMED
    return Unknown(
        subject=_SUBJECT, what=f"{named} and {more} more" if more > 0 else named, because=because
    )


class _Rule:
    """How the cell of two devices is found: the first that applies."""

    def __init__(self, topology: NodeTopology, tree: PciTree) -> None:
        self._tree = tree
        self._placed = tree.addresses
        self._links = {(link.a, link.b): link for link in topology.gpu_links if link.count != 0}
        # Linux says -1 on a machine of one node that has no NUMA tables; in a VM it may be a
        # guest's one node over a host's several.
        self._is_one_node = len(topology.numa_nodes) == 1 and (
            topology.host.is_virtual_machine is False
        )

    def between(self, a: PathDevice, b: PathDevice) -> _Answer:
        if a.gpu_index is not None and b.gpu_index is not None:
            link = self._link(a.gpu_index, b.gpu_index)
            if link is not None:
                return _Answer(_cell(link))
        if a.pci is None or b.pci is None:
            return _SYS if self._is_far(a, b) else _NO_ADDRESS
        if a.pci not in self._placed or b.pci not in self._placed:
            return _SYS if self._is_far(a, b) else _NO_DEVICE
        shared = self._tree.shared(a.pci, b.pci)
        return _ANSWERS[shared] if shared is not None else self._across(a, b, a.pci, b.pci)

    @staticmethod
    def _is_far(a: PathDevice, b: PathDevice) -> bool:
        is_known = a.numa_index is not None and b.numa_index is not None
        return is_known and a.numa_index != b.numa_index

    def _link(self, a: int, b: int) -> GpuLink | None:
        return self._links.get((a, b)) or self._links.get((b, a))

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


def _cell(link: GpuLink) -> str:
    match link.kind:
        case LinkKind.NVLINK:
            return f"{PathKind.NV.value}{link.count or ''}"
        case LinkKind.C2C:
            return PathKind.C2C.value
        case LinkKind.XGMI:
            return PathKind.XGMI.value
