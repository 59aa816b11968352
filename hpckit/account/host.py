"""What a node's host did for the job: CPU, memory, pressure, network and its own energy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from hpckit.account.sample_format import MISSING
from hpckit.account.sample_time import GAP_PERIODS
from hpckit.account.samples import HostColumn, SampleChunk, SampleMeta
from hpckit.account.values import Energy, EnergyLack, EnergyReason, EnergySource, NodeAccount
from hpckit.core.late import regex

Unsigned = NDArray[np.uint64]
Times = NDArray[np.int64]

NOT_MEASURED: Final = MISSING[8]


class HostCounter:
    """The growth of a counter that begins again from 0 at `wraps_at` (None: 2^64).

    A counter that shows less than before has wrapped if that means less than half of its range;
    else it was set back, and what it shows since counts. `total` is None until two readings.
    """

    def __init__(self, wraps_at: int | None) -> None:
        self._size = 1 << 64 if wraps_at is None else wraps_at
        self._last: tuple[int, int] | None = None
        self.total: int | None = None
        self.counted_ns = 0

    def add(self, times_ns: Times, values: Unsigned) -> None:
        """More readings in their order; those that say "not measured" are left out."""
        is_there = values != NOT_MEASURED
        if not is_there.all():
            values, times_ns = values[is_there], times_ns[is_there]
        if not len(values):
            return
        first, last = int(values[0]), (int(values[-1]), int(times_ns[-1]))
        if self._last is not None:
            self._grow(self._step(self._last[0], first), int(times_ns[0]) - self._last[1])
        if len(values) > 1:
            self._grow(self._inside(values), last[1] - int(times_ns[0]))
        self._last = last

    def _grow(self, growth: int, ns: int) -> None:
        self.total = (self.total or 0) + growth
        self.counted_ns += max(0, ns)

    def _inside(self, values: Unsigned) -> int:
        falls = np.flatnonzero(values[1:] < values[:-1])
        growth = int(values[-1]) - int(values[0])
        for at in falls.tolist():
            before, after = int(values[at]), int(values[at + 1])
            growth += self._step(before, after) - (after - before)
        return growth

    def _step(self, before: int, after: int) -> int:
        if after >= before:
            return after - before
        wrapped = after + self._size - before
        return wrapped if 0 <= wrapped < self._size // 2 else after


class HostGauge:
    """The integral over time of a gauge, by trapezoids, and its extremes.

    What lies between samples further apart than `gap_ns` is not measured.
    """

    def __init__(self, gap_ns: int) -> None:
        self._gap_ns = gap_ns
        self._last: tuple[float, int] | None = None
        self._integral = 0.0
        self.counted_ns = 0
        self.most: float | None = None

    def add(self, times_ns: Times, values: Unsigned) -> None:
        """More readings in their order."""
        is_there = values != NOT_MEASURED
        numbers, times_ns = values[is_there].astype(np.float64), times_ns[is_there]
        if not len(numbers):
            return
        most = float(numbers.max())
        self.most = most if self.most is None else max(self.most, most)
        if self._last is not None:
            numbers = np.concatenate([[self._last[0]], numbers])
            times_ns = np.concatenate([[self._last[1]], times_ns])
        self._last = float(numbers[-1]), int(times_ns[-1])
        apart = np.diff(times_ns)
        is_near = (apart <= self._gap_ns) & (apart > 0)
        between = (numbers[1:] + numbers[:-1]) / 2
        self._integral += float((between * apart)[is_near].sum()) / 1e9
        self.counted_ns += int(apart[is_near].sum())

    @property
    def integral(self) -> float | None:
        """In the gauge's unit × seconds; None where two readings were never near each other."""
        return self._integral if self.counted_ns else None


# A mean over the run hides that a twentieth of it kept all CPUs busy; the most of any moment hides
# that it was one moment. So: the fewest CPUs on which the run would have been hardly longer.

WINDOW_NS: Final = 5_000_000_000
"""As often as the host is read in a long job (docs/reference/account-files.md)."""
_EARLY_FRAC: Final = 0.1
"""Readings are that much of a window late or early."""
LONGER_FRAC: Final = 0.01
"""So much longer may the run be on the CPUs that count as enough."""


class CpuNeed:
    """Takes the readings of a counter of CPU time, in µs, a chunk at a time."""

    def __init__(self) -> None:
        self._begin_ns: int | None = None
        self._times: list[Times] = []
        self._values: list[Unsigned] = []

    def add(self, times_ns: Times, values: Unsigned) -> None:
        """More readings in their order; those that say "not measured" are left out."""
        is_there = values != NOT_MEASURED
        times_ns, values = times_ns[is_there], values[is_there]
        if not len(values):
            return
        if self._begin_ns is None:
            self._begin_ns = int(times_ns[0])
        last = self._last_of_windows(times_ns, self._begin_ns)
        self._times.append(times_ns[last])
        self._values.append(values[last])

    def enough(self) -> float | None:
        """The fewest CPUs on which it would have been 1 % longer at most; None without a window.

        What was done in a window in which more were busy takes longer in proportion. With the
        windows ordered by how many were busy, W the CPU time and D the length of the first of
        them, and T of all, it is the largest W / (D + T / 100) over all "first of them".
        """
        if self._begin_ns is None:
            return None
        times_ns, values = np.concatenate(self._times), np.concatenate(self._values)
        last = self._last_of_windows(times_ns, self._begin_ns)
        times_ns, values = _without_repeats(times_ns[last], values[last])
        length_s = np.diff(times_ns) / 1e9
        # One that fell was set back: what it counted meanwhile is not known, and no less than 0.
        work_s = np.where(values[1:] > values[:-1], values[1:] - values[:-1], 0) / 1e6
        work_s, length_s = work_s[length_s > 0], length_s[length_s > 0]
        if not len(length_s):
            return None
        order = np.argsort(-work_s / length_s, kind="stable")
        first_s = np.cumsum(length_s[order])
        most = np.cumsum(work_s[order]) / (first_s + LONGER_FRAC * first_s[-1])
        return float(most.max())

    def _last_of_windows(self, times_ns: Times, begin_ns: int) -> Times:
        """Where the last reading of each window is; the first of all is one by itself."""
        windows = np.ceil((times_ns - begin_ns) / WINDOW_NS - _EARLY_FRAC)
        return np.flatnonzero(np.append(np.diff(windows) > 0, True))


def _without_repeats(times_ns: Times, values: Unsigned) -> tuple[Times, Unsigned]:
    """Without readings that repeat the one before, where both neighbours moved on.

    Processes are counted every 5 s, and now and then a moment after the reading: its time is then
    in the next one's.
    """
    repeats = np.append(False, values[1:] == values[:-1])
    after, before = np.append(repeats[1:], True), np.append(True, repeats[:-1])
    is_kept = ~(repeats & ~after & ~before)
    return times_ns[is_kept], values[is_kept]


# The names of columns are those of docs/reference/account-files.md.

CPU: Final = "job_cpu_us"
MEMORY: Final = ("job_memory_bytes", "job_rss_bytes")
"""Without the page cache, which fills every limit: the working set, else resident sets."""

_PSI = regex(r"(job|node)_psi_((?:cpu|memory|io)_(?:some|full))_us")
_NIC = regex(r"ib_(\w+?)_(\d+)_(tx_bytes|rx_bytes)")
_RAPL = regex(r"rapl_(.+)_uj")
_HWMON = regex(r"hwmon_(.+)_uw")
_US: Final = 1e-6


class Meter(NamedTuple):
    """Columns whose energies add up; `factor` makes joules (or watts, of a gauge) of them.

    `scope` is `node`, `module` or `cpu`, as in hpckit.account.values.Energy; `what` says which.
    """

    names: tuple[str, ...]
    factor: float
    scope: str
    is_gauge: bool
    what: str


def meters_of(names: Iterable[str]) -> tuple[Meter, ...]:
    """The meters of a node, the best first: a whole node, a module, its CPUs.

    Cray's node counter is the whole node. On Grace, hwmon's module includes the GPU; its Grace
    socket includes CPU, SysIO and memory. RAPL's packages include cores and uncore, not DRAM;
    `psys` (the platform of a client) is left out, as it includes packages.
    """
    ordered = tuple(names)
    node = tuple(name for name in ("node_energy_j",) if name in ordered)
    parts = tuple(name for name in ("node_cpu_energy_j", "node_memory_energy_j") if name in ordered)
    zones = {name: match[1] for name in ordered if (match := _RAPL.fullmatch(name))}
    labels = {name: match[1] for name in ordered if (match := _HWMON.fullmatch(name))}
    rapl = _labelled(zones, "package", "dram")
    found = [
        Meter(node, 1.0, "node", False, "Cray pm_counters"),
        Meter(_labelled(labels, "module"), _US, "module", True, "hwmon, module"),
        Meter(parts, 1.0, "cpu", False, "Cray pm_counters, CPU and memory"),
        Meter(_labelled(labels, "grace"), _US, "cpu", True, "hwmon, Grace"),
        Meter(rapl, _US, "cpu", False, "RAPL, packages and DRAM"),
        Meter(_labelled(labels, "cpu", "package", "socket"), _US, "cpu", True, "hwmon, CPU"),
    ]
    return tuple(meter for meter in found if meter.names)


def _labelled(labels: dict[str, str], *words: str) -> tuple[str, ...]:
    return tuple(name for name, label in labels.items() if any(one in label for one in words))


METER_FRAC: Final = 0.1
"""Half the width of the interval that is stated for these meters: an assumption, as the makers of
RAPL, hwmon sensors and pm_counters state none in the files that are read."""

_AT_ONCE: Final = 32
"""Chunks of a file: each has few readings of the host."""

_SHARED: Final = EnergyReason(kind=EnergyLack.OWN_METER)


class HostFold:
    """Folds the host's samples of one node, in order, a chunk at a time."""

    def __init__(self, meta: SampleMeta, period_s: float, begin_ns: int, end_ns: int) -> None:
        self._meta, self._begin_ns, self._end_ns = meta, begin_ns, end_ns
        self._gap_ns = max(1, round(GAP_PERIODS * period_s * 1e9))
        self._counters: dict[str, HostCounter] = {}
        self._gauges: dict[str, HostGauge] = {}
        self._cpu_need = CpuNeed()
        self._waiting: list[tuple[Times, Unsigned]] = []

    def add(self, chunk: SampleChunk, shift_ns: int = 0) -> None:
        """The next chunk; `shift_ns` is added to its times."""
        if chunk.meta.host_columns != self._meta.host_columns:
            self._take_waiting()
        self._meta = chunk.meta
        if len(chunk.host_ns):
            self._waiting.append((chunk.host_ns + shift_ns, chunk.host))
        if len(self._waiting) == _AT_ONCE:
            self._take_waiting()

    def _take_waiting(self) -> None:
        if not self._waiting:
            return
        times, host = map(np.concatenate, zip(*self._waiting, strict=True))
        self._waiting.clear()
        inside = slice(
            int(np.searchsorted(times, self._begin_ns)),
            int(np.searchsorted(times, self._end_ns, "right")),
        )
        for place, column in enumerate(self._meta.host_columns):
            if len(times[inside]):
                self._add(column, times[inside], host[inside, place])

    def result(self, node: NodeAccount) -> NodeAccount:
        """The node's account with what its host did.

        Its energy is of the best meter that there is, and `scope` says what that includes: `node`
        (all), `module` (CPU, memory and GPU of Grace Hopper), `cpu` (CPUs and memory).
        """
        self._take_waiting()
        cpu_s, own_s = self._seconds(CPU), self._seconds("sampler_step_cpu_us")
        refused = (f"{what}: {why}" for what, why in sorted(self._meta.host_refused.items()))
        return replace(
            node,
            energy=self._energy(),
            cpus=self._meta.cpus,
            cpu_s=None if cpu_s is None else max(0.0, cpu_s - (own_s or 0.0)),
            cpus_enough=self._cpu_need.enough(),
            cpu_throttled_s=self._seconds("job_cpu_throttled_us"),
            mem_peak_bytes=self._most(*MEMORY),
            mem_kernel_peak_bytes=self._most("job_memory_peak_bytes"),
            mem_limit_bytes=self._meta.memory_limit_bytes,
            oom_kills=self._grown("job_oom_kills"),
            psi_frac=self._psi(),
            network_bytes={
                ".".join(port.groups()): counter.total
                for column, counter in self._counters.items()
                if (port := _NIC.fullmatch(column)) and counter.total is not None
            },
            sampler_cpu_s=own_s,
            missing=(*node.missing, *refused),
        )

    def _add(self, column: HostColumn, times: Times, values: Unsigned) -> None:
        if column.kind == "counter":
            counter = self._counters.setdefault(column.name, HostCounter(column.wraps_at))
            counter.add(times, values)
            if column.name == CPU:
                self._cpu_need.add(times, values)
        else:
            self._gauges.setdefault(column.name, HostGauge(self._gap_ns)).add(times, values)

    def _grown(self, name: str) -> int | None:
        return self._counters[name].total if name in self._counters else None

    def _seconds(self, name: str) -> float | None:
        grown_us = self._grown(name)
        return None if grown_us is None else grown_us / 1e6

    def _most(self, *known: str) -> int | None:
        mosts = (self._gauges[name].most for name in known if name in self._gauges)
        return next((int(most) for most in mosts if most is not None), None)

    def _psi(self) -> dict[str, float]:
        """The job's; of the node what is not known of the job."""
        found: dict[str, dict[str, float]] = {"job": {}, "node": {}}
        for name, counter in self._counters.items():
            of = _PSI.fullmatch(name)
            if of is not None and counter.total is not None and counter.counted_ns:
                found[of[1]][of[2]] = min(1.0, counter.total * 1000 / counter.counted_ns)
        return found["job"] or {f"node_{what}": frac for what, frac in found["node"].items()}

    def _energy(self) -> Energy:
        there = [
            *(name for name, one in self._counters.items() if one.total is not None),
            *(name for name, one in self._gauges.items() if one.integral is not None),
        ]
        meters = meters_of(there)
        if not meters:
            return Energy.unknown_of_node(EnergyReason(kind=EnergyLack.METER))
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
        is_whole = self._meta.exclusive is True
        return Energy(
            value_j=value_j,
            plus_minus_j=value_j * METER_FRAC,
            source=EnergySource.INTEGRATED if meter.is_gauge else EnergySource.COUNTER,
            coverage_frac=min(1.0, min(counted) / held_ns),
            scope=meter.scope,
            because=meter.what if is_whole else f"{meter.what}; {_SHARED}",
        )
