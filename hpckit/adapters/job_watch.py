"""Whether a sampler still has something to measure."""

from __future__ import annotations

import time

from hpckit.adapters.job_processes import read_bytes
from hpckit.parse.process_stat import parse_process_stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hpckit.adapters.job_processes import JobProcesses

_ZOMBIE = b"Z"


class JobEnd:
    """The job's time limit, a process that was named, and the ranks that are left."""

    def __init__(
        self, *, end_s: float | None, parent: int | None, processes: JobProcesses | None
    ) -> None:
        """`end_s` is SLURM_JOB_END_TIME; `processes` None is a job without Slurm."""
        self._end_s = end_s
        self._parent = parent
        self._started = None if parent is None else _start_of(parent)
        self._processes = processes

    def over(self) -> str | None:
        """Why it is over."""
        if self._end_s is not None and time.time() > self._end_s and not self.has_ranks():
            # With ranks the limit was raised, or Slurm is about to end them and this.
            return "time limit"
        if self._parent is not None and (
            self._started is None or _start_of(self._parent) != self._started
        ):
            return "parent gone"
        return None

    def has_ranks(self) -> bool:
        """Whether ranks of the job are alive on this node."""
        return self._processes is not None and self._processes.has_ranks()


def _start_of(pid: int) -> int | None:
    """When a process began, which tells it from a later one of its number."""
    data = read_bytes(f"/proc/{pid}/stat", 1024)
    stat = parse_process_stat(data)
    if stat is None or data[data.rfind(b")") + 2 :][:1] == _ZOMBIE:
        return None
    return stat.start_ticks
