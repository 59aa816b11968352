"""Nodes that could be: packages of NUMA nodes of L3 groups of cores, with GPUs and NICs beside."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from hypothesis import strategies as st

from hpckit.binding.bind import NodeBinding
from hpckit.core.index_list import expand_indices, index_list
from hpckit.node.path import PathTable
from hpckit.node.pci import PciAddress
from hpckit.node.topology import (
    CpuTopology,
    Gpu,
    L3Group,
    Nic,
    NicRole,
    NodeTopology,
    NumaKind,
    NumaNode,
    Source,
)
from hpckit.spec.nic_kind import NicKind

PATHS = ("PIX", "PXB", "PHB", "NODE", "SYS", None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A node, how many ranks it gets, and which CPUs they may have."""

    node: NodeTopology
    ranks: int
    allowed: tuple[int, ...]


def _pci(at: int) -> PciAddress:
    return PciAddress(f"{at % 3:04x}:{at * 7 % 251:02x}:00.0")


@st.composite
def _cpus(draw: st.DrawFn) -> tuple[CpuTopology, tuple[NumaNode, ...]]:
    numas, l3_groups, cores, smt = (
        draw(st.integers(1, 4)), draw(st.integers(1, 4)), draw(st.integers(1, 4)),
        draw(st.sampled_from((1, 2, 4))),
    )  # fmt: skip
    count = numas * l3_groups * cores
    is_apart = draw(st.booleans())  # siblings as x86 numbers them, else as POWER does
    core_cpus = [
        tuple(core + thread * count if is_apart else core * smt + thread for thread in range(smt))
        for core in range(count)
    ]
    groups = [core_cpus[at : at + cores] for at in range(0, count, cores)]
    nodes = [groups[at : at + l3_groups] for at in range(0, len(groups), l3_groups)]
    far = draw(st.lists(st.sampled_from((11, 12, 32)), min_size=64, max_size=64))
    numa = tuple(
        NumaNode(
            index=at,
            cpus=index_list(chain.from_iterable(chain.from_iterable(each))),
            memory_bytes=2**30,
            package_index=at // 2,
            kind=NumaKind.DRAM,
            distances=tuple(10 if at == to else far[at * 8 + to] for to in range(numas)),
        )
        for at, each in enumerate(nodes)
    )
    has_l3, has_numa, has_cores = (draw(st.integers(0, 5)) > 0 for _ in range(3))
    cpu = CpuTopology(
        core_cpus=tuple(map(index_list, core_cpus)) if has_cores else (),
        cpus=index_list(chain.from_iterable(core_cpus)),
        l3=tuple(L3Group(cpus=index_list(chain.from_iterable(one))) for one in groups)
        if has_l3
        else (),
    )
    return cpu, numa if has_numa else ()


@st.composite
def _gpus(draw: st.DrawFn, numa: tuple[NumaNode, ...], index: int) -> Gpu:
    """A GPU whose NUMA node is told, or its CPU affinity, or both, or neither."""
    near = draw(st.sampled_from((*numa, None)))
    is_by_numa, has_cpus = draw(st.booleans()), draw(st.booleans())
    return Gpu(
        index=index,
        pci=_pci(index) if draw(st.integers(0, 5)) else None,
        numa_index=near.index if near is not None and is_by_numa else None,
        cpus=near.cpus if near is not None and has_cpus else None,
        is_hidden=draw(st.integers(0, 9)) == 0,
    )


@st.composite
def requests(draw: st.DrawFn) -> Request:
    """Any node with CPUs, with 1 to 10 ranks."""
    cpu, numa = draw(_cpus())
    gpus = tuple(draw(_gpus(numa, at)) for at in range(draw(st.integers(0, 8))))
    places = st.sampled_from((*(one.index for one in numa), None))
    roles = st.sampled_from((NicRole.COMPUTE, NicRole.COMPUTE, NicRole.STORAGE, None))
    nics = tuple(
        Nic(
            index=at,
            name=f"mlx5_{at}",
            label=f"NIC{at}",
            kind=NicKind.INFINIBAND,
            numa_index=draw(places),
            role=draw(roles),
            state=draw(st.sampled_from(("ACTIVE", "ACTIVE", "DOWN", None))),
        )
        for at in range(draw(st.integers(0, 5)))
    )
    names = (*(f"GPU{gpu.index}" for gpu in gpus), *(f"NIC{nic.index}" for nic in nics))
    cells = tuple(
        tuple("X" if a == b else draw(st.sampled_from(PATHS)) for b in names) for a in names
    )
    node = NodeTopology(
        source=Source(format="test"), cpu=cpu, numa_nodes=numa, gpus=gpus, nics=nics,
        paths=PathTable(devices=names, cells=cells) if draw(st.booleans()) else None,
    )  # fmt: skip
    every = expand_indices(cpu.cpus or "")
    allowed = draw(
        st.one_of(
            st.just(every), st.lists(st.sampled_from(every), min_size=1, unique=True).map(tuple)
        )
    )
    return Request(node=node, ranks=draw(st.integers(1, 10)), allowed=allowed)


def cpus_of(binding: NodeBinding) -> list[frozenset[int]]:
    """The CPUs of each rank."""
    return [frozenset(expand_indices(one.cpus)) for one in binding.ranks]


def core_of(node: NodeTopology) -> dict[int, int]:
    """CPU → its core; a CPU of which it is not known is a core of its own."""
    return {cpu: at for at, text in enumerate(node.cpu.core_cpus) for cpu in expand_indices(text)}


def faults(node: NodeTopology, binding: NodeBinding, allowed: frozenset[int]) -> list[str]:
    """What is wrong with a binding whatever the node, told by sets alone."""
    core = {cpu: core_of(node).get(cpu, -1 - cpu) for cpu in allowed}
    each = cpus_of(binding)
    cores = [{core[cpu] for cpu in cpus & allowed} for cpus in each]
    is_room = len(set(core.values())) >= len(cores)
    whole = [frozenset(cpu for cpu in allowed if core[cpu] in own) for own in cores]
    is_told = any("share cores" in note for note in binding.notes)
    is_guess = any("share a core" in note for note in binding.notes)
    wrong = {
        "ranks are not in order": [one.local_rank for one in binding.ranks]
        != list(range(len(cores))),
        "a CPU that is not allowed": not frozenset().union(*each) <= allowed,
        "a rank without a CPU": not all(cores),
        "a core is double-booked": is_room
        and sum(map(len, cores)) > len(frozenset().union(*cores)),
        "a core is not whole": is_room and each != whole,
        "shared cores are not told": is_told is is_room and not is_guess,
    }
    return [what for what, is_so in wrong.items() if is_so]
