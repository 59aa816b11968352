"""How many channels of what bandwidth NCCL's search finds on a machine.

The search tries a descending list of bandwidths and keeps the best product of channels and
bandwidth; a second pass doubles channels and tries to widen what it has. Here the backtracking
over orders of GPUs is replaced by a division: as many channels as the links have room for. That
is what NCCL finds on a switch and in regular meshes. Source: NCCL src/graph/search.cc
(ncclTopoCompute, ncclTopoDupChannels, ncclTopoSearchTryNvls, ncclTopoCompareGraphs), init.cc.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.decide.busbw_facts import MOST_CHANNELS, MOST_HEADS, SpeedFact
from hpckit.decide.busbw_room import Room

_WORTH_SLOWER: Final = 0.49
_DOUBLE_FROM: Final = 25.0
_KEEP_BELOW: Final = 50.0
_ENOUGH: Final = 4
_AMPERE: Final = 80
_HOPPER: Final = 90

Fits = Callable[[float], int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """What the search found: channels, and what each carries within and between nodes, in GB/s.

    `is_simple` is a tree all of whose traffic to a NIC passes one GPU.
    """

    channels: int
    intra: float
    inter: float
    is_simple: bool = False


def ring_graph(room: Room, speeds: SpeedFact, capability: int) -> Graph | None:
    """The rings; None where not even the slowest channel fits."""
    tried, most = _tried(room, speeds)
    ends_differ = len(room.nics) >= room.gpus

    def fits(speed: float) -> int:
        within = room.fits_intra(speed, alternate=room.nodes > 1 and ends_differ)
        return within if room.nodes == 1 else min(within, room.fits_inter(speed))

    found = _widest(tried, fits, most=most, enough=room.total)
    if found is None:
        return None
    channels, speed = _doubled(*found, capability)
    for faster in reversed([one for one in tried if one > speed]):
        if fits(faster) >= channels:
            speed = faster
    return Graph(channels=channels, intra=speed, inter=speed)


def tree_graph(room: Room, speeds: SpeedFact, ring: Graph, capability: int) -> Graph:
    """The trees, of which there are as many as rings."""
    tried, most = _tried(room, speeds)
    spread = room.gpus / (room.gpus - 1) if room.gpus > 1 else 1.0
    wanted = ring.channels

    def has_room(intra: float, inter: float) -> bool:
        within = room.fits_intra(intra, alternate=True) >= wanted
        return within and (room.nodes == 1 or room.fits_inter(inter) >= wanted)

    speed = ring.intra
    for one in tried:
        if one <= most and one * wanted <= room.total * spread and has_room(one, one):
            speed = max(one, ring.intra)
            break
    intra = speed
    for faster in reversed([one for one in tried if one > speed]):
        if intra >= 2 * speed or not has_room(faster, speed):
            break
        intra = faster
    is_simple = capability >= _HOPPER and room.nodes > 1 and len(room.nics) >= room.gpus > 1
    return Graph(channels=wanted, intra=intra, inter=speed, is_simple=is_simple)


def nvls_graph(room: Room, speeds: SpeedFact) -> Graph | None:
    """The channels through the switch, one a GPU that heads one; None for fewer than two."""
    tried, _ = _tried(room, speeds)
    spread = room.gpus / (room.gpus - 1) if room.gpus > 1 else 1.0
    least = min(MOST_HEADS, room.gpus)
    found = _heads(room, tried, least) if room.nodes > 1 else None
    if room.nodes == 1:
        fitting = (
            one
            for one in tried
            if one * least <= room.total * spread and room.fits_intra(one) >= least + 1
        )
        speed = next(fitting, None)
        found = None if speed is None else (least, speed)
    if found is None or found[0] <= 1:
        return None
    heads, speed = found
    inter = speed
    for faster in reversed([one for one in tried if one > speed]):
        if inter >= 2 * speed:
            break
        if room.nodes > 1 and sum(one >= faster for one in room.nics) < heads:
            break
        inter = faster
    return Graph(channels=heads, intra=speed, inter=inter)


def _heads(room: Room, tried: Sequence[float], most: int) -> tuple[int, float] | None:
    """Each head has a NIC of its own, takes twice and lets every other GPU's share through."""
    best: tuple[int, float] | None = None
    for speed in tried:
        if best is not None and speed / best[1] <= _WORTH_SLOWER:
            break
        near = sum(one >= speed for one in room.nics)
        heads = min(most, near, room.fits_intra(speed) - 1)
        if heads < 1:
            continue
        if best is None or heads > best[0] or heads * speed > best[0] * best[1]:
            best = heads, speed
        if heads == most:
            break
    return best


def _tried(room: Room, speeds: SpeedFact) -> tuple[tuple[float, ...], float]:
    """The speeds that one channel can have at all, and the most of that."""
    most = room.pair if room.nodes == 1 else max(room.nics, default=0.0)
    listed = speeds.intra if room.nodes == 1 else speeds.inter
    return tuple(one for one in listed if one <= most), most


def _widest(
    tried: Sequence[float], fits: Fits, *, most: float, enough: float
) -> tuple[int, float] | None:
    best: tuple[int, float] | None = None
    for speed in tried:
        if best is not None and speed / best[1] <= _WORTH_SLOWER:
            break
        channels = min(fits(speed), MOST_CHANNELS) if speed <= most else 0
        if channels and (best is None or channels * speed > best[0] * best[1]):
            best = channels, speed
        if best is not None and (channels == MOST_CHANNELS or best[0] * best[1] >= enough):
            break
    return best


def _doubled(channels: int, speed: float, capability: int) -> tuple[int, float]:
    """Twice the channels of half the bandwidth, where one is much for one SM."""
    is_spread = capability > _AMPERE and speed < _KEEP_BELOW and channels > _ENOUGH
    if speed < _DOUBLE_FROM or is_spread:
        return channels, speed
    doubled = min(2 * channels, MOST_CHANNELS)
    return doubled, speed / -(-doubled // channels)
