"""What bus bandwidth the main collectives should reach, by NCCL's own tuning model.

The model is re-derived from NCCL 2.18.3 to 2.30.7 (src/graph); it is what NCCL believes of the
machine when it chooses an algorithm. A measured figure well below it is worth a look. RCCL's part
is its rings alone: its other figures are tables by machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from hpckit.decide.busbw_facts import (
    NEWEST,
    OLDEST,
    capability_of,
)
from hpckit.decide.busbw_forced import RING_STAYS_OFF
from hpckit.decide.busbw_pairs import pairs_bound
from hpckit.decide.busbw_rates import RINGED, Rate, Setting, rates, ring_bound
from hpckit.decide.busbw_room import Room, release_of, room_of
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
_BY_LATENCY: Final = (Algorithm.NVLS, Algorithm.NVLS_TREE, Algorithm.TREE, Algorithm.RING)
"""From the fewest steps to the most. Source: NCCL src/graph/tuning.cc, hwLatencies, 2.30.7."""

_PAIRS: Final = "not in NCCL's tuning model: an upper bound, by what the slowest link allows"
_RCCL: Final = "RCCL has no such model by links for several nodes: what the slowest link allows"
_NEEDS_NVLS: Final = "needs the fabric manager, and multicast that a VM may not pass on"
_ALL_OFF: Final = "NCCL_ALGO leaves it no algorithm"


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
    found = _left(every, off, released)
    shown = [
        _plateau(rate, setting, caveats, is_best=at == 0)
        for collective in RINGED
        for at, rate in enumerate(_ranked(found, collective))
    ]
    had = {rate.collective for rate in found}
    lacking = _unknown((one for one in RINGED if one not in had), _ALL_OFF)
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
        return "the architecture of the GPUs is not known"
    capability = capability_of(machine.architecture)
    if capability is None:
        return f"NCCL has no model of {machine.architecture}, and RCCL none without XGMI"
    return Setting(
        room=room, capability=capability, nccl=nccl,
        has_nvls=machine.has_nvls, has_sharp=machine.has_sharp,
    )  # fmt: skip


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


def _ranked(found: Sequence[Rate], collective: Collective) -> list[Rate]:
    """The fastest first; of two equals the one with less latency, as NCCL takes it."""
    own = (one for one in found if one.collective is collective)
    return sorted(own, key=lambda rate: (-round(rate.simple, 6), _BY_LATENCY.index(rate.algorithm)))


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
            is_bound=room.nodes > 1,
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
        is_bound=True,
    )
