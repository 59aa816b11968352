"""What NCCL's tuning model makes of channels: bus bandwidth of large messages by algorithm.

Bandwidths are NCCL's GB/s. Source: NCCL src/graph/tuning.cc, ncclTopoTuneModel. Left out: PAT and
CollNet without NVLS, of which the model knows more than a node shows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from hpckit.comm.bandwidth.facts import (
    MOST_CHANNELS,
    MOST_HEADS,
    NVLS_OF_TWO,
    NVLS_RATED,
    ChannelFact,
    SpeedFact,
    channel_facts,
    speeds_of,
)
from hpckit.comm.bandwidth.machine import Bound, Room
from hpckit.comm.bandwidth.values import Algorithm, Collective
from hpckit.core.units import counted
from hpckit.core.values import dataclass
from hpckit.spec.platform import NcclVersion

# --- How many channels of what bandwidth NCCL's search finds on a machine.
# The search tries a descending list of bandwidths and keeps the best product of channels and
# bandwidth; a second pass doubles channels and tries to widen what it has. Here the backtracking
# over orders of GPUs is replaced by a division: as many channels as the links have room for. That
# is what NCCL finds on a switch and in regular meshes. Source: NCCL src/graph/search.cc
# (ncclTopoCompute, ncclTopoDupChannels, ncclTopoSearchTryNvls, ncclTopoCompareGraphs), init.cc.

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


_TREE: Final = 0.92
_SIMPLE_TREE: Final = 0.85
_OLD_NVLS: Final = 5 / 6
_TWO: Final = 2
GATHERS: Final = (Collective.ALL_GATHER, Collective.REDUCE_SCATTER)
"""The collectives that pass each byte once."""
RINGED: Final = (Collective.ALL_REDUCE, *GATHERS, Collective.BROADCAST)
"""The collectives that NCCL tunes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rate:
    """The plateau of one algorithm for one collective, and what bounds it.

    `simple` is its bus bandwidth by the protocol for large messages; `words` says how it comes
    about.
    """

    collective: Collective
    algorithm: Algorithm
    graph: Graph
    simple: float
    limited_by: str
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What rates are reckoned for."""

    room: Room
    capability: int
    nccl: NcclVersion
    has_nvls: bool = False
    has_sharp: bool = False

    @property
    def facts(self) -> ChannelFact:
        """What a channel may carry on GPUs of this generation."""
        return channel_facts(self.capability, self.nccl)

    @property
    def column(self) -> int:
        """Which figure of a fact: for one node, two, or more."""
        return min(self.room.nodes, 3) - 1


def rates(setting: Setting) -> tuple[Rate, ...]:
    """All algorithms that the machine has, of each collective; none if no ring fits."""
    speeds = speeds_of(setting.capability, setting.nccl)
    ring = ring_graph(setting.room, speeds, setting.capability)
    if ring is None:
        return ()
    found = [_ring(setting, ring, collective) for collective in RINGED]
    tree = tree_graph(setting.room, speeds, ring, setting.capability)
    found.append(_tree(setting, tree))
    is_enough = setting.room.gpus > _TWO or setting.nccl >= NVLS_OF_TWO
    nvls = nvls_graph(setting.room, speeds) if setting.has_nvls and is_enough else None
    if nvls is not None and setting.facts.nvls_efficiency:
        found += _nvls(setting, nvls)
    return tuple(found)


def ring_bound(room: Room) -> Bound:
    """The link that bounds rings: the one within a node, or the NICs."""
    if room.nic is None:
        return room.intra
    within = room.intra.gb_per_s
    if len(room.nics) >= room.gpus > 1:
        within *= room.gpus / (room.gpus - 1)
    return room.intra if within < room.nic.gb_per_s else room.nic


def _ring(setting: Setting, graph: Graph, collective: Collective) -> Rate:
    return Rate(
        collective=collective, algorithm=Algorithm.RING, graph=graph,
        simple=graph.channels * graph.intra,
        limited_by=ring_bound(setting.room).words,
        words=f"{counted(graph.channels, 'ring')} of {graph.intra:g} GB/s",
    )  # fmt: skip


def _tree(setting: Setting, graph: Graph) -> Rate:
    facts, at, room = setting.facts, setting.column, setting.room
    channel = graph.intra if room.nodes <= _TWO else graph.inter
    wide, most = graph.channels * channel * _TREE, graph.channels * facts.tree[at]
    bus, ends = min(wide, most), (room.ranks - 1) / room.ranks
    last = _SIMPLE_TREE if graph.is_simple else 1.0
    words = f"{counted(graph.channels, 'tree')} of {channel:g} GB/s, at 92 %"
    if most < wide:
        words = f"{counted(graph.channels, 'tree')} of at most {facts.tree[at]:g} GB/s"
    return Rate(
        collective=Collective.ALL_REDUCE, algorithm=Algorithm.TREE, graph=graph,
        simple=bus * last * ends,
        limited_by="NCCL's limit per tree" if most < wide else ring_bound(room).words,
        words=words + (", and 85 % for one GPU per NIC" if graph.is_simple else ""),
    )  # fmt: skip


def _nvls(setting: Setting, graph: Graph) -> list[Rate]:
    room = setting.room
    if room.nodes == 1:
        wanted = [(Collective.ALL_REDUCE, Algorithm.NVLS)]
        wanted += [(collective, Algorithm.NVLS) for collective in GATHERS]
    else:
        wanted = [(Collective.ALL_REDUCE, Algorithm.NVLS_TREE)]
        wanted += [(Collective.ALL_REDUCE, Algorithm.NVLS)] if setting.has_sharp else []
    return [_switched(setting, graph, collective, algorithm) for collective, algorithm in wanted]


def _switched(setting: Setting, graph: Graph, collective: Collective, algorithm: Algorithm) -> Rate:
    bound, shown = _rated(setting, graph, collective, algorithm)
    if setting.nccl < NVLS_RATED:
        # The older rating is what NCCL chose by. Of GB200 and B200 it is above all that was
        # measured; where the newer one is less, that is the better word for what is reached.
        before = _rated_before(setting, graph, collective, algorithm)
        bound, shown = min((bound, shown), before, key=lambda one: one[0].gb_per_s)
    bus = graph.channels * bound.gb_per_s
    if collective in GATHERS:
        bus *= (setting.room.ranks - 1) / setting.room.ranks
    return Rate(
        collective=collective, algorithm=algorithm, graph=graph, simple=bus,
        limited_by=bound.words, words=shown,
    )  # fmt: skip


def _rated(
    setting: Setting, graph: Graph, collective: Collective, algorithm: Algorithm
) -> tuple[Bound, str]:
    """What a head carries: the least of the switch, the NICs and what a channel may."""
    room, facts, heads = setting.room, setting.facts, graph.channels
    intra = graph.intra * facts.nvls_efficiency * (heads - 1) / heads
    intra *= 2 if collective is Collective.ALL_REDUCE else (room.gpus - 1) / room.gpus
    is_pair = room.nodes <= _TWO and algorithm is Algorithm.NVLS_TREE
    outer = "NCCL's widest channel" if room.nic is None else room.nic.words
    bounds = [
        Bound(gb_per_s=intra, words="the NVLink switch, as NCCL rates it"),
        Bound(gb_per_s=graph.inter * (2 if is_pair else 1), words=outer),
    ]
    if algorithm is Algorithm.NVLS_TREE:
        most = facts.nvls_tree[setting.column]
        bounds.append(Bound(gb_per_s=most, words="NCCL's limit per NVLSTree channel"))
    bound = min(bounds, key=lambda one: one.gb_per_s)
    return bound, f"{counted(heads, 'head')} of {bound.gb_per_s:.3g} GB/s"


def _rated_before(
    setting: Setting, graph: Graph, collective: Collective, algorithm: Algorithm
) -> tuple[Bound, str]:
    """The same as 2.19 to 2.27 have it: 5/6 of what the operation moves, not of the bus."""
    room = setting.room
    outer = graph.inter
    if algorithm is Algorithm.NVLS_TREE and room.nodes > _TWO:
        outer /= 2
    channel = min(graph.intra, outer)
    bus = channel * _OLD_NVLS
    if collective is Collective.ALL_REDUCE:
        bus *= 2 * (room.ranks - 1) / room.ranks
    is_nic = room.nic is not None and outer < graph.intra
    words = room.nic.words if is_nic and room.nic is not None else "the NVLink switch"
    shown = f"{counted(graph.channels, 'head')} of {channel:g} GB/s, at 5/6 per operation"
    return Bound(gb_per_s=bus, words=words), shown
