"""How long a collective of one size takes by NCCL's own reckoning: latency plus bytes.

NCCL chooses algorithm and protocol by these times; its authors fitted them to tell which is
faster, not how long it takes. Source: NCCL src/graph/tuning.cc, ncclTopoTuneModel and
ncclTopoGetAlgoTime, 2.30.7.
"""

from __future__ import annotations

import math
from typing import Final

from hpckit.decide.busbw_facts import AMD, LATENCY_FACTS, TREE_CORRECTION, LatencyFact
from hpckit.decide.busbw_rates import GATHERS, Rate, Setting
from hpckit.model.busbw import Algorithm, Collective, Protocol

_FIRST_SHIFT: Final = 6
_TREE_SIZES: Final = 23
_NVLS_TREE_SIZES: Final = 24
_BLACKWELL: Final = 100
_AMPERE: Final = 80
_PLATEAU_BYTES: Final = 64
_PROTOCOLS: Final = tuple(Protocol)
_US: Final = 1e-6
_GB: Final = 1e9


def bus_factor(collective: Collective, ranks: int) -> float:
    """Bus bandwidth over the bytes of the operation a second. nccl-tests, doc/PERFORMANCE.md."""
    if collective is Collective.ALL_REDUCE:
        return 2 * (ranks - 1) / ranks
    return 1.0 if collective is Collective.BROADCAST else (ranks - 1) / ranks


def time_s(setting: Setting, rate: Rate, protocol: Protocol, size_bytes: int) -> float | None:
    """The time of one operation; None where the algorithm lacks the protocol."""
    bus = rate.of(protocol)
    if bus is None or bus <= 0:
        return None
    bandwidth = bus / bus_factor(rate.collective, setting.room.ranks) * _GB
    bandwidth *= _correction(setting, rate, protocol, size_bytes)
    latency = _latency_us(setting, rate, protocol) * _US
    if _is_ring_on_plateau(setting, rate, protocol, size_bytes):
        latency *= 1.9 if setting.capability < _AMPERE else 1.4
    return latency + size_bytes / bandwidth


def _is_ring_on_plateau(setting: Setting, rate: Rate, protocol: Protocol, size_bytes: int) -> bool:
    """Where NCCL lengthens the latency of rings between nodes; twice as many channels run."""
    is_ring = rate.algorithm is Algorithm.RING and rate.collective is Collective.ALL_REDUCE
    if not is_ring or protocol is not Protocol.SIMPLE or setting.room.nodes == 1:
        return False
    return size_bytes // (2 * rate.graph.channels * setting.room.ranks) >= _PLATEAU_BYTES


def _correction(setting: Setting, rate: Rate, protocol: Protocol, size_bytes: int) -> float:
    """Middle sizes do not follow the model by trees."""
    sizes = _TREE_SIZES if rate.algorithm is Algorithm.TREE else 0
    if rate.algorithm is Algorithm.NVLS_TREE and setting.capability >= _BLACKWELL:
        sizes = _NVLS_TREE_SIZES if (setting.cpu.arch or "").startswith("x86") else 0
    at = (size_bytes >> _FIRST_SHIFT).bit_length() - 1
    return TREE_CORRECTION[protocol][at] if 0 <= at < sizes else 1.0


def _latency_us(setting: Setting, rate: Rate, protocol: Protocol) -> float:
    room, at = setting.room, _PROTOCOLS.index(protocol)
    fact = _fact(rate.algorithm)
    intra = (fact.nvlink_us if setting.is_linked else fact.pci_us)[at]
    outer = _fact(Algorithm.TREE) if room.gpus == 1 else fact
    inter = outer.net_us[at]
    hops = int(math.log2(room.nodes))
    match rate.algorithm:
        case Algorithm.RING:
            return fact.base_us[at] + _ring_us(setting, rate, protocol, intra, inter)
        case Algorithm.TREE:
            return fact.base_us[at] + 2 * ((room.gpus - 1) * intra + hops * inter)
        case Algorithm.NVLS:
            return intra + (inter if room.nodes > 1 else 0.0)
        case _:
            return intra + 2 * hops * inter


def _ring_us(setting: Setting, rate: Rate, protocol: Protocol, intra: float, inter: float) -> float:
    room = setting.room
    if rate.collective is Collective.BROADCAST:
        return intra if room.nodes == 1 else inter
    passes = 1 if rate.collective in GATHERS else 2
    if room.nodes > 1:
        posting = 2.0 if setting.cpu.vendor == AMD else 1.0
        intra = max(intra, posting * (3 if protocol is Protocol.SIMPLE else 1))
    outer = passes * (room.nodes - 1)
    return (passes * (room.ranks - 1) - outer) * intra + outer * inter


def _fact(algorithm: Algorithm) -> LatencyFact:
    return next(row for row in LATENCY_FACTS if row.algorithm is algorithm)
