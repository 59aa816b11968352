"""What an all-to-all can reach at most: its traffic over the links that it has to pass.

NCCL's tuning model does not know all-to-all, which is sends and receives. Each of n GPUs sends
every other the n-th part of its data, so the bytes that pass a link follow from where it is, and
the slowest link bounds the rest. Links carry what NCCL reckons them to. That GPUs share the port
of a PCIe switch is not known here.
"""

from __future__ import annotations

from itertools import combinations

from hpckit.decide.busbw_facts import cpu_link_gb_per_s
from hpckit.decide.busbw_room import Bound, Room, linked_gb_per_s, pcie_gb_per_s
from hpckit.model.busbw import CommMachine
from hpckit.model.comm import NcclVersion
from hpckit.model.path import PathKind


def pairs_bound(machine: CommMachine, room: Room, nccl: NcclVersion) -> Bound | str:
    """The bus bandwidth of all-to-all, and what bounds it; or why it is not known."""
    bounds = [] if room.gpus == 1 else [_within(machine, room, nccl)]
    told = [one for one in bounds if isinstance(one, Bound)]
    if len(told) < len(bounds):
        return next(one for one in bounds if isinstance(one, str))
    if room.nic is not None:
        told.append(_between(room, room.nic))
    return min(told, key=lambda one: one.gb_per_s)


def _between(room: Room, nic: Bound) -> Bound:
    """Of what a GPU sends, only what is for other nodes passes the NICs."""
    ranks, inside = room.ranks, room.gpus
    bus = nic.gb_per_s / room.gpus * (ranks - 1) / (ranks - inside)
    return Bound(gb_per_s=bus, words=f"{nic.words}, for {inside} GPUs")


def _within(machine: CommMachine, room: Room, nccl: NcclVersion) -> Bound | str:
    ranks, peers = room.ranks, room.gpus - 1
    scale = (ranks - 1) / peers
    links, one = machine.links, linked_gb_per_s(machine, nccl)
    if links is None or one is None:
        return _over_pcie(machine, room, nccl)
    if links.is_switched or links.per_pair is None:
        return Bound(gb_per_s=room.intra.gb_per_s * scale, words=room.intra.words)
    if links.pairs != peers:
        return "not all GPUs are joined directly, so traffic of others passes their links too"
    words = f"{links.kind}: {links.per_pair} of {one:g} GB/s between two GPUs"
    return Bound(gb_per_s=links.per_pair * one * peers * scale, words=words)


def _over_pcie(machine: CommMachine, room: Room, nccl: NcclVersion) -> Bound | str:
    pcie = None if machine.pcie is None else pcie_gb_per_s(machine.pcie)
    if pcie is None or machine.ring is None:
        return "speed and width of the GPUs' PCIe links are not known"
    ranks = room.ranks
    scale = (ranks - 1) / (room.gpus - 1)
    own = min(pcie, room.intra.gb_per_s) if machine.ring.farthest is not PathKind.SYS else pcie
    bound = Bound(gb_per_s=own * scale, words="PCIe of a GPU")
    cpus = cpu_link_gb_per_s(machine.cpu, nccl)
    if machine.ring.farthest is not PathKind.SYS or cpus is None:
        return bound
    crossing = max(one * other for one, other in combinations(machine.ring.sides, 2))
    between = Bound(gb_per_s=cpus * (ranks - 1) / crossing, words="the link between two CPUs")
    return min(bound, between, key=lambda each: each.gb_per_s)
