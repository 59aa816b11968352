"""The GPUs of a node in CUDA's order, dealt to ranks, and where each of them sits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hpckit.decide.binding_shares import dealt
from hpckit.decide.pci_tree import PciTree
from hpckit.errors import PlanError
from hpckit.model.hardware import Gpu, NodeTopology
from hpckit.model.index_list import expand_indices
from hpckit.model.words import counted


def ordered_gpus(node: NodeTopology) -> tuple[Gpu, ...]:
    """The GPUs that the driver shows, by PCI address; those without one last, by their index."""
    return tuple(sorted((gpu for gpu in node.gpus if not gpu.is_hidden), key=_order))


def gpus_of_step(node: NodeTopology, listed: str) -> NodeTopology:
    """The node without GPUs that Slurm gave to other jobs, where the driver shows those too.

    `listed` is SLURM_STEP_GPUS, the numbers of the node's GPUs that the step has. Where the driver
    shows no more than those (ConstrainDevices) it numbers them anew, and all are the step's; so
    they are where the list is empty, or names what is not there. Source: srun(1).
    """
    try:
        wanted = set(expand_indices(listed))
    except ValueError:
        return node
    shown = [gpu for gpu in node.gpus if not gpu.is_hidden]
    own = [gpu for gpu in shown if gpu.index in wanted]
    if not wanted or len(own) != len(wanted) or len(shown) == len(own):
        return node
    return replace(node, gpus=tuple(gpu for gpu in node.gpus if gpu.is_hidden or gpu in own))


def _order(gpu: Gpu) -> tuple[bool, int, str, int]:
    address = gpu.pci or ""
    # A domain above ffff has more digits, so the length counts first.
    return (gpu.pci is None, len(address), address, gpu.index)


def gpus_of_ranks(
    gpus: int, ranks: int, gpus_per_rank: int | None
) -> tuple[list[range], list[str]]:
    """The positions of each rank's GPUs, and why. Raises PlanError for more than there are."""
    if gpus_per_rank is not None:
        if ranks * gpus_per_rank > gpus:
            need = f"{ranks} ranks × {gpus_per_rank}"
            raise PlanError("the GPUs of the ranks", have=f"{gpus} GPUs", need=need)
        places = [range(at * gpus_per_rank, (at + 1) * gpus_per_rank) for at in range(ranks)]
        return places, [f"{gpus_per_rank} a rank, by PCI address"] * ranks
    if not gpus:
        return [range(0)] * ranks, ["the node shows no GPU"] * ranks
    places = dealt(gpus, ranks)
    why = f"{counted(gpus, 'GPU')} in runs to {counted(ranks, 'rank')}, by PCI address"
    if gpus == ranks:
        why = "the GPU of its number, by PCI address"
    elif gpus < ranks:
        why = f"shared: {counted(gpus, 'GPU')} for {ranks} ranks, in runs, by PCI address"
    return places, [why] * ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Where a GPU sits: a NUMA node, else CPUs as its driver names them; neither if not known."""

    numa: int | None = None
    cpus: frozenset[int] = frozenset()


def beside(node: NodeTopology, gpus: Sequence[Gpu]) -> list[Beside]:
    """Where each GPU sits: as it or a bridge above it says, else by its CPU affinity.

    A node with CPUs in one NUMA node alone has no other place.
    """
    tree = PciTree(node.pci)
    with_cpus = [numa.index for numa in node.numa_nodes if numa.cpus]
    only = with_cpus[0] if len(with_cpus) == 1 else None
    found = []
    for gpu in gpus:
        numa = gpu.numa_index
        if numa is None and gpu.pci is not None:
            numa = tree.numa_index(gpu.pci)
        cpus = frozenset(expand_indices(gpu.cpus or ""))
        found.append(Beside(numa=only if numa is None and not cpus else numa, cpus=cpus))
    return found
