"""The processes of this job on this node, found in /proc by the SLURM_JOB_ID of their environment.

Only those of the same user can be told, and a scan looks into each process once.
"""

from __future__ import annotations

import os
from typing import NamedTuple

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Iterator


_LEAST_FIELDS = 22  # after the name: state is the first, rss the 22nd
_ENVIRON_BYTES = 256 * 1024
_STAT_BYTES = 1024
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
    return parse_process_stat(read_bytes(f"{proc}/{pid}/stat", _STAT_BYTES))


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
        """Whether any of them looks like a rank: it is of a step, or no part of a script."""
        self._known.clear()
        return any(
            process.step is not None or process.comm not in _NOT_RANKS for process in self.scan()
        )

    def _look(self, pid: int) -> JobProcess | None:
        folder = f"{self._proc}/{pid}"
        try:
            if os.stat(folder).st_uid != self._uid:
                return None
        except OSError:
            return None
        environ = read_bytes(f"{folder}/environ", _ENVIRON_BYTES)
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


def read_bytes(path: str, most: int) -> bytes:
    """The beginning of a file, also of one that gives a page at a time; empty for none."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return b""
    data = b""
    try:
        while len(data) < most and (more := os.read(fd, most - len(data))):
            data += more
    except OSError:
        return data
    finally:
        os.close(fd)
    return data
