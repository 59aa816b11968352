"""Questions to Slurm through pyslurm, in this process, where its release is libslurm's."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any, Final, NamedTuple, TypeVar

from hpckit.core.errors import AdapterError, ParseError, ToolTimeout
from hpckit.core.files import Clock
from hpckit.core.process import CommandRunner
from hpckit.slurm.ask import SlurmCli
from hpckit.slurm.sacct import time_word, waiting_tasks
from hpckit.slurm.squeue import gpus_of_gres
from hpckit.slurm.text import JobWords, Place, job_records
from hpckit.slurm.values import JobId, JobRecord, NodeGroup, NodesInService, Partition

SETTING: Final = "HPCKIT_SLURM_API"
_PROBE_S: Final = 10.0
# In a process of its own: libslurm ends the process in which it finds no slurm.conf, after 60 s
# where SLURM_CONF names one. -P keeps the current folder out of the path. print_slurm_version() is
# what `scontrol --version` calls; slurm_api_version() would be the number of the library's file.
_PROBE: Final = """\
from importlib.metadata import version
print(version("pyslurm"), flush=True)
import ctypes, pyslurm
loaded = ctypes.CDLL(None)
loaded.print_slurm_version()
loaded.fflush(None)
"""
# What pyslurm raises of its own code on an answer that it does not expect (24.11.0: IndexError in
# db/stats.pyx for a heterogeneous job, TypeError for a job without memory).
_UNABLE: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, ParseError)

Answer = TypeVar("Answer")


class PyslurmProbe(NamedTuple):
    """Which pyslurm is here, None without one, and why it cannot be used, None where it can."""

    release: str | None = None
    refused: str | None = None

    @property
    def is_usable(self) -> bool:
        """Whether it answers for the libslurm that is here."""
        return self.release is not None and self.refused is None


def probe_argv() -> tuple[str, ...]:
    """Return the question for the releases of pyslurm and of the libslurm that it has loaded."""
    return (sys.executable, "-P", "-c", _PROBE)


def probe_pyslurm(runner: CommandRunner, *, is_here: bool | None = None) -> PyslurmProbe:
    """Return what pyslurm is here, and whether it can be used; without one no process is run.

    `is_here` is whether Python finds it, by default asked.
    """
    if not (importlib.util.find_spec("pyslurm") if is_here is None else is_here):
        return PyslurmProbe()
    try:
        answer = runner.run(probe_argv(), _PROBE_S)
    except ToolTimeout as error:
        words = _last_line(error.stderr)
        return PyslurmProbe("unknown", f"no answer within {_PROBE_S:g} s: {words}")
    except AdapterError as error:
        return PyslurmProbe("unknown", error.message)
    own, _, version = answer.stdout.strip().partition("\n")
    if answer.returncode != 0 or not version:
        words = _last_line(answer.stderr)
        return PyslurmProbe(
            own or "unknown", f"import failed with exit code {answer.returncode}: {words}"
        )
    loaded = version.split()[-1]
    return PyslurmProbe(own, None if _line(own) == _line(loaded) else f"libslurm is {loaded}")


def _last_line(words: str) -> str:
    return words.strip().rpartition("\n")[2] or "no output"


def _line(release: str) -> list[str]:
    """Return year and month of a release; pyslurm's have no zero before them (22.5.3)."""
    return [part.lstrip("0") for part in release.split(".")[:2]]


def import_pyslurm() -> Any:
    """Return the module; only after a probe, as its import may end the process."""
    import pyslurm

    return pyslurm


class SlurmLibrary(SlurmCli):
    """Jobs, partitions, nodes and accounts by pyslurm, all else by Slurm's commands.

    `load` gives the module, None where it cannot be used; it is called at the first question. The
    commands are asked about another cluster, and whenever pyslurm fails: they try again, and say
    why they cannot answer. A question in this process has no limit but Slurm's own, and is not in
    the log of commands.
    """

    def __init__(self, runner: CommandRunner, clock: Clock, load: Callable[[], Any]) -> None:
        super().__init__(runner, clock)
        self._load = load

    def begun_limits(self, user: str | None, cluster: str | None) -> AbstractContextManager[None]:
        """Start nothing: most of it is asked of pyslurm."""
        return nullcontext()

    def queue(self, cluster: str | None) -> Sequence[JobRecord]:
        """This user's jobs that slurmctld holds; pyslurm is sent those of all users."""
        answer = self._answer(cluster, lambda slurm: _queue(slurm, os.getuid()))
        return super().queue(cluster) if answer is None else answer

    def accounts(self, job_ids: Sequence[JobId], cluster: str | None) -> Sequence[JobRecord] | None:
        """What the accounts hold of these jobs, of a job that was requeued its last run alone.

        The commands are asked where one of the jobs is not in the answer, or is not hpckit's: an
        id is given again when its counter was reset, and pyslurm tells the newest job only.
        """
        answer = self._answer(cluster, lambda slurm: _accounts(slurm, job_ids)) if job_ids else None
        return super().accounts(job_ids, cluster) if answer is None else answer

    def partitions(self, cluster: str | None) -> Sequence[Partition]:
        """The partitions and the kinds of nodes in them."""
        answer = self._answer(cluster, _partitions)
        return super().partitions(cluster) if answer is None else answer

    def in_service(self, cluster: str | None) -> Mapping[str, NodesInService]:
        """The nodes of each partition that may take jobs."""
        answer = self._answer(cluster, _in_service)
        return super().in_service(cluster) if answer is None else answer

    def _answer(self, cluster: str | None, question: Callable[[Any], Answer]) -> Answer | None:
        slurm = self._load() if cluster is None else None
        if slurm is None:
            return None
        try:
            with _whole_arrays():
                return question(slurm)
        except (*_UNABLE, slurm.PyslurmError):
            return None


@contextmanager
def _whole_arrays() -> Iterator[None]:
    """Have libslurm tell all tasks of an array that wait (squeue(1), SLURM_BITSTR_LEN)."""
    before = os.environ.get("SLURM_BITSTR_LEN")
    os.environ["SLURM_BITSTR_LEN"] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ["SLURM_BITSTR_LEN"]
        else:
            os.environ["SLURM_BITSTR_LEN"] = before


def _place(what: Any) -> Place:
    return Place("pyslurm", 1, str(what))


def _array_id(job: Any, nodes: str | None) -> str:
    """Return the id as squeue prints it, of any job but a heterogeneous one.

    pyslurm says None of task 0, and of what was left of an array when it was cancelled, which
    has the array's own id and never had nodes.
    """
    if not job.array_id:
        return f"{job.id}"
    if job.array_tasks_waiting:
        return f"{job.array_id}_[{waiting_tasks(job.array_tasks_waiting, _place(job))}]"
    was_left = job.array_task_id is None and job.id == job.array_id and not nodes
    if was_left and job.state == "CANCELLED":
        return f"{job.array_id}"
    return f"{job.array_id}_{job.array_task_id or 0}"


def _queue(slurm: Any, uid: int) -> tuple[JobRecord, ...]:
    return tuple(
        record
        for job in slurm.Jobs.load().values()
        if job.user_id == uid
        for record in job_records(_queued(job), _place(job))
    )


def _queued(job: Any) -> JobWords:
    leader, nodes = job.heterogeneous_id, job.allocated_nodes
    return JobWords(
        job=f"{leader}+{job.heterogeneous_offset or 0}" if leader else _array_id(job, nodes),
        state=job.state,
        reason=job.state_reason or "",
        start=time_word(job.start_time),
        end=time_word(job.end_time),
        nodelist=nodes or "",
        command=job.command or "",
    )


def _accounts(slurm: Any, job_ids: Sequence[JobId]) -> tuple[JobRecord, ...]:
    jobs = slurm.db.Jobs.load(slurm.db.JobFilter(ids=[int(job_id) for job_id in job_ids]))
    records = tuple(
        record
        for job in jobs.values()
        for record in job_records(_accounted(job), _place(job), waited_for=True)
    )
    known = {record.job_id for record in records if record.submission is not None}
    if not known.issuperset(job_ids):
        raise LookupError("slurmdbd did not return all jobs")
    return records


def _accounted(job: Any) -> JobWords:
    return JobWords(
        job=_array_id(job, job.nodelist),
        state=_cancelled(job.state, job.cancelled_by),
        reason=job.state_reason or "",
        start=time_word(job.start_time),
        end=time_word(job.end_time),
        nodelist=job.nodelist or "",
        command=job.submit_command or "",
        exit_code=f"{job.exit_code}:{job.exit_code_signal}",
    )


def _cancelled(state: str, name: str | None) -> str:
    """Return the state as sacct has it, which says who cancelled a job by number."""
    if state != "CANCELLED" or name is None:
        return state
    import pwd

    return f"{state} by {pwd.getpwnam(name).pw_uid}"


def _nodes_by_partition(slurm: Any) -> dict[str, list[Any]]:
    nodes: defaultdict[str, list[Any]] = defaultdict(list)
    for node in slurm.Nodes.load().values():
        for name in node.partitions:
            nodes[name].append(node)
    return nodes


def _partitions(slurm: Any) -> tuple[Partition, ...]:
    nodes = _nodes_by_partition(slurm)
    return tuple(
        Partition(
            name=partition.name,
            is_default=partition.is_default,
            is_up=partition.state == "UP",
            time_limit_s=_limit_s(partition.max_time),
            groups=_groups(nodes.get(partition.name, ())),
        )
        for partition in slurm.Partitions.load().values()
    )


def _limit_s(minutes: int | str | None) -> int | None:
    """Return the limit in seconds; pyslurm has a word for none."""
    return minutes * 60 if isinstance(minutes, int) else None


def _groups(nodes: Sequence[Any]) -> tuple[NodeGroup, ...]:
    counts = Counter(map(_kind, nodes))
    return tuple(replace(kind, nodes=count) for kind, count in counts.items())


def _kind(node: Any) -> NodeGroup:
    gres = ",".join(f"{name}:{count}" for name, count in node.configured_gres.items())
    gpus, gpu_types = gpus_of_gres(gres, _place(node))
    return NodeGroup(
        nodes=1,
        cpus=node.total_cpus,
        mem_mib=node.real_memory or 0,
        gpus=gpus,
        gpu_types=gpu_types,
        features=tuple(node.available_features),
    )


def _in_service(slurm: Any) -> dict[str, NodesInService]:
    nodes = _nodes_by_partition(slurm)
    return {
        partition.name: NodesInService(
            sum(map(_is_in_service, nodes.get(partition.name, ()))),
            len(nodes.get(partition.name, ())),
        )
        for partition in slurm.Partitions.load().values()
    }


def _is_in_service(node: Any) -> bool:
    """Return what sinfo counts as allocated or idle: a drained node with jobs is allocated."""
    base, *flags = node.state.replace("*", "").split("+")
    if base in ("ALLOCATED", "MIXED") or "COMPLETING" in flags:
        return True
    return base != "DOWN" and "DRAIN" not in flags
