"""Binding of ranks on any node: no core twice, allowed CPUs alone, beside the GPU if it can be."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import chain, permutations

from hypothesis import assume, given
from hypothesis import strategies as st

from hpckit.binding.bind import NodeBinding, assign, bind_ranks
from hpckit.binding.gpus import apportion, ordered_gpus
from hpckit.core.errors import PlanError
from hpckit.core.index_list import expand_indices, index_list
from hpckit.node.topology import NicRole, NodeTopology
from tests.property.bound_nodes import Request, core_of, cpus_of, faults, requests
from tests.property.node_values import topologies


def bound(request: Request) -> NodeBinding:
    """The binding of a request."""
    return bind_ranks(request.node, request.ranks, allowed=request.allowed)


@given(requests())
def test_no_core_is_double_booked(request: Request) -> None:
    """Each rank has whole cores of its own among the allowed CPUs, the same each time."""
    binding = bound(request)
    assert faults(request.node, binding, frozenset(request.allowed)) == []
    assert bound(request) == binding


@given(requests())
def test_ranks_are_beside_their_gpu_where_they_can_be(request: Request) -> None:
    """Of the ranks with a GPU on a NUMA node, as many are on it as it has cores.

    One or two ranks have what no rank is beside too.
    """
    node, gpus = request.node, ordered_gpus(request.node)
    with_cpus = {numa.index: set(expand_indices(numa.cpus or "")) for numa in node.numa_nodes}
    assume(gpus and with_cpus)
    request = replace(request, ranks=len(gpus))
    allowed, core = set(request.allowed), core_of(node)
    cores = {
        at: len({core.get(cpu, -1 - cpu) for cpu in cpus & allowed})
        for at, cpus in with_cpus.items()
    }
    assume(sum(cores.values()) >= request.ranks)
    only = next(iter(with_cpus)) if len(with_cpus) == 1 else None
    beside = {numa.cpus: numa.index for numa in node.numa_nodes}
    homes = [
        gpu.numa_index if gpu.numa_index is not None else beside[gpu.cpus] if gpu.cpus else only
        for gpu in gpus
    ]
    inside = [
        home for home, cpus in zip(homes, cpus_of(bound(request)), strict=True)
        if home is not None
        and (cpus <= with_cpus[home] or (len(gpus) <= 2 and cpus & with_cpus[home]))
    ]  # fmt: skip
    wanted = Counter(home for home in homes if home is not None)
    # A GPU of unknown place is put where there is room, never where another is at home.
    assert Counter(inside) == Counter({at: min(n, cores[at]) for at, n in wanted.items()})


@given(requests(), st.randoms(use_true_random=False))
def test_the_drivers_numbers_are_names(request: Request, random: object) -> None:
    """GPUs counted in another order, and NUMA nodes by other numbers, change nothing but these."""
    node = request.node
    assume(all(gpu.pci is not None for gpu in node.gpus) and node.paths is None)
    turned = tuple(
        replace(gpu, index=len(node.gpus) - 1 - gpu.index) for gpu in reversed(node.gpus)
    )
    number = {one.index: 40 - 3 * one.index for one in node.numa_nodes}
    other = replace(
        node,
        gpus=tuple(replace(gpu, numa_index=_new(number, gpu.numa_index)) for gpu in turned),
        nics=tuple(replace(nic, numa_index=_new(number, nic.numa_index)) for nic in node.nics),
        numa_nodes=tuple(replace(one, index=number[one.index]) for one in node.numa_nodes),
    )
    mine, its = bound(request), bound(replace(request, node=other))
    for one, same in zip(mine.ranks, its.ranks, strict=True):
        assert same.cpus == one.cpus
        assert same.nics == one.nics
        assert [gpu.pci for gpu in same.gpus] == [gpu.pci for gpu in one.gpus]
        renamed = [number[at] for at in expand_indices(one.memory_numa)]
        assert same.memory_numa == index_list(renamed)


def _new(number: dict[int, int], index: int | None) -> int | None:
    return None if index is None else number[index]


@given(requests())
def test_only_nics_for_jobs_are_given(request: Request) -> None:
    """No rank gets a NIC for storage or one that is down, and each rank gets one if any is left."""
    nics = {nic.name: nic for nic in request.node.nics}
    has_known = any(nic.role is NicRole.COMPUTE for nic in nics.values())
    wanted = NicRole.COMPUTE if has_known else None
    usable = {name for name, nic in nics.items() if nic.role is wanted and nic.state != "DOWN"}
    for rank in bound(request).ranks:
        assert set(rank.nics) <= usable
        assert bool(rank.nics) is bool(usable)


@given(topologies, st.integers(1, 12))
def test_any_topology_is_bound_or_refused(node: NodeTopology, ranks: int) -> None:
    """Numbers with sense or without give a binding in which every rank has its place."""
    try:
        binding = bind_ranks(node, ranks)
    except PlanError:
        return
    assert len(binding.ranks) == ranks
    if any(one.cpus for one in binding.ranks):
        every = frozenset(
            chain.from_iterable(expand_indices(n.cpus or "") for n in node.numa_nodes)
        )
        every |= frozenset(chain.from_iterable(expand_indices(g.cpus or "") for g in node.gpus))
        every |= frozenset(
            chain.from_iterable(expand_indices(p.cpus or "") for p in node.cpu.packages)
        )
        assert faults(node, binding, every) == []


@given(
    st.integers(1, 5).flatmap(
        lambda columns: st.lists(
            st.lists(st.integers(0, 30), min_size=columns, max_size=columns), min_size=1, max_size=5
        )
    )
)
def test_the_assignment_costs_least(costs: list[list[int]]) -> None:
    """No other assignment with the same room costs less, all of them tried."""
    columns = len(costs[0])
    room = -(-len(costs) // columns)
    chosen = assign(costs, room)
    assert max(Counter(chosen).values()) <= room
    seats = [column for column in range(columns) for _ in range(room)]
    least = min(
        sum(row[to] for row, to in zip(costs, order, strict=True))
        for order in permutations(seats, len(costs))
    )
    assert sum(row[to] for row, to in zip(costs, chosen, strict=True)) == least


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(0, 60))
def test_shares_are_near_their_quota(weights: list[int], more: int) -> None:
    """Shares add up to the whole, and none but a share of one is a whole above its quota."""
    total = len(weights) + more
    shares = apportion(total, weights)
    assert sum(shares) == total
    assert min(shares) >= 1
    assert all(
        share == 1 or share < total * weight / sum(weights) + 1
        for share, weight in zip(shares, weights, strict=True)
    )
