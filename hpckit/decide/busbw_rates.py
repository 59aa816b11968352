"""What NCCL's tuning model makes of channels: bus bandwidth of large messages by algorithm.

Bandwidths are NCCL's GB/s. Source: NCCL src/graph/tuning.cc, ncclTopoTuneModel. Left out: PAT and
CollNet without NVLS, of which the model knows more than a node shows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from hpckit.decide.busbw_facts import (
    NVLS_OF_TWO,
    NVLS_RATED,
    ChannelFact,
    channel_facts,
    speeds_of,
)
from hpckit.decide.busbw_graph import Graph, nvls_graph, ring_graph, tree_graph
from hpckit.decide.busbw_room import Bound, Room
from hpckit.model.busbw import Algorithm, Collective
from hpckit.model.comm import NcclVersion
from hpckit.model.words import counted

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
    def may_have_nvls(self) -> bool:
        """Whether NCCL takes NVLS for so many GPUs, where the switch has it."""
        is_enough = self.room.gpus > _TWO or self.nccl >= NVLS_OF_TWO
        return self.has_nvls and is_enough

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
    nvls = nvls_graph(setting.room, speeds) if setting.may_have_nvls else None
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
    words = f"{counted(graph.channels, 'tree')} of {channel:g} GB/s, 92 % of them"
    if most < wide:
        words = f"{counted(graph.channels, 'tree')} of {facts.tree[at]:g} GB/s at most"
    return Rate(
        collective=Collective.ALL_REDUCE, algorithm=Algorithm.TREE, graph=graph,
        simple=bus * last * ends,
        limited_by="what NCCL allows a tree" if most < wide else ring_bound(room).words,
        words=words + (", 85 % where a NIC has one GPU" if graph.is_simple else ""),
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
        bounds.append(Bound(gb_per_s=most, words="what NCCL allows a channel of NVLSTree"))
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
    shown = f"{counted(graph.channels, 'head')} of {channel:g} GB/s, 5/6 of them an operation"
    return Bound(gb_per_s=bus, words=words), shown
