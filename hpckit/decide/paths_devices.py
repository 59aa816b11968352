"""The devices that a table of paths has rows for."""

from __future__ import annotations

from dataclasses import dataclass

from hpckit.decide.pci_tree import PciTree
from hpckit.model.hardware import Gpu, Nic, NodeTopology
from hpckit.model.nic_kind import NicKind
from hpckit.model.path import MOST_ROWS
from hpckit.model.pci import PciAddress


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
    gpus = [_of_gpu(gpu, tree) for gpu in topology.gpus if not gpu.is_hidden]
    nics = [nic for nic in topology.nics if is_listed(nic)]
    if len(gpus) + len(nics) > MOST_ROWS:
        here = {nic.pci for nic in nics if nic.pci is not None}
        nics = [nic for nic in nics if nic.physfn not in here]
    return (*gpus, *(_of_nic(nic, tree) for nic in nics))


def devices_named(
    topology: NodeTopology, tree: PciTree, names: tuple[str, ...]
) -> tuple[PathDevice, ...]:
    """The devices that a table names; of a name that the topology lacks nothing else is known."""
    known = {nic.name: _of_nic(nic, tree) for nic in topology.nics}
    known |= {nic.label: _of_nic(nic, tree) for nic in topology.nics if nic.label is not None}
    known |= {_gpu_name(gpu): _of_gpu(gpu, tree) for gpu in topology.gpus}
    return tuple(known.get(name, PathDevice(name=name)) for name in names)


def is_listed(nic: Nic) -> bool:
    """Whether a NIC has a row."""
    return nic.kind is not NicKind.ETHERNET


def _gpu_name(gpu: Gpu) -> str:
    return f"GPU{gpu.index}"


def _of_gpu(gpu: Gpu, tree: PciTree) -> PathDevice:
    return PathDevice(
        name=_gpu_name(gpu),
        gpu_index=gpu.index,
        pci=gpu.pci,
        numa_index=_numa(tree, gpu.numa_index, gpu.pci),
        is_gdr=gpu.is_gdr,
    )


def _of_nic(nic: Nic, tree: PciTree) -> PathDevice:
    return PathDevice(
        name=nic.label or nic.name,
        pci=nic.pci,
        numa_index=_numa(tree, nic.numa_index, nic.pci),
        is_gdr=nic.is_gdr,
    )


def _numa(tree: PciTree, own: int | None, address: PciAddress | None) -> int | None:
    return tree.numa_index(address) if own is None and address is not None else own
