"""The job's share of this node's CPUs and memory: by control group, else process by process."""

from __future__ import annotations

import os
import time

from hpckit.account.sample_format import MISSING, HostColumn
from hpckit.sampler.cgroups_and_node import (
    JOB_CPU,
    JOB_MEMORY,
    Hierarchies,
    of_group,
    pressure,
    pressure_columns,
)
from hpckit.sampler.job_processes import stat_of

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from hpckit.sampler.cgroups_and_node import Source
    from hpckit.sampler.job_processes import JobProcess, JobProcesses


SCAN_S = 5.0
_TICK_US = 10_000
_PRESSURES = 6
_NOT_CONFINED = "Slurm does not confine this job in it"
_NO_VERSION_2 = "the job has no control group of version 2"


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
        self.refused = {"job_cgroup": "no process of another step was seen yet"}

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
            *(self._pressure.read() if self._pressure else [None] * _PRESSURES),
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
            self.refused["job_cgroup_cpu"] = f"{_NOT_CONFINED}: counted by process"
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
