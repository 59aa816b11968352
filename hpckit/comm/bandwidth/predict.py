"""What bus bandwidth the main collectives should reach, by NCCL's own tuning model.

The model is re-derived from NCCL 2.18.3 to 2.30.7 (src/graph); it is what NCCL believes of the
machine when it chooses an algorithm. A measured figure well below it is worth a look. RCCL's part
is its rings alone: its other figures are tables by machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Final

from hpckit.comm.bandwidth.facts import NEWEST, OLDEST, capability_of, cpu_link_gb_per_s
from hpckit.comm.bandwidth.machine import (
    Bound,
    Room,
    comm_machine,
    linked_gb_per_s,
    pcie_gb_per_s,
    room_of,
)
from hpckit.comm.bandwidth.model import RINGED, Rate, Setting, rates, ring_bound
from hpckit.comm.bandwidth.values import (
    Algorithm,
    BusbwPrediction,
    Collective,
    CommMachine,
    platform_machine,
)
from hpckit.core.text import Line, Style, columns, wrapped, wrapped_lines
from hpckit.node.path import PathKind
from hpckit.node.topology import LinkKind, NodeTopology
from hpckit.spec.platform import NcclVersion, Platform, architecture_of

# --- Which algorithms a job's own variables turn off.
# Source: NCCL user guide, Environment Variables: NCCL_ALGO (a list, or one behind `^` that is left
# out; since 2.24 also by function, behind a colon), NCCL_NVLS_ENABLE.

RING_STAYS_OFF: Final = NcclVersion(2, 24)
"""Before it Ring steps in where NCCL_ALGO leaves a collective none; from it on NCCL fails.

Source: NCCL user guide, Environment Variables: NCCL_ALGO; NCCL src/enqueue.cc.
"""

_OF_NCCL: Final = frozenset(Algorithm) - {Algorithm.PAIRS}
BY_SWITCH: Final = frozenset({Algorithm.NVLS, Algorithm.NVLS_TREE})


def forced_off(settings: Iterable[tuple[str, str]]) -> frozenset[Algorithm]:
    """The algorithms that (variable, value) turn off; none for a list by function."""
    found: frozenset[Algorithm] = frozenset()
    for name, value in settings:
        if name == "NCCL_NVLS_ENABLE" and value == "0":
            found |= BY_SWITCH
        if name == "NCCL_ALGO" and ":" not in value:
            found |= _off_by_list(value)
    return found


def _off_by_list(value: str) -> frozenset[Algorithm]:
    words = {word.strip().lower() for word in value.removeprefix("^").split(",")}
    named = {one for one in _OF_NCCL if one.lower() in words}
    return frozenset(named if value.startswith("^") else _OF_NCCL - named)


# --- What an all-to-all can reach at most: its traffic over the links that it has to pass.
# NCCL's tuning model does not know all-to-all, which is sends and receives. Each of n GPUs sends
# every other the n-th part of its data, so the bytes that pass a link follow from where it is, and
# the slowest link bounds the rest. Links carry what NCCL reckons them to. That GPUs share the port
# of a PCIe switch is not known here.


def pairs_bound(machine: CommMachine, room: Room, nccl: NcclVersion) -> Bound | str:
    """The bus bandwidth of all-to-all, and what bounds it; or why it is not known."""
    within = None if room.gpus == 1 else _within(machine, room, nccl)
    if isinstance(within, str):
        return within
    between = None if room.nic is None else _between(room, room.nic)
    return min((bound for bound in (within, between) if bound), key=lambda one: one.gb_per_s)


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
        return "some GPUs have no direct link, so their traffic uses other GPUs' links"
    words = f"{links.kind}: {links.per_pair} of {one:g} GB/s between two GPUs"
    return Bound(gb_per_s=links.per_pair * one * peers * scale, words=words)


def _over_pcie(machine: CommMachine, room: Room, nccl: NcclVersion) -> Bound | str:
    pcie = None if machine.pcie is None else pcie_gb_per_s(machine.pcie)
    if pcie is None or machine.ring is None:
        return "speed and width of the GPUs' PCIe links are unknown"
    ranks = room.ranks
    scale = (ranks - 1) / (room.gpus - 1)
    own = min(pcie, room.intra.gb_per_s) if machine.ring.farthest is not PathKind.SYS else pcie
    bound = Bound(gb_per_s=own * scale, words="PCIe per GPU")
    cpus = cpu_link_gb_per_s(machine.cpu, nccl)
    if machine.ring.farthest is not PathKind.SYS or cpus is None:
        return bound
    crossing = max(one * other for one, other in combinations(machine.ring.sides, 2))
    between = Bound(gb_per_s=cpus * (ranks - 1) / crossing, words="the link between two CPUs")
    return min(bound, between, key=lambda each: each.gb_per_s)


_GB: Final = 1e9
_BY_LATENCY: Final = (Algorithm.NVLS, Algorithm.NVLS_TREE, Algorithm.TREE, Algorithm.RING)
"""From the fewest steps to the most. Source: NCCL src/graph/tuning.cc, hwLatencies, 2.30.7."""

_PAIRS: Final = "not in NCCL's tuning model: an upper bound, set by the slowest link"
_RCCL: Final = "RCCL has no such model for several nodes: an upper bound, set by the slowest link"
_NEEDS_NVLS: Final = "needs the fabric manager, and multicast, which a VM may not pass through"


def predict(
    machine: CommMachine,
    nodes: int,
    *,
    nccl: NcclVersion | None = None,
    off: frozenset[Algorithm] = frozenset(),
) -> tuple[BusbwPrediction, ...]:
    """The plateau of large messages: of each collective the best algorithm, then the others.

    `nodes` is how many nodes of the machine's kind, each with all of `machine.gpus`; `nccl` None
    is 2.30.7; `off` are algorithms that a variable turns off. A collective of which facts are
    missing has one prediction without a figure.
    """
    released = NEWEST if nccl is None else max(nccl, OLDEST)
    room = room_of(machine, nodes, released)
    if isinstance(room, str):
        return _unknown(Collective, room)
    caveats = _caveats(machine, nodes, nccl)
    pairs = _all_to_all(machine, room, released)
    if machine.links is not None and machine.links.kind is LinkKind.XGMI:
        return (*_by_rccl(room, caveats), pairs)
    setting = _setting(machine, room, released)
    if isinstance(setting, str):
        return (*_unknown(RINGED, setting), pairs)
    every = rates(setting)
    if not every:
        return (*_unknown(RINGED, "the links are slower than NCCL's slowest channel"), pairs)
    found = _left(every, off, released)
    shown = [
        _plateau(rate, setting, caveats, is_best=at == 0)
        for collective in RINGED
        for at, rate in enumerate(_ranked(found, collective))
    ]
    had = {rate.collective for rate in found}
    lost = [one for one in RINGED if one not in had]
    lacking = _unknown(lost, "NCCL_ALGO excludes all its algorithms")
    return (*shown, *lacking, pairs)


def _left(every: Sequence[Rate], off: frozenset[Algorithm], nccl: NcclVersion) -> list[Rate]:
    """The rates of what is not off; where that is none, older releases take the rings."""
    found = [rate for rate in every if rate.algorithm not in off]
    if nccl >= RING_STAYS_OFF:
        return found
    had = {rate.collective for rate in found}
    rings = (rate for rate in every if rate.algorithm is Algorithm.RING)
    return [*found, *(rate for rate in rings if rate.collective not in had)]


def _unknown(collectives: Iterable[Collective], because: str) -> tuple[BusbwPrediction, ...]:
    return tuple(BusbwPrediction(collective=one, because=because) for one in collectives)


def _setting(machine: CommMachine, room: Room, nccl: NcclVersion) -> Setting | str:
    if machine.architecture is None:
        return "the GPU architecture is unknown"
    capability = capability_of(machine.architecture)
    if capability is None:
        return f"NCCL has no model for {machine.architecture}, and RCCL none without XGMI"
    return Setting(
        room=room, capability=capability, nccl=nccl,
        has_nvls=machine.has_nvls, has_sharp=machine.has_sharp,
    )  # fmt: skip


def _caveats(machine: CommMachine, nodes: int, nccl: NcclVersion | None) -> tuple[str, ...]:
    found = []
    if nccl is not None and nccl > NEWEST:
        found.append(f"NCCL {nccl} is newer than the model ({NEWEST})")
    if nccl is not None and nccl < OLDEST:
        found.append(f"NCCL {nccl} is older than the model ({OLDEST})")
    domain = machine.domain_nodes or 1
    if nodes > domain > 1 and nodes % domain:
        found.append(f"{nodes} nodes do not fill NVLink domains of {domain} nodes")
    outside = nodes > domain
    if outside and any(nic.pcie is None for nic in machine.nics or ()):
        found.append("PCIe links of the NICs are unknown, and assumed not to limit them")
    return tuple(found)


def _ranked(found: Sequence[Rate], collective: Collective) -> list[Rate]:
    """The fastest first; of two equals the one with less latency, as NCCL takes it."""
    own = (one for one in found if one.collective is collective)
    return sorted(own, key=lambda rate: (-round(rate.simple, 6), _BY_LATENCY.index(rate.algorithm)))


def _plateau(
    rate: Rate, setting: Setting, caveats: Sequence[str], *, is_best: bool
) -> BusbwPrediction:
    own = [*caveats]
    if rate.algorithm in BY_SWITCH:
        own.append(_NEEDS_NVLS)
    speed = rate.graph.intra if setting.room.nodes == 1 else rate.graph.inter
    bound = Bound(gb_per_s=rate.simple, words=rate.limited_by)
    shown = _shown(rate.collective, rate.algorithm, bound, rate.words, own)
    count, bytes_per_s = rate.graph.channels, speed * _GB
    return replace(shown, channels=count, channel_bytes_per_s=bytes_per_s, is_best=is_best)


def _shown(
    collective: Collective, algorithm: Algorithm, bound: Bound, because: str, caveats: Sequence[str]
) -> BusbwPrediction:
    return BusbwPrediction(
        collective=collective,
        algorithm=algorithm,
        protocol="Simple",
        busbw_bytes_per_s=bound.gb_per_s * _GB,
        limited_by=bound.words,
        because=because,
        caveat="; ".join(caveats) or None,
    )


def _by_rccl(room: Room, caveats: Sequence[str]) -> tuple[BusbwPrediction, ...]:
    """Rings as wide as the links: rome_models.cc shares all XGMI out among its rings."""
    bound = ring_bound(room)
    own = [*caveats, *([_RCCL] if room.nodes > 1 else [])]
    because = "RCCL's rings share all links of a GPU"
    shown = (_shown(one, Algorithm.RING, bound, because, own) for one in RINGED)
    return tuple(replace(one, is_bound=room.nodes > 1) for one in shown)


def _all_to_all(machine: CommMachine, room: Room, nccl: NcclVersion) -> BusbwPrediction:
    bound = pairs_bound(machine, room, nccl)
    if isinstance(bound, str):
        return BusbwPrediction(collective=Collective.ALL_TO_ALL, because=bound)
    because = "bytes through the slowest link"
    shown = _shown(Collective.ALL_TO_ALL, Algorithm.PAIRS, bound, because, (_PAIRS,))
    return replace(shown, is_bound=True)


def predicted(
    platform: Platform,
    topology: NodeTopology | None,
    nccl: NcclVersion | None,
    settings: Iterable[tuple[str, str]] = (),
    *,
    nodes: int,
    gpus_per_node: int | None = None,
) -> tuple[BusbwPrediction, ...]:
    """The plateau of each collective; none where nothing is known of the nodes.

    `settings` are variables of the job, of which some turn algorithms off; without
    `gpus_per_node` all of a node's GPUs are used.
    """
    shown = [] if topology is None else [gpu for gpu in topology.gpus if not gpu.is_hidden]
    if topology is not None and shown:
        machine = comm_machine(
            topology,
            nodes=nodes,
            gpus_per_node=gpus_per_node or len(shown),
            domain_nodes=platform.domain_nodes,
            architecture=architecture_of(shown[0].name) or architecture_of(platform.gpu),
        )
    elif topology is None and platform.gpu is not None:
        machine = platform_machine(platform, nodes, gpus_per_node)
    else:
        return ()
    return predict(machine, nodes, nccl=nccl, off=forced_off(settings))


# --- Predicted bus bandwidth for people: a line a collective, then what to keep in mind.

_TITLES: Final = ("", "GB/s", "by", "limited by")
_GAP: Final = "  "
_LEAST: Final = 16


def busbw_lines(
    predictions: Sequence[BusbwPrediction], *, where: str, width: int
) -> Iterator[Line]:
    """The screen in lines of at most `width` columns; `where` is the job in words.

    `predictions` are the best of each collective. Where none has a figure, one sentence says why.
    """
    if not any(one.busbw_bytes_per_s for one in predictions):
        reasons = "; ".join(dict.fromkeys(one.because for one in predictions))
        words = f"predicted bus bandwidth: unknown ({reasons})"
        yield from wrapped_lines(words, width, first=" ", further="   ")
        return
    title = f"predicted bus bandwidth, {where}"
    yield from wrapped_lines(title, width, first=" ", further=" ", style=Style.TITLE)
    yield from _table(predictions, width)
    for caveat, named in _caveats_told(predictions).items():
        words = f"{caveat} ({', '.join(named)})"
        yield from wrapped_lines(words, width, first=" note: ", further="       ", style=Style.NOTE)


def _caveats_told(predictions: Sequence[BusbwPrediction]) -> dict[str, dict[str, None]]:
    """Each caveat once, and whom it is about in the order of the table."""
    found: dict[str, dict[str, None]] = {}
    for one in predictions:
        for caveat in one.caveat.split("; ") if one.caveat else ():
            found.setdefault(caveat, {})[one.collective.value] = None
    return found


def _table(rows: Sequence[BusbwPrediction], width: int) -> Iterator[Line]:
    cells = [_TITLES, *(_cells(one) for one in rows)]
    widths = [max(columns(row[at]) for row in cells) for at in range(3)]
    for at, row in enumerate(cells):
        name, figure, by, limit = row
        head = f" {name:<{widths[0]}}{_GAP}{figure:>{widths[1]}}{_GAP}{by:<{widths[2]}}{_GAP}"
        further = " " * columns(head)
        if width - columns(head) < _LEAST:
            head, further = f" {name:<{widths[0]}}{_GAP}{figure:>{widths[1]}} {by} ", "   "
        style = Style.FAINT if at == 0 else Style.PLAIN
        for text in wrapped(tuple(limit.split()), width, first=head, further=further):
            yield Line(text=text.rstrip(), style=style)


def _cells(one: BusbwPrediction) -> tuple[str, str, str, str]:
    if one.busbw_bytes_per_s is None:
        return (one.collective.value, "?", "", one.because)
    figure = f"{one.busbw_bytes_per_s / _GB:.3g}"
    limit = one.limited_by or ""
    return (one.collective.value, figure, one.algorithm or "", f"{limit}; {one.because}")
