"""What bus bandwidth the main collectives should reach, by NCCL's own tuning model.

The model is re-derived from NCCL 2.18.3 to 2.30.7 (src/graph); it is what NCCL believes of the
machine when it chooses an algorithm. A measured figure well below it is worth a look. RCCL's part
is its rings alone: its other figures are tables by machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hpckit.decide.busbw_facts import (
    AMD,
    NEWEST,
    NVLS_RATED,
    OLDEST,
    capability_of,
    channel_facts,
)
from hpckit.decide.busbw_pairs import pairs_bound
from hpckit.decide.busbw_rates import RINGED, Rate, Setting, rates, ring_bound
from hpckit.decide.busbw_room import Room, release_of, room_of
from hpckit.decide.busbw_time import bus_factor, time_s
from hpckit.model.busbw import (
    Algorithm,
    BusbwPrediction,
    Collective,
    CommMachine,
    Protocol,
)
from hpckit.model.comm import NcclVersion
from hpckit.model.hardware import LinkKind

_GB: Final = 1e9
_LARGE_BYTES: Final = 1 << 34
_LL128_FROM: Final = 70
_PAIRS: Final = "not in NCCL's tuning model: what the slowest link allows, and no measured share"
_RCCL: Final = "RCCL has no such model by links for several nodes: what the slowest link allows"
_NEEDS_NVLS: Final = "needs the fabric manager, and multicast that a VM may not pass on"
_ESTIMATE: Final = "NCCL's estimate for choosing an algorithm; small sizes are often slower"
_ALL_OFF: Final = "NCCL_ALGO leaves it no algorithm"
_NOTHING: Final = "an operation of no bytes has no bandwidth"


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
    released = release_of(nccl, NEWEST)
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
        return (*_unknown(RINGED, "not even NCCL's slowest channel fits the links"), pairs)
    found = [rate for rate in every if rate.algorithm not in off]
    shown = [
        _plateau(rate, setting, caveats, is_best=at == 0)
        for collective in RINGED
        for at, rate in enumerate(_ranked(found, collective, setting))
    ]
    had = {rate.collective for rate in found}
    lacking = _unknown((one for one in RINGED if one not in had), _ALL_OFF)
    return (*shown, *lacking, pairs)


def predict_at(
    machine: CommMachine, nodes: int, size_bytes: int, *, nccl: NcclVersion | None = None
) -> tuple[BusbwPrediction, ...]:
    """What NCCL reckons for operations of one size: the algorithm and protocol it would take.

    Latencies are those of 2.30.7. Of RCCL and of all-to-all there is no figure.
    """
    released = release_of(nccl, NEWEST)
    room = room_of(machine, nodes, released)
    if isinstance(room, str):
        return _unknown(RINGED, room, size_bytes)
    setting = _setting(machine, room, released)
    if isinstance(setting, str) or size_bytes < 1:
        why = setting if isinstance(setting, str) else _NOTHING
        return _unknown(RINGED, why, size_bytes)
    if room.nodes > 1 and machine.cpu.vendor is None:
        why = "the maker of the CPUs is not known, on which NCCL's latencies between nodes depend"
        return _unknown(RINGED, why, size_bytes)
    found = rates(setting)
    return tuple(_at_size(found, collective, setting, size_bytes) for collective in RINGED)


def _unknown(
    collectives: Iterable[Collective], because: str, size_bytes: int | None = None
) -> tuple[BusbwPrediction, ...]:
    return tuple(
        BusbwPrediction(collective=one, because=because, size_bytes=size_bytes)
        for one in collectives
    )


def _setting(machine: CommMachine, room: Room, nccl: NcclVersion) -> Setting | str:
    if machine.architecture is None:
        return "the architecture of the GPUs is not known"
    capability = capability_of(machine.architecture)
    if capability is None:
        return f"NCCL has no model of {machine.architecture}, and RCCL none without XGMI"
    return Setting(
        room=room, capability=capability, nccl=nccl, cpu=machine.cpu,
        is_linked=machine.links is not None, has_nvls=machine.has_nvls,
        has_sharp=machine.has_sharp, ll_limit=_ll_limit(machine, room, capability, nccl),
    )  # fmt: skip


def _ll_limit(machine: CommMachine, room: Room, capability: int, nccl: NcclVersion) -> float | None:
    """LL is bounded by the GPU on one node, by the maker of the CPUs on several."""
    if room.nodes == 1:
        return channel_facts(capability, nccl).ll[0]
    if machine.cpu.vendor is None:
        return None
    of_cpu = 80 if machine.cpu.vendor == AMD else 0
    return channel_facts(of_cpu, nccl).ll[min(room.nodes, 3) - 1]


def _caveats(machine: CommMachine, nodes: int, nccl: NcclVersion | None) -> tuple[str, ...]:
    found = []
    if nccl is not None and nccl > NEWEST:
        found.append(f"NCCL {nccl} is newer than the model, {NEWEST}")
    if nccl is not None and nccl < OLDEST:
        found.append(f"NCCL {nccl} is older than the model, {OLDEST}")
    domain = machine.domain_nodes or 1
    if nodes > domain > 1 and nodes % domain:
        found.append(f"{nodes} nodes do not fill NVLink domains of {domain}")
    outside = nodes > domain
    if outside and any(nic.pcie is None for nic in machine.nics or ()):
        found.append("PCIe of the NICs is not known and taken not to bound them")
    return tuple(found)


def _ranked(found: Sequence[Rate], collective: Collective, setting: Setting) -> list[Rate]:
    """The fastest first; of two equals the one with less latency, as NCCL takes it."""

    def slowness(rate: Rate) -> tuple[float, float]:
        took = time_s(setting, rate, Protocol.SIMPLE, _LARGE_BYTES)
        return (-round(rate.simple, 6), took or 0.0)

    return sorted((one for one in found if one.collective is collective), key=slowness)


def _plateau(
    rate: Rate, setting: Setting, caveats: Sequence[str], *, is_best: bool
) -> BusbwPrediction:
    own = [*caveats]
    if rate.algorithm in {Algorithm.NVLS, Algorithm.NVLS_TREE}:
        own.append(_NEEDS_NVLS)
    speed = rate.graph.intra if setting.room.nodes == 1 else rate.graph.inter
    return BusbwPrediction(
        collective=rate.collective,
        algorithm=rate.algorithm,
        protocol=Protocol.SIMPLE,
        busbw_bytes_per_s=rate.simple * _GB,
        channels=rate.graph.channels,
        channel_bytes_per_s=speed * _GB,
        limited_by=rate.limited_by,
        because=rate.words,
        caveat="; ".join(own) or None,
        is_best=is_best,
    )


def _by_rccl(room: Room, caveats: Sequence[str]) -> tuple[BusbwPrediction, ...]:
    """Rings as wide as the links: rome_models.cc shares all XGMI out among its rings."""
    bound = ring_bound(room)
    own = [*caveats, *([_RCCL] if room.nodes > 1 else [])]
    return tuple(
        BusbwPrediction(
            collective=one,
            algorithm=Algorithm.RING,
            protocol=Protocol.SIMPLE,
            busbw_bytes_per_s=bound.gb_per_s * _GB,
            limited_by=bound.words,
            because="RCCL's rings share all links of a GPU",
            caveat="; ".join(own) or None,
        )
        for one in RINGED
    )


def _all_to_all(machine: CommMachine, room: Room, nccl: NcclVersion) -> BusbwPrediction:
    bound = pairs_bound(machine, room, nccl)
    if isinstance(bound, str):
        return BusbwPrediction(collective=Collective.ALL_TO_ALL, because=bound)
    return BusbwPrediction(
        collective=Collective.ALL_TO_ALL,
        algorithm=Algorithm.PAIRS,
        protocol=Protocol.SIMPLE,
        busbw_bytes_per_s=bound.gb_per_s * _GB,
        limited_by=bound.words,
        because="the bytes that pass the slowest link",
        caveat=_PAIRS,
    )


def _at_size(
    found: Sequence[Rate],
    collective: Collective,
    setting: Setting,
    size_bytes: int,
) -> BusbwPrediction:
    timed = [
        (took, rate, protocol)
        for rate in found
        if rate.collective is collective
        for protocol in _protocols(setting)
        if (took := time_s(setting, rate, protocol, size_bytes)) is not None
    ]
    if not timed:
        return _unknown([collective], "not even NCCL's slowest channel fits", size_bytes)[0]
    took, rate, protocol = min(timed, key=lambda one: one[0])
    caveat = _ESTIMATE
    if setting.nccl < NVLS_RATED:
        caveat += f"; latencies are those of {NEWEST}"
    factor = bus_factor(collective, setting.room.ranks)
    return BusbwPrediction(
        collective=collective,
        algorithm=rate.algorithm,
        protocol=protocol,
        busbw_bytes_per_s=size_bytes / took * factor,
        channels=rate.graph.channels,
        limited_by=rate.limited_by,
        because=f"{took * 1e6:.0f} µs by NCCL's reckoning, the least of {len(timed)} ways",
        caveat=caveat,
        size_bytes=size_bytes,
    )


def _protocols(setting: Setting) -> tuple[Protocol, ...]:
    """LL128 needs NVLink all the way: NCCL leaves it out over PCIe, where it could go wrong."""
    is_safe = setting.is_linked and setting.capability >= _LL128_FROM
    return tuple(Protocol) if is_safe else (Protocol.LL, Protocol.SIMPLE)
