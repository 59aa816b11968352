"""Counters of the whole node: pressure, InfiniBand, RAPL, hwmon power, Cray's pm_counters.

Each only where it can be read without privileges; otherwise it is said why not.
"""

from __future__ import annotations

import glob
import os
import re

from hpckit.adapters.cgroup_counters import Pressure, pressure_columns
from hpckit.adapters.held_file import HeldFile, hold
from hpckit.model.samples import HostColumn
from hpckit.parse.cgroup import busy_us, number_of, value_of

_UNNAMED = re.compile(r"[^a-z0-9]+")
_WORD_BYTES = 4
# InfiniBand's counters that are read, as the standard names them (PortCounters, and its extended
# form): data are in units of 4 bytes; and whether they are asked at each turn.
_PORT = (
    ("port_xmit_data", "tx_bytes", _WORD_BYTES, True),
    ("port_rcv_data", "rx_bytes", _WORD_BYTES, True),
    ("port_xmit_wait", "xmit_wait_ticks", 1, True),
    ("symbol_error", "symbol_errors", 1, False),
    ("link_error_recovery", "link_recoveries", 1, False),
    ("link_downed", "link_downs", 1, False),
)
_SELDOM = 10
_KIB = 1024
_CRAY = (
    ("energy", "node_energy_j", "counter"),
    ("power", "node_power_w", "gauge"),
    ("cpu_energy", "node_cpu_energy_j", "counter"),
    ("cpu_power", "node_cpu_power_w", "gauge"),
    ("memory_energy", "node_memory_energy_j", "counter"),
    ("memory_power", "node_memory_power_w", "gauge"),
    ("freshness", "cray_freshness", "gauge"),
)
# Labels of hwmon's power sensors that are of a node's processors: accounting.md 3.3.
_HWMON_LABELS = ("module", "grace", "cpu", "sysio", "package", "socket")


class NumberFiles:
    """Files with one number each, and what it is multiplied by."""

    def __init__(self) -> None:
        self.columns: list[HostColumn] = []
        self.refused: dict[str, str] = {}
        self._files: list[tuple[HeldFile, int, bool]] = []
        self._values: list[int | None] = []
        self._turn = 0

    def add(self, column: HostColumn, path: str, factor: int = 1, often: bool = True) -> bool:
        """Read this file too, if it can be; one that is not asked often is so every tenth time."""
        held = hold(path)
        if held is None or number_of(held.read()) is None:
            return False
        self.columns.append(column)
        self._files.append((held, factor, often))
        self._values.append(None)
        return True

    def read(self) -> list[int | None]:
        """The columns; None is not measured."""
        is_turn = self._turn % _SELDOM == 0
        self._turn += 1
        for at, (held, factor, often) in enumerate(self._files):
            if often or is_turn:
                number = number_of(held.read())
                self._values[at] = None if number is None else number * factor
        return list(self._values)


class NodePressure:
    """The pressure of the whole node, /proc/pressure."""

    columns = pressure_columns("node")

    def __init__(self, sysroot: str = "") -> None:
        self._pressure = Pressure(f"{sysroot}/proc/pressure", suffix="")
        lacks = self._pressure.lacks
        self.refused = {"node_psi": "this kernel has no /proc/pressure"} if lacks else {}

    def read(self) -> list[int | None]:
        """The columns; None is not measured."""
        return self._pressure.read()


class NodeUse:
    """CPU time and memory of everything on the node."""

    columns = (HostColumn("node_cpu_us", "counter"), HostColumn("node_memory_bytes", "gauge"))

    def __init__(self, sysroot: str = "") -> None:
        self._stat = hold(f"{sysroot}/proc/stat")
        self._memory = hold(f"{sysroot}/proc/meminfo")
        self.refused: dict[str, str] = {}

    def read(self) -> list[int | None]:
        """The columns; None is not measured."""
        data = self._memory.read() if self._memory else b""
        total, free = value_of(data, b"MemTotal:"), value_of(data, b"MemAvailable:")
        used = None if total is None or free is None else max(total - free, 0) * _KIB
        return [busy_us(self._stat.read()) if self._stat else None, used]


def network(sysroot: str, why_not: str | None) -> NumberFiles:
    """Counters of InfiniBand and RoCE ports, which are those of all jobs on the node.

    `why_not` says that other jobs may be here.
    """
    files = NumberFiles()
    ports = sorted(glob.glob(f"{sysroot}/sys/class/infiniband/*/ports/*/counters"))
    if not ports:
        files.refused["network"] = "no /sys/class/infiniband"
    elif why_not is not None:
        files.refused["network"] = why_not
    else:
        for folder in ports:
            device, port = folder.split("/")[-4], folder.split("/")[-2]
            for name, column, factor, often in _PORT:
                title = f"ib_{_plain(device)}_{port}_{column}"
                files.add(HostColumn(title, "counter"), f"{folder}/{name}", factor, often)
        if not files.columns:
            files.refused["network"] = "the counters cannot be read"
    return files


def energy(sysroot: str = "") -> NumberFiles:
    """What is known of the energy and power of processors, memory and node."""
    files = NumberFiles()
    _add_cray(files, f"{sysroot}/sys/cray/pm_counters")
    _add_rapl(files, f"{sysroot}/sys/class/powercap")
    _add_hwmon(files, f"{sysroot}/sys/class/hwmon")
    return files


def _add_cray(files: NumberFiles, folder: str) -> None:
    if not os.path.isdir(folder):
        files.refused["cray"] = "no /sys/cray/pm_counters"
        return
    for name, column, kind in _CRAY:
        files.add(HostColumn(column, kind), f"{folder}/{name}")
    for path in sorted(glob.glob(f"{folder}/accel[0-9]*_energy")):
        name = os.path.basename(path).removesuffix("_energy")
        files.add(HostColumn(f"node_{name}_energy_j", "counter"), path)


def _add_rapl(files: NumberFiles, folder: str) -> None:
    domains = sorted(glob.glob(f"{folder}/*rapl:*"))
    # Each domain is there once more below intel-rapl-mmio, from the same counter.
    domains = [one for one in domains if not os.path.basename(one).startswith("intel-rapl-mmio")]
    if not domains:
        files.refused["rapl"] = "no RAPL domain in /sys/class/powercap"
        return
    unread = 0
    for domain in domains:
        wraps = _one_number(f"{domain}/max_energy_range_uj")
        name = f"rapl_{_plain(os.path.basename(domain).partition(':')[2])}_{_label(domain, 'name')}"
        column = HostColumn(f"{name}_uj", "counter", wraps)
        # Without the range a wrap could not be told from a reset.
        unread += wraps is None or not files.add(column, f"{domain}/energy_uj")
    if unread == len(domains):
        files.refused["rapl"] = "energy_uj is root's alone (CVE-2020-8694), or its range is missing"


def _add_hwmon(files: NumberFiles, folder: str) -> None:
    found = 0
    for base, label_path in _power_sensors(folder).items():
        label = _label(os.path.dirname(label_path), os.path.basename(label_path))
        if not any(word in label for word in _HWMON_LABELS):
            continue
        column = HostColumn(f"hwmon_{label}_uw", "gauge")
        if column.name in {one.name for one in files.columns}:
            column = HostColumn(f"hwmon_{label}_{found}_uw", "gauge")
        found += files.add(column, f"{base}_average") or files.add(column, f"{base}_input")
    if not found:
        files.refused["hwmon"] = "no power sensor of a processor in /sys/class/hwmon"


def _power_sensors(folder: str) -> dict[str, str]:
    """Files that name a power sensor, by the sensor's real path without `_label`, `_average` ….

    Grace's, of acpi_power_meter, have no label: power1_oem_info is the name, and the files are
    those of the device. Source: the kernel's Documentation/hwmon/acpi_power_meter.rst.
    """
    found: dict[str, str] = {}
    for end in ("_label", "_oem_info"):
        for below in ("", "device/"):
            for path in sorted(glob.glob(f"{folder}/hwmon*/{below}power*{end}")):
                found.setdefault(os.path.realpath(path).removesuffix(end), path)
    return found


def _one_number(path: str) -> int | None:
    held = hold(path)
    if held is None:
        return None
    number = number_of(held.read())
    held.close()
    return number


def _label(folder: str, name: str) -> str:
    held = hold(f"{folder}/{name}")
    if held is None:
        return "unnamed"
    text = held.read().decode("utf-8", "replace").strip()
    held.close()
    return _plain(text) or "unnamed"


def _plain(text: str) -> str:
    return _UNNAMED.sub("_", text.lower()).strip("_")
