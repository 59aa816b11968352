"""The job's CPU time, memory and pressure on this node, from its control group.

The group is the one that this process shares with the job's other steps: what /proc says of the
job's processes is followed, and no path is built (hpckit.parse.cgroup).
"""

from __future__ import annotations

from hpckit.adapters.held_file import HeldFile, hold
from hpckit.adapters.job_processes import read_bytes, read_whole
from hpckit.model.samples import HostColumn
from hpckit.parse.cgroup import (
    UNIFIED,
    count_of,
    folder_of,
    job_path,
    number_of,
    parse_memberships,
    parse_mounts,
    parse_psi,
    step_path,
    value_of,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TICK_US = 10_000  # USER_HZ is 100: time(7)
_NS_PER_US = 1000
_MOUNTS_BYTES = 1024**2
_MEMBERS_BYTES = 4096
_CPUS_BYTES = 4096
PRESSURES = ("cpu", "memory", "io")


def pressure_columns(whose: str) -> tuple[HostColumn, ...]:
    """`<whose>_psi_<resource>_<some|full>_us`, counters."""
    return tuple(
        HostColumn(f"{whose}_psi_{resource}_{word}_us", "counter")
        for resource in PRESSURES
        for word in ("some", "full")
    )


CPU_COLUMNS = (
    HostColumn("job_cpu_us", "counter"),
    HostColumn("job_cpu_user_us", "counter"),
    HostColumn("job_cpu_system_us", "counter"),
    HostColumn("job_cpu_throttled_us", "counter"),
    HostColumn("sampler_step_cpu_us", "counter"),
)
MEMORY_COLUMNS = (
    HostColumn("job_memory_bytes", "gauge"),
    HostColumn("job_memory_current_bytes", "gauge"),
    HostColumn("job_memory_anon_bytes", "gauge"),
    HostColumn("job_memory_shmem_bytes", "gauge"),
    HostColumn("job_memory_peak_bytes", "gauge"),
    HostColumn("job_oom_kills", "counter"),
)
PRESSURE_COLUMNS = pressure_columns("job")


class Hierarchies:
    """Where this process's control groups are, read below `sysroot`."""

    def __init__(self, sysroot: str = "", pid: str = "self") -> None:
        self._proc = f"{sysroot}/proc"
        self._sysroot = sysroot
        self._mounts = parse_mounts(read_whole(f"{self._proc}/self/mountinfo", _MOUNTS_BYTES))
        self.own = parse_memberships(read_bytes(f"{self._proc}/{pid}/cgroup", _MEMBERS_BYTES))

    def of(self, pid: int) -> dict[str, str]:
        """The groups of another process, controller by controller."""
        return parse_memberships(read_bytes(f"{self._proc}/{pid}/cgroup", _MEMBERS_BYTES))

    def folder(self, controller: str, path: str) -> str | None:
        """The files of a group."""
        mount = self._mounts.get(controller)
        found = None if mount is None else folder_of(path, mount)
        return None if found is None else f"{self._sysroot}{found}"

    def group(self, controller: str, others: Sequence[Mapping[str, str]]) -> JobGroup | None:
        """The job's group for a controller: of version 1 where it is mounted so, else of 2."""
        name = controller if controller in self.own else UNIFIED
        own = self.own.get(name)
        job = None if own is None else job_path(own, [one[name] for one in others if name in one])
        if own is None or job is None:
            return None
        folder, step = self.folder(name, job), self.folder(name, step_path(own, job))
        if folder is None or step is None:
            return None
        return JobGroup(folder, step, name == UNIFIED)

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
            found.append(count_of(read_bytes(f"{folder}/cpuset.cpus", _CPUS_BYTES)))
            path = path.rpartition("/")[0]
        return tuple(one for one in found if one is not None)


class JobGroup:
    """The folders of a job's group and of this process's step, in one hierarchy."""

    def __init__(self, job: str, step: str, is_unified: bool) -> None:
        self.job = job
        self.step = step
        self.is_unified = is_unified


class CpuTimes:
    """CPU_COLUMNS of a group; Slurm confines CPU time to it with jobacct_gather/cgroup."""

    def __init__(self, group: JobGroup) -> None:
        self._is_unified = group.is_unified
        names = ("cpu.stat", "") if group.is_unified else ("cpuacct.usage", "cpuacct.stat")
        self._usage = hold(f"{group.job}/{names[0]}")
        self._split = hold(f"{group.job}/{names[1]}") if names[1] else None
        self._step = hold(f"{group.step}/{names[0]}")
        self.lacks = None if self._usage else f"{group.job}/{names[0]} cannot be read"

    def read(self) -> list[int | None]:
        """The columns; None is not measured."""
        if not self._is_unified:
            user, system = _first(self._split, b"user"), _first(self._split, b"system")
            return [
                _scaled(_number(self._usage)),
                None if user is None else user * _TICK_US,
                None if system is None else system * _TICK_US,
                None,
                _scaled(_number(self._step)),
            ]
        data = self._usage.read() if self._usage else b""
        keys = (b"usage_usec", b"user_usec", b"system_usec", b"throttled_usec")
        return [*(value_of(data, key) for key in keys), _first(self._step, b"usage_usec")]


class Memory:
    """MEMORY_COLUMNS of a group; the first is current less what the kernel would drop."""

    def __init__(self, group: JobGroup) -> None:
        self._is_unified = group.is_unified
        if group.is_unified:
            names = ("memory.current", "memory.peak", "memory.events")
            keys = (b"inactive_file", b"active_file", b"anon", b"shmem")
        else:
            names = ("memory.usage_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control")
            # Those of the group alone would leave out the groups of its steps.
            keys = (b"total_inactive_file", b"total_active_file", b"total_rss", b"total_shmem")
        self._keys = keys
        self._current, self._peak, self._events = (hold(f"{group.job}/{name}") for name in names)
        self._stat = hold(f"{group.job}/memory.stat")
        self.lacks = None if self._current else f"{group.job}/{names[0]} cannot be read"

    def read(self) -> list[int | None]:
        """The columns; None is not measured."""
        data = self._stat.read() if self._stat else b""
        current = _number(self._current)
        idle, busy, anon, shmem = (value_of(data, key) for key in self._keys)
        held = None
        if current is not None and idle is not None and busy is not None:
            held = max(current - idle - busy, 0)
        return [held, current, anon, shmem, _number(self._peak), _first(self._events, b"oom_kill")]


class Pressure:
    """The totals of cpu, memory and io pressure in a folder; the names differ in /proc."""

    def __init__(self, folder: str, suffix: str = ".pressure") -> None:
        self._files = [hold(f"{folder}/{resource}{suffix}") for resource in PRESSURES]
        self.lacks = None if any(self._files) else f"no pressure files in {folder}"

    def read(self) -> list[int | None]:
        """The columns of `pressure_columns`."""
        found: list[int | None] = []
        for held in self._files:
            found += parse_psi(held.read()) if held else (None, None)
        return found


def _number(held: HeldFile | None) -> int | None:
    return number_of(held.read()) if held else None


def _first(held: HeldFile | None, key: bytes) -> int | None:
    return value_of(held.read(), key) if held else None


def _scaled(nanoseconds: int | None) -> int | None:
    return None if nanoseconds is None else nanoseconds // _NS_PER_US
