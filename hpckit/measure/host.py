"""What a node's host did for the job: CPU, memory, pressure, network and its own energy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
from msgspec import Struct, field

from hpckit.measure.cpu_need import CpuNeed
from hpckit.measure.host_columns import (
    CPU,
    CPU_THROTTLED,
    MEMORY,
    MEMORY_PEAK,
    OOM_KILLS,
    SAMPLER_CPU,
    Meter,
    meters_of,
    psi_of,
    traffic_of,
)
from hpckit.measure.host_growth import HostCounter, HostGauge, Times, Unsigned
from hpckit.measure.sample_time import GAP_PERIODS
from hpckit.model.account import Energy, EnergySource
from hpckit.model.energy_reason import EnergyLack, EnergyReason
from hpckit.model.series import HostColumn, SampleChunk, SampleMeta

METER_FRAC: Final = 0.1
"""Half the width of the interval that is stated for these meters: an assumption, as the makers of
RAPL, hwmon sensors and pm_counters state none in the files that are read."""

_NO_SAMPLES: Final = EnergyReason(kind=EnergyLack.SAMPLES)
_NO_METER: Final = EnergyReason(kind=EnergyLack.METER)
_SHARED: Final = EnergyReason(kind=EnergyLack.OWN_METER)


class HostUsage(Struct, frozen=True, kw_only=True):
    """What the host columns say; names and units as in NodeAccount.

    `energy` is of the best meter that there is, and its `scope` says what that includes: `node`
    (all), `module` (CPU, memory and GPU of Grace Hopper), `cpu` (CPUs and memory, to which the
    GPUs' energy is to be added). `psi_frac` has the keys `cpu_some`, `io_full` …; those of the
    node, where the job's are not there, begin with `node_`. `network_bytes` has
    `mlx5_0.1.tx_bytes`.
    """

    energy: Energy
    cpus: int | None = None
    cpu_s: float | None = None
    cpus_enough: float | None = None
    cpu_throttled_s: float | None = None
    mem_peak_bytes: int | None = None
    mem_kernel_peak_bytes: int | None = None
    mem_limit_bytes: int | None = None
    oom_kills: int | None = None
    psi_frac: Mapping[str, float] = field(default_factory=dict)
    network_bytes: Mapping[str, int] = field(default_factory=dict)
    sampler_cpu_s: float | None = None
    missing: tuple[str, ...] = ()


class HostFold:
    """Folds the host's samples of one node, in order, a chunk at a time."""

    def __init__(self, period_s: float, begin_ns: int, end_ns: int) -> None:
        self._begin_ns, self._end_ns = begin_ns, end_ns
        self._gap_ns = max(1, round(GAP_PERIODS * period_s * 1e9))
        self._counters: dict[str, HostCounter] = {}
        self._gauges: dict[str, HostGauge] = {}
        self._cpu_need = CpuNeed()
        self._meta: SampleMeta | None = None

    def add(self, chunk: SampleChunk, shift_ns: int = 0) -> None:
        """The next chunk; `shift_ns` is added to its times."""
        self._meta = chunk.meta
        times = chunk.host_ns + shift_ns
        inside = slice(
            int(np.searchsorted(times, self._begin_ns)),
            int(np.searchsorted(times, self._end_ns, "right")),
        )
        for place, column in enumerate(chunk.meta.host_columns):
            if place < chunk.host.shape[1] and len(times[inside]):
                self._add(column, times[inside], chunk.host[inside, place])

    def result(self) -> HostUsage:
        """What it was; all None without a sample."""
        cpu_s, own_s = self._seconds(CPU), self._seconds(SAMPLER_CPU)
        meta = self._meta
        return HostUsage(
            energy=self._energy(),
            cpus=None if meta is None else meta.cpus,
            cpu_s=None if cpu_s is None else max(0.0, cpu_s - (own_s or 0.0)),
            cpus_enough=self._cpu_need.enough(),
            cpu_throttled_s=self._seconds(CPU_THROTTLED),
            mem_peak_bytes=self._most(MEMORY),
            mem_kernel_peak_bytes=self._most(MEMORY_PEAK),
            mem_limit_bytes=None if meta is None else meta.memory_limit_bytes,
            oom_kills=self._grown(OOM_KILLS),
            psi_frac=self._psi(),
            network_bytes=self._network(),
            sampler_cpu_s=own_s,
            missing=self._missing(),
        )

    def _add(self, column: HostColumn, times: Times, values: Unsigned) -> None:
        if column.kind == "counter":
            counter = self._counters.setdefault(column.name, HostCounter(column.wraps_at))
            counter.add(times, values)
            if column.name in CPU:
                self._cpu_need.add(times, values)
        else:
            self._gauges.setdefault(column.name, HostGauge(self._gap_ns)).add(times, values)

    def _grown(self, known: tuple[str, ...]) -> int | None:
        totals = (self._counters[name].total for name in known if name in self._counters)
        return next((total for total in totals if total is not None), None)

    def _seconds(self, known: tuple[str, ...]) -> float | None:
        grown_us = self._grown(known)
        return None if grown_us is None else grown_us / 1e6

    def _most(self, known: tuple[str, ...]) -> int | None:
        for name in known:
            gauge = self._gauges.get(name)
            if gauge is not None and gauge.most is not None:
                return int(gauge.most)
        return None

    def _psi(self) -> dict[str, float]:
        """The job's; of the node what is not known of the job."""
        found: dict[str, dict[str, float]] = {"job": {}, "node": {}}
        for name, counter in self._counters.items():
            of = psi_of(name)
            if of is not None and counter.total is not None and counter.counted_ns:
                found[of[0]][of[1]] = min(1.0, counter.total * 1000 / counter.counted_ns)
        of_node = {f"node_{what}": frac for what, frac in found["node"].items()}
        return found["job"] or of_node

    def _network(self) -> dict[str, int]:
        named = ((traffic_of(name), one.total) for name, one in self._counters.items())
        return {name: total for name, total in named if name is not None and total is not None}

    def _energy(self) -> Energy:
        if self._meta is None:
            return Energy.unknown_of_node(_NO_SAMPLES)
        there = [
            *(name for name, one in self._counters.items() if one.total is not None),
            *(name for name, one in self._gauges.items() if one.integral is not None),
        ]
        meters = meters_of(there)
        if not meters:
            return Energy.unknown_of_node(_NO_METER)
        if self._meta.exclusive is False:
            return Energy.unknown_of_node(_SHARED)
        return self._metered(meters[0])

    def _metered(self, meter: Meter) -> Energy:
        """What a meter counted in its time; nothing is made up for the rest."""
        joules, counted = [], []
        for name in meter.names:
            one = self._gauges[name] if meter.is_gauge else self._counters[name]
            grown = one.integral if isinstance(one, HostGauge) else one.total
            joules.append((grown or 0.0) * meter.factor)
            counted.append(one.counted_ns)
        value_j = sum(joules)
        held_ns = max(1, self._end_ns - self._begin_ns)
        is_whole = self._meta is not None and self._meta.exclusive is True
        return Energy(
            value_j=value_j,
            plus_minus_j=value_j * METER_FRAC,
            source=EnergySource.INTEGRATED if meter.is_gauge else EnergySource.COUNTER,
            coverage_frac=min(1.0, min(counted) / held_ns),
            scope=meter.scope,
            because=meter.what if is_whole else f"{meter.what}; {_SHARED}",
        )

    def _missing(self) -> tuple[str, ...]:
        if self._meta is None:
            return (str(_NO_SAMPLES),)
        return tuple(f"{what}: {why}" for what, why in sorted(self._meta.host_refused.items()))
