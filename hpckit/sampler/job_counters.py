"""The job's share of this node's CPUs and memory: by control group, else process by process.

Its processes are found in /proc by the SLURM_JOB_ID of their environment: only those of the same
user can be told, and a scan looks into each process once.
"""

from __future__ import annotations

import os
import time
from typing import NamedTuple

from hpckit.account.sample_format import MISSING, HostColumn
from hpckit.core.files_in_job import read_bytes
from hpckit.sampler.cgroups_and_node import (
    JOB_CPU,
    JOB_MEMORY,
    Hierarchies,
    of_group,
    pressure,
    pressure_columns,
)

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from hpckit.sampler.cgroups_and_node import Source


_LEAST_FIELDS = 22  # after the name: state is the first, rss the 22nd
_LOOK_AGAIN = 12
_NOT_RANKS = frozenset({"srun", "bash", "sh", "dash", "slurm_script", "sleep", "slurmstepd"})
"""What a batch script consists of beside ranks; of processes without a step of their own."""


class ProcessStat(NamedTuple):
    """Fields of proc_pid_stat(5); `cpu_ticks` with those of children that were waited for."""

    comm: str
    is_zombie: bool
    ppid: int
    cpu_ticks: int
    start_ticks: int
    rss_pages: int


def parse_process_stat(data: bytes) -> ProcessStat | None:
    """One process; None for text that is not in the format."""
    begin, end = data.find(b"("), data.rfind(b")")
    fields = data[end + 1 :].split()
    if begin < 0 or end < begin or len(fields) < _LEAST_FIELDS:
        return None
    try:
        return ProcessStat(
            comm=data[begin + 1 : end].decode("utf-8", "replace"),
            is_zombie=fields[0] == b"Z",
            ppid=int(fields[1]),
            cpu_ticks=sum(int(field) for field in fields[11:15]),
            start_ticks=int(fields[19]),
            rss_pages=int(fields[21]),
        )
    except ValueError:
        return None


def stat_of(pid: int, proc: str = "/proc") -> ProcessStat | None:
    """A process of this machine; None for one that is not there."""
    return parse_process_stat(read_bytes(f"{proc}/{pid}/stat"))


def variable_of(environ: bytes, name: bytes) -> str | None:
    """A variable of /proc/PID/environ."""
    _, is_set, after = (b"\0" + environ).partition(b"\0" + name + b"=")
    return after.partition(b"\0")[0].decode("utf-8", "surrogateescape") if is_set else None


class JobProcess(NamedTuple):
    """A process of the job; `step` is None for one of the batch script."""

    pid: int
    step: str | None
    comm: str


class JobProcesses:
    """The job's processes but for this one's ancestors and the rest of its step."""

    def __init__(self, job_id: str, step: str | None, proc: str = "/proc", pid: int = 0) -> None:
        self._job_id = job_id
        self._step = step
        self._proc = proc
        self._uid = os.getuid()
        self._known: dict[int, JobProcess | None] = {}
        self._scans = 0
        self._left_out = set(self._ancestors(pid or os.getpid()))
        self._rank: tuple[int, ProcessStat] | None = None

    def scan(self) -> list[JobProcess]:
        """Those that are there now."""
        self._scans += 1
        if self._scans % _LOOK_AGAIN == 0:
            # A number may be another process's by now, or the process may have executed another.
            self._known.clear()
        try:
            pids = {int(name) for name in os.listdir(self._proc) if name.isdigit()}
        except OSError:
            return []
        for pid in self._known.keys() - pids:
            del self._known[pid]
        for pid in pids - self._known.keys() - self._left_out:
            self._known[pid] = self._look(pid)
        return [process for process in self._known.values() if process is not None]

    def has_ranks(self) -> bool:
        """Whether any of them looks like a rank: it is of a step, or no part of a script.

        One that was found is looked at first: all of /proc is read only once it has gone.
        """
        if self._rank is not None:
            pid, before = self._rank
            now = stat_of(pid, self._proc)
            is_same = now and (now.start_ticks, now.comm) == (before.start_ticks, before.comm)
            if is_same and now is not None and not now.is_zombie:
                return True
        self._rank = None
        self._known.clear()
        for process in self.scan():
            if process.step is not None or process.comm not in _NOT_RANKS:
                stat = stat_of(process.pid, self._proc)
                self._rank = None if stat is None else (process.pid, stat)
                return True
        return False

    def _look(self, pid: int) -> JobProcess | None:
        folder = f"{self._proc}/{pid}"
        try:
            if os.stat(folder).st_uid != self._uid:
                return None
        except OSError:
            return None
        environ = read_bytes(f"{folder}/environ", 256 * 1024)
        if variable_of(environ, b"SLURM_JOB_ID") != self._job_id:
            return None
        step = variable_of(environ, b"SLURM_STEP_ID")
        stat = stat_of(pid, self._proc)
        if stat is None or (step is not None and step == self._step):
            return None
        return JobProcess(pid, step, stat.comm)

    def _ancestors(self, pid: int) -> Iterator[int]:
        while pid > 0:
            yield pid
            stat = stat_of(pid, self._proc)
            pid = 0 if stat is None else stat.ppid


SCAN_S = 5.0
_TICK_US = 10_000
_NOT_CONFINED = "Slurm does not put this job in such a cgroup"
_NO_VERSION_2 = "the job has no cgroup v2"


class JobCounters:
    """The columns of the job; the control groups are looked for until another step was seen."""

    columns = (
        *(HostColumn(name, kind) for name, kind, *_ in JOB_CPU),
        HostColumn("job_rss_bytes", "gauge"),
        HostColumn("job_processes", "gauge"),
        HostColumn("job_memory_bytes", "gauge"),
        *(HostColumn(name, kind) for name, kind, *_ in JOB_MEMORY if name),
        *pressure_columns("job"),
    )

    def __init__(
        self,
        processes: JobProcesses,
        hierarchies: Hierarchies,
        *,
        proc: str = "/proc",
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._processes = processes
        self._hierarchies = hierarchies
        self._now_s = now_s
        self._scan_at = 0.0
        self._cpu: Source | ProcessTimes | None = None
        self._memory: Source | None = None
        self._pressure: Source | None = None
        self._by_process = ProcessTimes(proc)
        self._is_known = False
        self._is_news = False
        self.refused = {"job_cgroup": "no process of another step seen yet"}

    def changed(self) -> bool:
        """Whether it was found out since the last question where the columns come from."""
        news, self._is_news = self._is_news, False
        return news

    def read(self) -> list[int | None]:
        """The columns; None is not measured."""
        self._scan_when_due()
        by_process = self._by_process
        is_counted = self._cpu is by_process
        memory = self._memory.read() if self._memory else [None] * len(JOB_MEMORY)
        current, *more, idle, busy = memory
        held = None
        if current is not None and idle is not None and busy is not None:
            held = max(current - idle - busy, 0)
        return [
            *(self._cpu.read() if self._cpu else [None] * len(JOB_CPU)),
            by_process.rss_bytes if is_counted else None,
            by_process.count if is_counted else None,
            *(held, current, *more),
            *(self._pressure.read() if self._pressure else [None] * 6),
        ]

    def _scan_when_due(self) -> None:
        now_s = self._now_s()
        if now_s < self._scan_at or (self._is_known and self._cpu is not self._by_process):
            return
        self._scan_at = now_s + SCAN_S
        found = self._processes.scan()
        if not self._is_known and found:
            self._find_groups(found)
        if self._cpu is self._by_process:
            self._by_process.count_all(found)

    def _find_groups(self, found: Sequence[JobProcess]) -> None:
        self._is_known = self._is_news = True
        self.refused = {}
        others = [self._hierarchies.of(process.pid) for process in found]
        cpu, memory, unified = (
            self._hierarchies.group(controller, others) for controller in ("cpuacct", "memory", "")
        )
        times = of_group(JOB_CPU, "", cpu) if cpu else None
        self._cpu = times
        if times is None or times.refused:
            self._cpu = self._by_process
            self.refused["job_cgroup_cpu"] = f"{_NOT_CONFINED}: counted per process"
        name = "job_cgroup_memory"
        self._memory = of_group(JOB_MEMORY, name, memory) if memory else None
        self.refused |= self._memory.refused if self._memory else {name: _NOT_CONFINED}
        self._pressure = pressure("job", unified.job, ".pressure") if unified else None
        self.refused |= self._pressure.refused if self._pressure else {"job_psi": _NO_VERSION_2}


class ProcessTimes:
    """CPU time and memory of the job's processes, from /proc/PID/stat."""

    def __init__(self, proc: str) -> None:
        self._proc = proc
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._before: int | None = None
        self._ticks = 0
        self.rss_bytes: int | None = None
        self.count: int | None = None

    def count_all(self, processes: Sequence[JobProcess]) -> None:
        """Look at each of them once."""
        found = [stat_of(process.pid, self._proc) for process in processes]
        stats = [stat for stat in found if stat is not None]
        now = sum(stat.cpu_ticks for stat in stats)
        # A child that ended is in the time of the parent that waited for it, so the sum goes on;
        # where nobody of the job waited it falls, and what was counted stays counted.
        self._ticks += now if self._before is None else max(now - self._before, 0)
        self._before = now
        self.rss_bytes = sum(stat.rss_pages for stat in stats) * self._page_bytes
        self.count = len(stats)

    def read(self) -> list[int | None]:
        """CPU_COLUMNS, of which there is the first and this process's own."""
        all_us = None if self.count is None else self._ticks * _TICK_US
        return [all_us, None, None, None, time.process_time_ns() // 1000]


_NOT_MEASURED = MISSING[8]


class HostSources:
    """The columns of several sources side by side."""

    def __init__(self, sources: Sequence[Source | JobCounters], refused: Mapping[str, str]) -> None:
        self._sources = sources
        self._refused = refused

    def columns(self) -> Sequence[HostColumn]:
        """Their names, kinds and ranges."""
        return tuple(column for source in self._sources for column in source.columns)

    def refused(self) -> Mapping[str, str]:
        """Why a source is not there, by its name."""
        refused = dict(self._refused)
        for source in self._sources:
            refused.update(source.refused)
        return refused

    def read(self) -> Sequence[int]:
        """A number for each column."""
        return [
            # A counter that was multiplied may need more than 64 bits, and begins again then.
            _NOT_MEASURED if value is None else value & _NOT_MEASURED
            for source in self._sources
            for value in source.read()
        ]

    def changed(self) -> bool:
        """Whether a source found out where its columns come from."""
        news = [source.changed() for source in self._sources if isinstance(source, JobCounters)]
        return any(news)
