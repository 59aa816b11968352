"""Jobs as a scheduler sees them: ids, states, records, and what is known of one job."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple, NewType

from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.slurm.release import VERSION_EXPECTED, SlurmVersion, TopologyKind

__all__ = ["VERSION_EXPECTED", "SlurmVersion", "TopologyKind"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmConfig:
    """What a cluster is configured with, in Slurm's words; None is a key that it did not print.

    `max_array_size` is one above the largest index of an array, `enforces` what accounting holds
    jobs to (`associations`, `limits`, `qos`, `safe`); what `job_submit_plugins` names may change
    a job. The default memory is for partitions that have none of their own. The plugin is as
    written, such as `topology/tree`, or `acct_gather_energy/ipmi`. `mpi_types` are what
    `srun --mpi` takes on this host, asked for where `mpi_default` is none; `has_pyxis` is whether
    srun starts containers there, None where that was not asked.
    """

    version: SlurmVersion | None = None
    cluster_name: str | None = None
    max_array_size: int | None = None
    topology_plugin: str | None = None
    energy_plugin: str | None = None
    mpi_default: str | None = None
    mpi_types: tuple[str, ...] = ()
    has_pyxis: bool | None = None
    enforces: tuple[str, ...] = ()
    job_submit_plugins: str | None = None
    default_mem_per_cpu_mib: int | None = None
    default_mem_per_node_mib: int | None = None

    @property
    def has_mpi(self) -> bool:
        """Whether ranks find each other by MPI where srun is given no plugin; None is (null)."""
        return self.mpi_default not in {None, "none"}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """Nodes of a partition that are alike: how many, and what each of them has.

    `cpus` is what Slurm schedules, a core or a hardware thread; it and `mem_mib` are None where
    a site file does not say. `gpu_types` are the names that the site gave its GPUs, none where it
    gave no name. `features` can be asked for by `--constraint`.
    """

    nodes: int
    cpus: int | None
    mem_mib: int | None
    gpus: int = 0
    gpu_types: tuple[str, ...] = ()
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Partition:
    """A partition and the kinds of nodes in it.

    `is_up` is whether it takes jobs and starts them. `time_limit_s` is the longest that a job may
    ask for, None where there is no limit.
    """

    name: str
    is_default: bool
    is_up: bool
    time_limit_s: int | None
    groups: tuple[NodeGroup, ...] = ()


class PlannedJob(NamedTuple):
    """A job that waits, when and where the scheduler plans to start it, and how long it may run."""

    start_s: float
    time_s: int | None
    nodes: str


class NodesInService(NamedTuple):
    """The nodes of a partition that may take jobs, neither down nor drained, and all of them."""

    nodes: int
    total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRules:
    """Who may use a partition, and how much of it, by `scontrol show partition`.

    `state` is UP, DOWN (queues, starts nothing), DRAIN (runs, takes nothing) or INACTIVE (neither).
    `allow` and `deny` are by `Accounts`, `Qos` and `Groups`; what is not in them is open. `qos` is
    the partition's own, whose limits count beside those of the job's. None is no limit.
    """

    name: str
    is_default: bool = False
    state: str = "UP"
    qos: str | None = None
    allow: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    deny: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    min_nodes: int = 0
    max_nodes: int | None = None
    max_time_s: int | None = None
    default_time_s: int | None = None
    max_cpus_per_node: int | None = None
    max_mem_per_node_mib: int | None = None
    default_mem_per_node_mib: int | None = None
    default_mem_per_cpu_mib: int | None = None
    is_exclusive: bool = False
    needs_reservation: bool = False
    root_only: bool = False
    nodes: str | None = None
    total_nodes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Nodes that are kept for somebody, or for maintenance; times in seconds since the epoch.

    `flags` are Slurm's, such as MAINT and IGNORE_JOBS; a user with `-` before is kept out.
    """

    name: str
    start_s: float | None
    end_s: float | None
    nodes: str | None
    node_count: int = 0
    flags: tuple[str, ...] = ()
    partition: str | None = None
    users: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster as it was at `seen_s`, in seconds since the epoch.

    `unread` is why its partitions are not known, where sinfo failed or was not understood.
    """

    config: SlurmConfig
    partitions: tuple[Partition, ...]
    seen_s: float
    unread: str | None = None


_SUBMISSION_FILE = regex(r"submission-([0-9a-f]{32})(?:-([1-9]\d{0,9}))?\.sbatch", re.ASCII)


def submission_file(submission: str, array_offset: int = 0) -> str:
    """The name under which a script is handed to sbatch: squeue and sacct give it back.

    `array_offset` is that of a part of a job array (`hpckit.spec.options`).
    """
    part = f"-{array_offset}" if array_offset else ""
    return f"submission-{submission}{part}.sbatch"


def submission_in(command: str) -> tuple[str | None, int]:
    """The uuid of the submission that a job's command names, and the offset of its array's part.

    None and 0 for somebody else's script. The last one: a folder above may be called so too.
    """
    if "submission-" not in command or not (named := _SUBMISSION_FILE.findall(command)):
        return None, 0
    uuid, offset = named[-1]
    return uuid, int(offset or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """A node as sinfo lists it: its state in long form without flags, and its GPUs by gres.

    `state` is None for a name that Slurm does not know. With `has_mig` some of `gpus` are parts of
    GPUs, as their types say (`3g.20gb`). `is_powered_off` is a node that Slurm has
    put to sleep, or is about to, and would wake for a job.
    """

    name: str
    state: str | None = None
    gpus: int = 0
    has_mig: bool = False
    is_responding: bool = True
    is_powered_off: bool = False


JobId = NewType("JobId", str)
"""The scheduler's id of a job; `L` and eight hex digits for a local one; `U` and eight hex
digits (the beginning of the submission's uuid) while Slurm has not confirmed one."""

UNCONFIRMED_PREFIX: Final = "U"


class JobState(StrEnum):
    """The states of squeue(1) and sacct(1), and two of hpckit's own.

    UNKNOWN is a state that cannot be told now, or a word that is not understood and is kept in
    `raw`; NOT_SUBMITTED is an intent that never became a job. Source: squeue(1), sacct(1), "JOB
    STATE CODES", Slurm 22.05 to 26.05.
    """

    PENDING = "PENDING"
    CONFIGURING = "CONFIGURING"
    RUNNING = "RUNNING"
    COMPLETING = "COMPLETING"
    SUSPENDED = "SUSPENDED"
    STOPPED = "STOPPED"
    RESIZING = "RESIZING"
    SIGNALING = "SIGNALING"
    STAGE_OUT = "STAGE_OUT"
    REQUEUED = "REQUEUED"
    REQUEUE_FED = "REQUEUE_FED"
    REQUEUE_HOLD = "REQUEUE_HOLD"
    RESV_DEL_HOLD = "RESV_DEL_HOLD"
    SPECIAL_EXIT = "SPECIAL_EXIT"
    POWER_UP_NODE = "POWER_UP_NODE"
    UPDATE_DB = "UPDATE_DB"
    REVOKED = "REVOKED"
    EXPEDITING = "EXPEDITING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    TIMEOUT = "TIMEOUT"
    NODE_FAIL = "NODE_FAIL"
    OUT_OF_MEMORY = "OUT_OF_MEMORY"
    PREEMPTED = "PREEMPTED"
    BOOT_FAIL = "BOOT_FAIL"
    DEADLINE = "DEADLINE"
    LAUNCH_FAILED = "LAUNCH_FAILED"
    RECONFIG_FAIL = "RECONFIG_FAIL"
    NOT_SUBMITTED = "NOT_SUBMITTED"
    UNKNOWN = "UNKNOWN"

    __hash__ = str.__hash__  # Enum's own is Python, and slower

    @property
    def is_final(self) -> bool:
        """True when the job will not change any more."""
        return self in _FINAL

    @property
    def is_waiting(self) -> bool:
        """True when the job has not begun, or waits to begin again."""
        return self in _WAITING


_FINAL: Final = frozenset(
    {
        JobState.COMPLETED,
        JobState.FAILED,
        JobState.CANCELLED,
        JobState.TIMEOUT,
        JobState.NODE_FAIL,
        JobState.OUT_OF_MEMORY,
        JobState.PREEMPTED,
        JobState.BOOT_FAIL,
        JobState.DEADLINE,
        JobState.LAUNCH_FAILED,
        JobState.RECONFIG_FAIL,
        JobState.NOT_SUBMITTED,
    }
)
_WAITING: Final = frozenset(
    {
        JobState.PENDING,
        JobState.REQUEUED,
        JobState.REQUEUE_FED,
        JobState.REQUEUE_HOLD,
        JobState.RESV_DEL_HOLD,
        JobState.SPECIAL_EXIT,
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job, or one task of a job array, as squeue or sacct lists it.

    `job_id` is the array's own for each of its tasks. `raw` is the state as printed. `reason` is
    Slurm's word for why it waits or ended, None where it gives none. `exit_code` is 128+N after
    signal N; both are None where nothing was recorded. Times are seconds since the epoch;
    `expected_start_s` is the scheduler's guess for a job that waits. `submission` is the uuid in
    the name of the script that was submitted, None for a job that hpckit did not submit.

    `task_index` counts in the whole array; Slurm, which knows a part of it as an array of its own,
    counts from `array_offset` on.
    """

    job_id: JobId
    task_index: int | None
    state: JobState
    raw: str
    reason: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    expected_start_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    nodelist: str | None = None
    submission: str | None = None
    array_offset: int = 0

    @property
    def slurm_id(self) -> str:
        """The job or the task as Slurm's commands take it."""
        if self.task_index is None:
            return self.job_id
        return f"{self.job_id}_{self.task_index - self.array_offset}"

    @property
    def leader_id(self) -> JobId:
        """The id of the whole job, of which a heterogeneous one's components have `+N` behind."""
        return JobId(self.job_id.partition("+")[0])

    @property
    def component(self) -> int | None:
        """Which component of a heterogeneous job it is, None of another job."""
        number = self.job_id.partition("+")[2]
        return int(number) if number else None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPart:
    """A part of a split job array: the offset of its tasks, and its id, `U…` until Slurm has it."""

    offset: int
    job_id: JobId


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRecord:
    """One step of a job as sacct has it: `batch` is the script, `extern` what came by itself.

    `step_id` is what follows the job's id and a point: `batch`, `extern`, or the number of an
    srun. The other fields are as in JobRecord.
    """

    step_id: str
    name: str
    state: JobState
    raw: str
    exit_code: int | None = None
    exit_signal: int | None = None
    nodelist: str | None = None
    started_s: float | None = None
    ended_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDetail:
    """One job as the accounts have it, with its steps in their order.

    `restarts` is how often it was requeued, None where the release does not say.
    `tres_allocated` counts what it had by Slurm's names, memory as `mem_mib`: `cpu`, `mem_mib`,
    `node`, `gres/gpu`, `gres/gpu:h100`.
    """

    record: JobRecord
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    restarts: int | None = None
    tres_allocated: Mapping[str, int] = field(default_factory=dict)
    steps: tuple[StepRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """What is known of a job now.

    `exit_code` is the script's own (128+N after signal N, as a shell counts), None while it
    runs or when nobody recorded it; `exit_signal` is the signal that ended the script itself.
    Times are seconds since the epoch. `reason` is one sentence; `slurm_reason` is Slurm's word
    for why a job waits. `is_lost` is an UNKNOWN that asking again will not clear. `tasks` are the
    tasks of a job array that the scheduler listed, by index; `parts` those of a split one, as far
    as they are known; `components` those of a heterogeneous job, in their order.
    """

    job_id: JobId
    state: JobState
    is_lost: bool = False
    cluster: str | None = None
    exit_code: int | None = None
    exit_signal: int | None = None
    expected_start_s: float | None = None
    started_s: float | None = None
    ended_s: float | None = None
    nodelist: str | None = None
    reason: str | None = None
    slurm_reason: str | None = None
    raw: str | None = None
    tasks: tuple[JobRecord, ...] = ()
    parts: tuple[JobPart, ...] = ()
    components: tuple[JobRecord, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEntry:
    """One line of the job index: which folder belongs to which job.

    `submission` is the uuid of the submission (32 hex digits), the line's own key: ids are used
    again by other clusters. `cluster` is the cluster that sbatch named, None for the only one.
    `created_s` is seconds since the epoch; `state` is the last one seen, for listings. `parts`
    are those of a job array that was split, in order, `job_id` being the first's; else empty.
    `chain` is the uuid that the jobs of one chain share, `stage` what this one is called in it.
    """

    submission: str
    job_id: JobId
    name: str
    site: str
    folder: str
    created_s: float
    state: JobState
    cluster: str | None = None
    exit_code: int | None = None
    parts: tuple[JobPart, ...] = ()
    chain: str | None = None
    stage: str | None = None

    @property
    def is_confirmed(self) -> bool:
        """False while it is not known whether the scheduler has the job, and under which id."""
        return is_confirmed(self.job_id)

    @property
    def is_component(self) -> bool:
        """Whether it stands for one component of a heterogeneous job, which no index has."""
        return "+" in self.job_id

    @property
    def is_whole(self) -> bool:
        """Whether this is known of every part of the job."""
        return all(is_confirmed(job_id) for job_id in self.job_ids)

    @property
    def job_ids(self) -> tuple[JobId, ...]:
        """The job's id, of a split array each of its parts'."""
        return tuple(part.job_id for part in self.parts) or (self.job_id,)


def is_confirmed(job_id: JobId) -> bool:
    """Whether an id is the scheduler's own."""
    return not job_id.startswith(UNCONFIRMED_PREFIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRequest:
    """A prepared job folder to be started.

    `submission` is its uuid (32 hex digits), `job_id` its id unless the scheduler gives another.
    `script` is the text that runs, whatever lies in the folder by then.
    `environment` is the whole environment of the job; `time_limit_s` None is no limit.
    `begun_s` is when the intent was written, in seconds since the epoch. `cluster` is where the
    environment sends it, None for the cluster that is here. `array_part` is the array to submit
    where that of the script is too large, its tasks counted from `array_offset`; `dependency` is
    said in place of the script's, and with `ends_with_it` the job is cancelled once the dependency
    can no longer come true.
    """

    submission: str
    job_id: JobId
    folder: Path
    script: str
    workdir: Path
    environment: Mapping[str, str]
    time_limit_s: int | None
    kill_wait_s: float
    begun_s: float
    is_array: bool = False
    cluster: str | None = None
    array_part: str | None = None
    array_offset: int = 0
    dependency: str | None = None
    ends_with_it: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class StartedJob:
    """What a submission became: its id, the cluster if sbatch named one, its first state.

    `words` is what the scheduler had to say about it all the same, a line each.
    """

    job_id: JobId
    state: JobState
    cluster: str | None = None
    words: tuple[str, ...] = ()
