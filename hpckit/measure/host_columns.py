"""What the names of host columns mean: which of them is the job's CPU time, which a NIC's traffic.

The names are those of docs/reference/account-files.md. Two spellings are known: `job_cpu_us` and
`cgroup.cpu_usage_us`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

CPU: Final = ("job_cpu_us", "cgroup.cpu_usage_us")
CPU_THROTTLED: Final = ("job_cpu_throttled_us", "cgroup.cpu_throttled_us")
SAMPLER_CPU: Final = ("sampler_step_cpu_us", "sampler_cpu_us", "sampler.cpu_us")
OOM_KILLS: Final = ("job_oom_kills", "cgroup.oom_kills")

MEMORY: Final = ("job_memory_bytes", "cgroup.memory_working_bytes", "job_rss_bytes")
"""Without the page cache, which fills every limit: the working set, else resident sets."""

MEMORY_PEAK: Final = ("job_memory_peak_bytes", "cgroup.memory_peak_bytes")
"""memory.peak, memory.max_usage_in_bytes: with the page cache."""

_PSI = re.compile(r"(?:(?P<whose>job|node)_psi_|psi\.)(?P<what>(?:cpu|memory|io)_(?:some|full))_us")
_NIC = re.compile(
    r"(?:ib_(?P<device>\w+?)_(?P<port>\d+)_|ib\.(?P<device2>[^.]+)\.(?P<port2>\d+)\.)"
    r"(?P<what>tx_bytes|rx_bytes)"
)
_RAPL = re.compile(r"rapl[_.](?P<zone>[\w.-]+?)[_.](?:energy_)?uj")
_HWMON = re.compile(r"hwmon[_.](?P<label>[\w.-]+?)[_.](?:power_)?uw")
_CRAY_NODE: Final = ("node_energy_j", "cray.node.energy_j", "cray.energy_j", "cray.node_energy_j")
_CRAY_PARTS: Final = (
    ("node_cpu_energy_j", "cray.cpu.energy_j"),
    ("node_memory_energy_j", "cray.memory.energy_j"),
)
_US: Final = 1e-6


class Meter(NamedTuple):
    """Columns whose energies add up; `factor` makes joules (or watts, of a gauge) of them.

    `scope` is `node`, `module` or `cpu`, as in hpckit.model.account.Energy; `what` says which.
    """

    names: tuple[str, ...]
    factor: float
    scope: str
    is_gauge: bool
    what: str


def first_of(known: Iterable[str], there: Iterable[str]) -> str | None:
    """The first of these names that is there."""
    names = frozenset(there)
    return next((name for name in known if name in names), None)


def psi_of(name: str) -> tuple[str, str] | None:
    """Whose pressure a column is (`job` or `node`) and of what: `memory_full`."""
    match = _PSI.fullmatch(name)
    return None if match is None else (match["whose"] or "job", match["what"])


def traffic_of(name: str) -> str | None:
    """What a column of a NIC's traffic is called in a report: `mlx5_0.1.tx_bytes`."""
    match = _NIC.fullmatch(name)
    if match is None:
        return None
    device, port = match["device"] or match["device2"], match["port"] or match["port2"]
    return f"{device}.{port}.{match['what']}"


def meters_of(names: Iterable[str]) -> tuple[Meter, ...]:
    """The meters of a node, the best first: a whole node, a module, its CPUs.

    Cray's node counter is the whole node. On Grace, hwmon's module includes the GPU; its Grace
    socket includes CPU, SysIO and memory. RAPL's packages include cores and uncore, not DRAM;
    `psys` (the platform of a client) is left out, as it includes packages.
    """
    ordered = tuple(names)
    zones = {name: match["zone"] for name in ordered if (match := _RAPL.fullmatch(name))}
    labels = {name: match["label"] for name in ordered if (match := _HWMON.fullmatch(name))}
    node = first_of(_CRAY_NODE, ordered)
    parts = tuple(one for one in (first_of(some, ordered) for some in _CRAY_PARTS) if one)
    rapl = tuple(name for name, zone in zones.items() if "package" in zone or "dram" in zone)
    found = [
        Meter((node,) if node else (), 1.0, "node", False, "Cray pm_counters"),
        Meter(_labelled(labels, "module"), _US, "module", True, "hwmon, module"),
        Meter(parts, 1.0, "cpu", False, "Cray pm_counters, CPU and memory"),
        Meter(_labelled(labels, "grace"), _US, "cpu", True, "hwmon, Grace"),
        Meter(rapl, _US, "cpu", False, "RAPL, packages and DRAM"),
        Meter(_labelled(labels, "cpu", "package", "socket"), _US, "cpu", True, "hwmon, CPU"),
    ]
    return tuple(meter for meter in found if meter.names)


def _labelled(labels: dict[str, str], *words: str) -> tuple[str, ...]:
    return tuple(name for name, label in labels.items() if any(one in label for one in words))
