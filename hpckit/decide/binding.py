"""Binds the ranks of a node: GPUs first, then the CPUs, the memory and the NICs beside them.

Only the standard library is used: each node's first rank runs this inside the job. Sources: the
algorithm is mpibind's (León, "mpibind: A Memory-Centric Affinity Algorithm for Hybrid
Applications", MEMSYS 2017), with GPUs in the place of NUMA nodes as what drives it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from hpckit.decide.binding_cpus import (
    Distances,
    Domain,
    domains,
    memory_of,
    sibling_offset,
    usable_cpus,
    with_told_numa,
)
from hpckit.decide.binding_gpus import beside, gpus_of_ranks, ordered_gpus
from hpckit.decide.binding_nics import GivenNic, Nics
from hpckit.decide.binding_places import Place, Places, gpu_words
from hpckit.decide.binding_split import Share, split
from hpckit.errors import PlanError
from hpckit.model.binding import BoundGpu, NodeBinding, RankBinding
from hpckit.model.hardware import Gpu, NodeTopology
from hpckit.model.index_list import index_list


def bind_ranks(
    node: NodeTopology,
    ranks: int,
    *,
    allowed: Sequence[int] | None = None,
    gpus_per_rank: int | None = None,
    threads_per_core: int | None = None,
) -> NodeBinding:
    """What each of `ranks` ranks of a node gets, and why.

    Rank r has GPU r, in the order of PCI addresses; where there are more of either, runs of it.
    Its CPUs are whole cores on the NUMA node of its GPUs, among `allowed` (those that the
    topology says are, if None): whole L3 groups if there are enough of them. Ranks share a core
    only where there are fewer cores than ranks. Without GPUs the NUMA nodes are dealt. Of a core's
    CPUs the first `threads_per_core` are taken. Raises PlanError.
    """
    _check(ranks, gpus_per_rank, threads_per_core)
    node = with_told_numa(node)
    gpus = ordered_gpus(node)
    held, why_gpus = gpus_of_ranks(len(gpus), ranks, gpus_per_rank)
    near = beside(node, gpus)
    affinities = list(dict.fromkeys(one.cpus for one in near if one.numa is None and one.cpus))
    parts = domains(node, usable_cpus(node, allowed), affinities, threads_per_core)
    places, shares = _shares(parts, Places(parts, near, Distances(node)), held)
    numa = [_numa_of(share, parts) for share in shares]
    nics = Nics(node)
    given = _nics_of_ranks(nics, gpus, held, numa)
    memory = [memory_of(node, each) for each in numa]
    return NodeBinding(
        ranks=tuple(
            RankBinding(
                local_rank=rank,
                gpus=tuple(_bound(at, gpus[at]) for at in held[rank]),
                gpus_because=why_gpus[rank],
                cpus=index_list(shares[rank].cpus),
                cpus_because=shares[rank].because,
                memory_numa=index_list(memory[rank][0]),
                memory_because=memory[rank][1],
                nics=given[rank][0],
                nics_because=given[rank][1],
            )
            for rank in range(ranks)
        ),
        notes=tuple(_notes(node, parts, places, shares, nics)),
    )


def _bound(position: int, gpu: Gpu) -> BoundGpu:
    return BoundGpu(position=position, index=gpu.index, uuid=gpu.uuid, pci=gpu.pci)


def _check(ranks: int, gpus_per_rank: int | None, threads_per_core: int | None) -> None:
    for what, number in (
        ("ranks", ranks),
        ("gpus_per_rank", gpus_per_rank),
        ("threads_per_core", threads_per_core),
    ):
        if number is not None and number < 1:
            raise PlanError(f"{what} of a node", have=str(number), need="1 or more")


def _shares(
    parts: Sequence[Domain], places: Places, held: Sequence[range]
) -> tuple[list[Place], list[Share]]:
    if not parts:
        why = "the CPUs of this node are not known"
        return [Place(because=why) for _ in held], [Share(because=why) for _ in held]
    found = places.of_ranks(held)
    return found, split(parts, found)


def _numa_of(share: Share, parts: Sequence[Domain]) -> tuple[int, ...]:
    return tuple(sorted(set(chain.from_iterable(parts[at].numa for at in share.domains))))


def _nics_of_ranks(
    nics: Nics, gpus: Sequence[Gpu], held: Sequence[range], numa: Sequence[Sequence[int]]
) -> list[tuple[tuple[str, ...], str]]:
    if not nics.usable:
        return [((), "the node shows no NIC for jobs that is up")] * len(held)
    if not gpus:
        own = nics.for_ranks(numa)
        return [(_names(own[at]), _nic_words(own[at], "its CPUs")) for at in range(len(held))]
    used = sorted({at for run in held for at in run})
    of_gpu = dict(zip(used, nics.for_gpus([gpus[at] for at in used]), strict=True))
    found = []
    for run in held:
        given = [one for at in run for one in of_gpu[at]]
        found.append((_names(given), _nic_words(given, gpu_words(run))))
    return found


def _names(given: Sequence[GivenNic]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.nic.name for one in given))


def _nic_words(given: Sequence[GivenNic], end: str) -> str:
    kinds = dict.fromkeys("path unknown" if one.kind is None else one.kind.value for one in given)
    shared = ", shared with others" if any(one.others for one in given) else ""
    return f"{', '.join(kinds)} to {end}{shared}"


def _notes(
    node: NodeTopology,
    parts: Sequence[Domain],
    places: Sequence[Place],
    shares: Sequence[Share],
    nics: Nics,
) -> list[str]:
    found = []
    cores = sum(len(one.cores) for one in parts)
    if parts and cores < len(shares):
        found.append(f"ranks share cores: {cores} of them are allowed for {len(shares)} ranks")
    if parts and not node.cpu.core_cpus:
        found.append(f"which CPUs share a core is not known: {_taken_for_cores(node)}")
    moved = [rank for rank, place in enumerate(places) if place.is_moved]
    if moved:
        whose = "its GPU: rank" if len(moved) == 1 else "their GPU: ranks"
        found.append(f"not beside {whose} {index_list(moved)}")
    idle = set(range(len(parts))) - {at for share in shares for at in share.domains}
    if idle:
        cpus = index_list(chain.from_iterable(parts[at].cpus for at in idle))
        found.append(f"no rank is bound to CPUs {cpus}: no GPU of a rank is beside them")
    return [*found, *nics.notes()]


def _taken_for_cores(node: NodeTopology) -> str:
    offset = sibling_offset(node)
    if offset is None:
        return "each is taken for a core of its own"
    return f"by their numbers, n and n+{offset} are taken for one core's"
