"""Counters of the whole node: pressure, InfiniBand, RAPL, hwmon power, Cray's pm_counters.

Each only where it can be read without privileges; otherwise it is said why not.
"""

from __future__ import annotations

import glob
import os
from typing import NamedTuple

from hpckit.account.sample_format import HostColumn
from hpckit.core.files_in_job import hold, read_bytes
from hpckit.core.late import regex

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from hpckit.core.files_in_job import HeldFile

    Parse = Callable[[bytes], int | None]
    """Finds a number in what a file has; None is not measured."""


# What the kernel says of control groups, versions 1 and 2. Sources: cgroups(7);
# Documentation/admin-guide/cgroup-v2.rst, cgroup-v1/{cpuacct,memory}.rst;
# Documentation/accounting/psi.rst. A key that is not there is None: kernels have more or fewer.
UNIFIED = ""
"""The name that the hierarchy of version 2 has here."""
_MEMBERSHIP_PARTS = 3
_MOUNT_POINT = 4
_LEAST_STAT_WORDS = 9
_TICK_US = 10_000  # USER_HZ is 100: time(7)


def parse_memberships(data: bytes) -> dict[str, str]:
    """/proc/PID/cgroup: controller -> path in its hierarchy, version 2 under `UNIFIED`."""
    found: dict[str, str] = {}
    for line in data.decode("utf-8", "surrogateescape").splitlines():
        parts = line.split(":", 2)
        if len(parts) == _MEMBERSHIP_PARTS:
            for controller in parts[1].split(","):
                found[controller] = parts[2].removesuffix(" (deleted)")
    return found


def parse_mounts(data: bytes) -> dict[str, tuple[str, str]]:
    """/proc/self/mountinfo: controller -> (root within the hierarchy, mount point)."""
    found: dict[str, tuple[str, str]] = {}
    for line in data.decode("utf-8", "surrogateescape").splitlines():
        # Source: proc(5); behind the dash are the type, the source and the hierarchy's options.
        before, _, after = line.partition(" - ")
        parts, rest = before.split(), after.split()
        if len(parts) <= _MOUNT_POINT or not rest:
            continue
        where = (parts[_MOUNT_POINT - 1], parts[_MOUNT_POINT])
        names = {"cgroup2": [UNIFIED], "cgroup": rest[-1].split(",")}.get(rest[0], [])
        for name in names:
            found.setdefault(name, where)
    return found


def folder_of(path: str, mount: tuple[str, str]) -> str | None:
    """Where a cgroup's files are; None for one outside what is mounted here."""
    root, point = mount
    if "/.." in path:
        return None
    if root == "/":
        below = path
    elif path == root or path.startswith(f"{root}/"):
        below = path[len(root) :]
    else:
        return None
    return f"{point}{below}".rstrip("/")


def job_path(own: str, others: Iterable[str]) -> str | None:
    """The deepest cgroup that holds this process and one of another step; None if there is none.

    Nothing is known of its name: Slurm has called it job_<id> and, from 26.05 on, by its SLUID.
    A process of the job in this very cgroup, or a hierarchy that has only the root in common, is
    one that Slurm does not confine.
    """
    best = ""
    for other in others:
        if other == own or other.startswith(f"{own}/"):
            return None
        best = max(best, os.path.commonpath((own, other)), key=len)
    return best if len(best) > 1 else None


def value_of(data: bytes, key: bytes) -> int | None:
    """The number of a key in a file such as cpu.stat or memory.stat: `key number` a line."""
    return number_of((b"\n" + data).partition(b"\n" + key + b" ")[2])


def number_of(data: bytes) -> int | None:
    """The number that a file such as memory.current begins with; None for `max` and the like."""
    word = data[:32].split(None, 1)
    return int(word[0]) if word and word[0].isdigit() else None


def count_of(data: bytes) -> int | None:
    """How many CPUs cpuset.cpus names, such as `0-31,64`; None for an empty list."""
    # The kernel writes runs alone: core.index_list, which reads strides too, takes 2 ms to load.
    try:
        ends = [part.partition("-") for part in data.decode("ascii", "replace").split(",")]
        return sum(int(last or first) - int(first) + 1 for first, _, last in ends) or None
    except ValueError:
        return None


def pressure_of(word: bytes) -> Parse:
    """What finds the total of `some` or `full` in a pressure file, in µs."""
    # cpu.pressure has had `full` since Linux 5.13.
    return lambda data: number_of(data.partition(word + b" ")[2].partition(b"total=")[2])


def number(key: bytes = b"", times: int = 1, per: int = 1) -> Parse:
    """What finds the number of a key, or the first of a file, and converts it."""

    def parse(data: bytes) -> int | None:
        value = value_of(data, key) if key else number_of(data)
        return None if value is None else value * times // per

    return parse


def busy_us(data: bytes) -> int | None:
    """The CPU time in /proc/stat's first line in µs, without idle and iowait: proc_stat(5)."""
    words = data.partition(b"\n")[0].split()
    if len(words) < _LEAST_STAT_WORDS or words[0] != b"cpu":
        return None
    user, nice, system, _, _, irq, soft, stolen = map(int, words[1:_LEAST_STAT_WORDS])
    return (user + nice + system + irq + soft + stolen) * _TICK_US


def used_bytes(data: bytes) -> int | None:
    """The memory that /proc/meminfo does not call available."""
    total, free = value_of(data, b"MemTotal:"), value_of(data, b"MemAvailable:")
    return None if total is None or free is None else max(total - free, 0) * 1024


_SELDOM = 10


class Source:
    """Columns, each a number in a file that stays open, and why others are not there."""

    def __init__(self) -> None:
        self.columns: list[HostColumn] = []
        self.refused: dict[str, str] = {}
        self._files: dict[str, HeldFile | None] = {}
        self._rows: list[tuple[str, Parse, bool]] = []
        self._values: list[int | None] = []
        self._turn = 0

    def add(self, column: HostColumn, path: str, parse: Parse, *, often: bool = True) -> bool:
        """Read this too; whether there is a file. One not asked often is so every tenth time."""
        if path not in self._files:
            self._files[path] = hold(path)
        self.columns.append(column)
        self._rows.append((path, parse, often))
        self._values.append(None)
        return self._files[path] is not None

    def offer(
        self, column: HostColumn, path: str, parse: Parse = number_of, *, often: bool = True
    ) -> bool:
        """Read this too if it can be; whether it can."""
        held = hold(path)
        if held is None or parse(held.read()) is None:
            return False
        self._files[path] = held
        return self.add(column, path, parse, often=often)

    def read(self) -> list[int | None]:
        """The columns; None is not measured."""
        is_turn = self._turn % _SELDOM == 0
        self._turn += 1
        read: dict[str, bytes] = {}
        for at, (path, parse, often) in enumerate(self._rows):
            if often or is_turn:
                if path not in read:
                    held = self._files[path]
                    read[path] = held.read() if held else b""
                self._values[at] = parse(read[path])
        return list(self._values)


class Hierarchies:
    """Where this process's control groups are, read below `sysroot`.

    The job's is the one that this process shares with the job's other steps: what /proc says of the
    job's processes is followed, and no path is built.
    """

    def __init__(self, sysroot: str = "") -> None:
        self._proc = f"{sysroot}/proc"
        self._sysroot = sysroot
        self._mounts = parse_mounts(read_bytes(f"{self._proc}/self/mountinfo", 1024**2))
        self.own = self.of("self")

    def of(self, pid: int | str) -> dict[str, str]:
        """The groups of a process, controller by controller."""
        return parse_memberships(read_bytes(f"{self._proc}/{pid}/cgroup"))

    def folder(self, controller: str, path: str) -> str | None:
        """The files of a group."""
        mount = self._mounts.get(controller)
        found = None if mount is None else folder_of(path, mount)
        return None if found is None else f"{self._sysroot}{found}"

    def group(self, controller: str, others: Sequence[Mapping[str, str]]) -> JobGroup | None:
        """The job's group for a controller: of version 1 where it is mounted so, else of 2."""
        name = controller if controller in self.own else UNIFIED
        own = self.own.get(name)
        if own is None:
            return None
        job = job_path(own, [groups[name] for groups in others if name in groups])
        folder = None if job is None else self.folder(name, job)
        if job is None or folder is None:
            return None
        # This process's own step is the job's child on the way to it.
        step = own[len(job) + 1 :].partition("/")[0]
        return JobGroup(folder, f"{folder}/{step}", name == UNIFIED)

    def allowed_cpus(self) -> tuple[int, ...]:
        """How many CPUs this process's groups name, from its own up, below what is mounted here.

        Groups of version 2 that name none are left out: they have their parent's. The mount itself
        is left out too, which is the whole machine's or a container's.
        """
        name = "cpuset" if "cpuset" in self.own else UNIFIED
        path = self.own.get(name, "/").rstrip("/")
        mount = self._mounts.get(name, ("/", ""))
        found = []
        while path and path != mount[0] and (folder := self.folder(name, path)) is not None:
            found.append(count_of(read_bytes(f"{folder}/cpuset.cpus")))
            path = path.rpartition("/")[0]
        return tuple(count for count in found if count is not None)


class JobGroup(NamedTuple):
    """The folders of a job's group and of this process's step, in one hierarchy."""

    job: str
    step: str
    is_unified: bool


# Columns; the file, and the key in it, of a group of version 2, and of one of version 1.
JOB_CPU = (
    ("job_cpu_us", "counter", "cpu.stat usage_usec", "cpuacct.usage"),
    ("job_cpu_user_us", "counter", "cpu.stat user_usec", "cpuacct.stat user"),
    ("job_cpu_system_us", "counter", "cpu.stat system_usec", "cpuacct.stat system"),
    ("job_cpu_throttled_us", "counter", "cpu.stat throttled_usec", ""),
    ("sampler_step_cpu_us", "counter", "cpu.stat usage_usec", "cpuacct.usage"),
)
"""Slurm confines CPU time to a group with jobacct_gather/cgroup."""
JOB_MEMORY = (
    ("job_memory_current_bytes", "gauge", "memory.current", "memory.usage_in_bytes"),
    # In version 1 those of the group alone would leave out the groups of its steps.
    ("job_memory_anon_bytes", "gauge", "memory.stat anon", "memory.stat total_rss"),
    ("job_memory_shmem_bytes", "gauge", "memory.stat shmem", "memory.stat total_shmem"),
    ("job_memory_peak_bytes", "gauge", "memory.peak", "memory.max_usage_in_bytes"),
    ("job_oom_kills", "counter", "memory.events oom_kill", "memory.oom_control oom_kill"),
    ("", "", "memory.stat inactive_file", "memory.stat total_inactive_file"),
    ("", "", "memory.stat active_file", "memory.stat total_active_file"),
)
"""The last two are what the kernel would drop first, and no columns of their own."""
_US_OF = {"cpuacct.usage": (1, 1000), "cpuacct.stat": (_TICK_US, 1)}


def of_group(table: Sequence[tuple[str, str, str, str]], name: str, group: JobGroup) -> Source:
    """What reads a table's columns of a group; without the first, it is refused by that name."""
    source = Source()
    for column, kind, *versions in table:
        file, _, key = versions[not group.is_unified].partition(" ")
        path = f"{group.step if column.startswith('sampler') else group.job}/{file}"
        parse = number(key.encode(), *_US_OF.get(file, (1, 1)))
        if not source.add(HostColumn(column, kind), path, parse) and len(source.columns) == 1:
            source.refused = {name: f"{path} cannot be read"}
    return source


def pressure_columns(whose: str) -> tuple[HostColumn, ...]:
    """`<whose>_psi_<resource>_<some|full>_us`, counters."""
    return tuple(
        HostColumn(f"{whose}_psi_{resource}_{word}_us", "counter")
        for resource in ("cpu", "memory", "io")
        for word in ("some", "full")
    )


def pressure(whose: str, folder: str, suffix: str = "") -> Source:
    """The columns of pressure, from a folder of files; those of /proc have no suffix."""
    source, added = Source(), []
    for column in pressure_columns(whose):
        resource, word = column.name.split("_")[2:4]
        path = f"{folder}/{resource}{suffix}"
        added.append(source.add(column, path, pressure_of(word.encode())))
    if not any(added):
        why = f"no pressure files in {folder}" if suffix else "this kernel has no /proc/pressure"
        source.refused = {f"{whose}_psi": why}
    return source


_UNNAMED = regex(r"[^a-z0-9]+")
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


def node_use(sysroot: str = "") -> Source:
    """CPU time and memory of everything on the node."""
    source = Source()
    source.add(HostColumn("node_cpu_us", "counter"), f"{sysroot}/proc/stat", busy_us)
    source.add(HostColumn("node_memory_bytes", "gauge"), f"{sysroot}/proc/meminfo", used_bytes)
    return source


def network(sysroot: str, why_not: str | None) -> Source:
    """Counters of InfiniBand and RoCE ports, which are those of all jobs on the node.

    `why_not` says that other jobs may be here.
    """
    files = Source()
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
                counter = HostColumn(title, "counter")
                files.offer(counter, f"{folder}/{name}", number(times=factor), often=often)
        if not files.columns:
            files.refused["network"] = "the counters cannot be read"
    return files


def energy(sysroot: str = "") -> Source:
    """What is known of the energy and power of processors, memory and node."""
    files = Source()
    _add_cray(files, f"{sysroot}/sys/cray/pm_counters")
    _add_rapl(files, f"{sysroot}/sys/class/powercap")
    _add_hwmon(files, f"{sysroot}/sys/class/hwmon")
    return files


def _add_cray(files: Source, folder: str) -> None:
    if not os.path.isdir(folder):
        files.refused["cray"] = "no /sys/cray/pm_counters"
        return
    for name, column, kind in _CRAY:
        files.offer(HostColumn(column, kind), f"{folder}/{name}")
    for path in sorted(glob.glob(f"{folder}/accel[0-9]*_energy")):
        name = os.path.basename(path).removesuffix("_energy")
        files.offer(HostColumn(f"node_{name}_energy_j", "counter"), path)


def _add_rapl(files: Source, folder: str) -> None:
    # Each domain is there once more below intel-rapl-mmio, from the same counter.
    domains = [
        domain
        for domain in sorted(glob.glob(f"{folder}/*rapl:*"))
        if not os.path.basename(domain).startswith("intel-rapl-mmio")
    ]
    if not domains:
        files.refused["rapl"] = "no RAPL domain in /sys/class/powercap"
        return
    unread = 0
    for domain in domains:
        wraps = number_of(read_bytes(f"{domain}/max_energy_range_uj"))
        number = _plain(os.path.basename(domain).partition(":")[2])
        name = f"rapl_{number}_{_label(f'{domain}/name')}_uj"
        column = HostColumn(name, "counter", wraps)
        # Without the range a wrap could not be told from a reset.
        unread += wraps is None or not files.offer(column, f"{domain}/energy_uj")
    if unread == len(domains):
        files.refused["rapl"] = "only root may read energy_uj (CVE-2020-8694), or it has no range"


def _add_hwmon(files: Source, folder: str) -> None:
    found = 0
    for base, label_path in _power_sensors(folder).items():
        label = _label(label_path)
        if not any(word in label for word in _HWMON_LABELS):
            continue
        column = HostColumn(f"hwmon_{label}_uw", "gauge")
        if column.name in {known.name for known in files.columns}:
            column = HostColumn(f"hwmon_{label}_{found}_uw", "gauge")
        found += files.offer(column, f"{base}_average") or files.offer(column, f"{base}_input")
    if not found:
        files.refused["hwmon"] = "no CPU power sensor in /sys/class/hwmon"


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


def _label(path: str) -> str:
    return _plain(read_bytes(path).decode("utf-8", "replace")) or "unnamed"


def _plain(text: str) -> str:
    return _UNNAMED.sub("_", text.lower()).strip("_")
