"""The GPUs of a node in CUDA's order, dealt to ranks, and where each of them sits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate
from typing import TypeVar

from hpckit.core.errors import PlanError
from hpckit.core.index_list import expand_indices
from hpckit.core.units import counted
from hpckit.core.values import dataclass
from hpckit.node.pci_tree import PciTree
from hpckit.node.topology import Gpu, Nic, NodeTopology

Thing = TypeVar("Thing")


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Shares of `total` in proportion to the weights, at least one each, by largest remainder.

    `total` is no less than there are weights. Of equals the first has more.
    """
    whole = sum(weights)
    shares = [max(1, total * weight // whole) for weight in weights]

    def lacking(at: int) -> int:
        return total * weights[at] - shares[at] * whole

    places = range(len(weights))
    while sum(shares) < total:
        shares[max(places, key=lambda at: (lacking(at), -at))] += 1
    while sum(shares) > total:
        shares[min((at for at in places if shares[at] > 1), key=lambda at: (lacking(at), -at))] -= 1
    return shares


def chunks(things: Sequence[Thing], sizes: Sequence[int]) -> list[Sequence[Thing]]:
    """The things in runs of these sizes."""
    ends = list(accumulate(sizes))
    return [things[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def dealt(count: int, ranks: int) -> list[range]:
    """Which of `count` things each rank has: a run of them each, or a run of ranks on each."""
    if count >= ranks:
        return [range(run[0], run[-1] + 1) for run in _runs(count, ranks)]
    of_rank = [at for at, run in enumerate(_runs(ranks, count)) for _ in run]
    return [range(at, at + 1) for at in of_rank]


def _runs(count: int, parts: int) -> list[Sequence[int]]:
    return chunks(range(count), apportion(count, [1] * parts))


def seats(homes: Sequence[Sequence[int]], room: Sequence[int]) -> list[int | None]:
    """A place for as many as can have one of their own choice, `room` of them in each place.

    Source: augmenting paths of bipartite matching (Kuhn). Who comes first keeps a place.
    """
    taken: list[list[int]] = [[] for _ in room]

    def seat(who: int, seen: set[int]) -> bool:
        for place in homes[who]:
            if place in seen:
                continue
            seen.add(place)
            if len(taken[place]) < room[place]:
                taken[place].append(who)
                return True
            for at in reversed(range(len(taken[place]))):
                if seat(taken[place][at], seen):
                    taken[place][at] = who
                    return True
        return False

    for who in range(len(homes)):
        seat(who, set())
    found: list[int | None] = [None] * len(homes)
    for place, there in enumerate(taken):
        for who in there:
            found[who] = place
    return found


def ordered_gpus(node: NodeTopology) -> tuple[Gpu, ...]:
    """The GPUs that the driver shows, by PCI address; those without one last, by their index."""

    def order(gpu: Gpu) -> tuple[bool, int, str, int]:
        # A domain above ffff has more digits, so the length counts first.
        return gpu.pci is None, len(gpu.pci or ""), gpu.pci or "", gpu.index

    return tuple(sorted((gpu for gpu in node.gpus if not gpu.is_hidden), key=order))


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


def gpus_of_ranks(
    gpus: int, ranks: int, gpus_per_rank: int | None
) -> tuple[list[range], list[str]]:
    """The positions of each rank's GPUs, and why. Raises PlanError for more than there are."""
    if gpus_per_rank is not None:
        if ranks * gpus_per_rank > gpus:
            need = f"{ranks} ranks × {gpus_per_rank}"
            raise PlanError("too few GPUs for the ranks", have=f"{gpus} GPUs", need=need)
        places = [range(at * gpus_per_rank, (at + 1) * gpus_per_rank) for at in range(ranks)]
        return places, [f"{gpus_per_rank} per rank, in PCI order"] * ranks
    if not gpus:
        return [range(0)] * ranks, ["no GPU on this node"] * ranks
    places = dealt(gpus, ranks)
    why = f"{counted(gpus, 'GPU')} for {counted(ranks, 'rank')}, consecutive in PCI order"
    if gpus == ranks:
        why = "index = local rank, in PCI order"
    elif gpus < ranks:
        why = f"shared: {counted(gpus, 'GPU')} for {ranks} ranks, in PCI order"
    return places, [why] * ranks


@dataclass(frozen=True, slots=True, kw_only=True)
class Beside:
    """Where a GPU sits: a NUMA node, else CPUs as its driver names them; neither if not known."""

    numa: int | None = None
    cpus: frozenset[int] = frozenset()


def numa_of(device: Gpu | Nic, tree: PciTree) -> int | None:
    """Return a device's NUMA node, as it or a bridge above it says."""
    if device.numa_index is None and device.pci is not None:
        return tree.numa_index(device.pci)
    return device.numa_index


def beside(node: NodeTopology, gpus: Sequence[Gpu]) -> list[Beside]:
    """Where each GPU sits: as it or a bridge above it says, else by its CPU affinity.

    A node with CPUs in one NUMA node alone has no other place.
    """
    tree = PciTree(node.pci)
    with_cpus = [numa.index for numa in node.numa_nodes if numa.cpus]
    only = with_cpus[0] if len(with_cpus) == 1 else None
    found = []
    for gpu in gpus:
        numa = numa_of(gpu, tree)
        cpus = frozenset(expand_indices(gpu.cpus or ""))
        found.append(Beside(numa=only if numa is None and not cpus else numa, cpus=cpus))
    return found
