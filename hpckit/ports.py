"""What the use cases need from the world, each as small as its users allow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from hpckit.model.cluster import Partition, SlurmConfig  # at run time: ClusterView is decoded

if TYPE_CHECKING:  # a command loads the model of what it is about, not of all that there is
    from hpckit.model.fabric import ClusterTopology
    from hpckit.model.file_tree import FileTree
    from hpckit.model.node_answer import NodeAnswer, SlurmNode
    from hpckit.model.nvml_reading import NvmlReading
    from hpckit.model.slurm import JobDetail, JobEntry, JobId, JobState, JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """A text and the file that it was read from."""

    text: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRequest:
    """A prepared job folder to be started.

    `submission` is its uuid (32 hex digits), `job_id` its id unless the scheduler gives another.
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


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What an external command printed, decoded leniently, and its code."""

    returncode: int
    stdout: str
    stderr: str


class CommandRunner(Protocol):
    """Runs external commands: a list, never a shell, always with a limit."""

    def run(
        self, argv: Sequence[str], timeout_s: float, environment: Mapping[str, str] | None = None
    ) -> CommandResult:
        """The result of `argv`, in this environment or, None, in a clean one.

        Raises ToolMissing, ToolTimeout.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class HeardCommand:
    """A command that was listened to; `is_late` is one that was ended for taking too long."""

    stderr: str
    returncode: int | None = None

    @property
    def is_late(self) -> bool:
        """Whether it was ended, or not even begun, when the time was up."""
        return self.returncode is None


class CommandListener(Protocol):
    """Runs external commands whose output counts while they run."""

    def listen(
        self, commands: Sequence[Sequence[str]], timeout_s: float, heard: Callable[[str], None]
    ) -> Sequence[HeardCommand]:
        """What became of each command, in their order; all share the time and run side by side.

        They run in a clean environment. `heard` gets each line of their stdout, without its end,
        soon after it was printed. Raises ToolMissing.
        """
        ...


class Clock(Protocol):
    """Time, so that waiting can be tested without waiting."""

    def now_s(self) -> float:
        """Seconds since the epoch."""
        ...

    def sleep(self, seconds: float) -> None:
        """Return after `seconds`."""
        ...


class Resources(Protocol):
    """Site files and templates, found in the search path; the first file of a name wins."""

    def site_files(self) -> Mapping[str, Sequence[Path]]:
        """Site name → its files, the winning one first."""
        ...

    def template_files(self) -> Mapping[str, Sequence[Path]]:
        """Template name → its files, the winning one first."""
        ...

    def is_packaged(self, path: Path) -> bool:
        """Whether a file is one of hpckit's own."""
        ...

    def runner_digest(self) -> str:
        """The SHA-256 of the sources of what runs inside a job."""
        ...

    def read(self, path: Path) -> str:
        """The text of one of these files. Raises StorageFailed."""
        ...


class Submitter(Protocol):
    """Starts prepared jobs and knows how they are."""

    def submit(self, request: SubmitRequest) -> StartedJob:
        """Start the job, or the part of it that the request names.

        Raises SubmissionUnconfirmed when it may have been started all the same, and any other
        HpckitError when it was not.
        """
        ...

    def test(self, request: SubmitRequest, script: str) -> Sequence[str]:
        """What would become of the job with this script, a line each; nothing is queued.

        Raises HpckitError for a job that would not be taken.
        """
        ...

    def statuses(self, jobs: Sequence[JobEntry]) -> Mapping[str, JobStatus]:
        """Submission → status for each job, in as few questions as can be.

        The status holds the job's confirmed id. Never raises for what cannot be told of a job:
        that is UNKNOWN, with the reason.
        """
        ...

    def detail(self, job: JobEntry, task: int | None = None) -> JobDetail | None:
        """What the accounts hold of a job, or of one task of an array, that has ended.

        None where they hold nothing of it or cannot be asked now: it is only an addition.
        """
        ...

    def cancel(self, job: JobEntry, signal_name: str | None, task: int | None = None) -> JobStatus:
        """End the job or one task of an array, or only send it a signal; gives how it was before.

        Raises HpckitError if it has ended already.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterView:
    """A cluster as it was at `seen_s`, in seconds since the epoch.

    `unread` is why its partitions are not known, where sinfo failed or was not understood.
    """

    config: SlurmConfig
    partitions: tuple[Partition, ...]
    seen_s: float
    unread: str | None = None


class ClusterProbe(Protocol):
    """Tells what a cluster is."""

    def look(
        self, cluster: str | None, *, fresh: bool = False, needs_partitions: bool = True
    ) -> ClusterView:
        """The cluster of this name, None for the one that is here; `fresh` is of this moment.

        Unless it `needs_partitions`, nobody has to answer for them. Raises SchedulerUnreachable,
        ToolFailed, ToolMissing, ParseError.
        """
        ...

    def topologies(self, cluster: str | None, *, fresh: bool = False) -> Sequence[ClusterTopology]:
        """Its network as Slurm has it; nothing where Slurm has none. Raises as `look` does."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeQuestion:
    """Nodes that are to say what they are, within `timeout_s` seconds.

    It goes through the allocation `job_id`, or through one of its own for a minute or two, for
    which the rest is what Slurm is told. Each is to have `expected_gpus`, None being Slurm's gres.
    """

    nodes: tuple[str, ...]
    timeout_s: float
    job_id: str | None = None
    expected_gpus: int | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    reservation: str | None = None
    gpus_per_node: int | None = None


class NodeProbe(Protocol):
    """Asks nodes of a cluster what they are."""

    def nodes(self, nodelist: str) -> Sequence[SlurmNode]:
        """The nodes of a list, each once, in its order; an unknown one has no state."""
        ...

    def nodes_of_job(self, job_id: str) -> str:
        """The node list of a running job. Raises HpckitError for one that has none."""
        ...

    def ask(self, question: NodeQuestion, heard: Callable[[NodeAnswer], None]) -> Sequence[str]:
        """Hand on each node's answer as it comes, and give back what else was said, a line each.

        A node that gives no answer in time is not handed on. Raises AdapterError when nobody
        could be asked.
        """
        ...


class SystemFiles(Protocol):
    """The small files in which a system says what it is: /sys and /proc."""

    def read(self, patterns: Sequence[str]) -> FileTree:
        """The files and links that match, by their path from the root; what is not there, not."""
        ...


class GpuDriver(Protocol):
    """NVIDIA's driver, asked for everything that it says of its GPUs."""

    def read(self) -> NvmlReading:
        """What it answered, and why not where it did not; never raises for want of a driver."""
        ...


class JobIndex(Protocol):
    """Which job folders exist; only points to them and can be rebuilt from them."""

    def add(self, entry: JobEntry) -> None:
        """Record a job. Raises StorageFailed, also for a submission that is there already."""
        ...

    def update(self, entries: Sequence[JobEntry]) -> None:
        """Put these entries in place of those of the same submissions, all or none of them."""
        ...

    def remove(self, submission: str) -> None:
        """Forget a job whose submission was undone."""
        ...

    def find(self, job_id_prefix: str) -> Sequence[JobEntry]:
        """The jobs whose id begins so, newest first; an exact id gives those of that id.

        Each part of a split job array has an id, and an exact one finds the whole job.
        """
        ...

    def of_chain(self, chain: str) -> Sequence[JobEntry]:
        """The jobs of a chain, in the order of its stages."""
        ...

    def rebuild(self, entries: Sequence[JobEntry], gone: Sequence[str]) -> None:
        """Put in these entries, and forget the submissions `gone`, at once."""
        ...

    def latest(self, limit: int | None) -> Sequence[JobEntry]:
        """The newest jobs, newest first; None is all."""
        ...

    def readable(self) -> tuple[Sequence[JobEntry], str | None]:
        """What can be read of every job, newest first, and how it is damaged if that is not all."""
        ...


class JobFolders(Protocol):
    """Job folders on a file system that every node of the job shares."""

    def create(self, root: Path, name: str) -> Path:
        """A new folder, mode 0700. Raises StorageFailed if it exists or cannot be made."""
        ...

    def write(self, folder: Path, name: str, text: str) -> None:
        """Write a file of the folder at once or not at all, mode 0600. Raises StorageFailed."""
        ...

    def read(self, folder: Path, name: str) -> str:
        """The text of a file of the folder. Raises StorageFailed, NoSuchFile."""
        ...

    def read_json(self, folder: Path, name: str) -> Mapping[str, Any]:
        """A JSON document of the folder. Raises NoSuchFile, StorageFailed for any other text."""
        ...

    def pack_agent(self, folder: Path) -> None:
        """Put the rank entry into the folder as `hpckit-injob.pyz`. Raises StorageFailed."""
        ...

    def probe(self, root: Path) -> None:
        """Raise StorageFailed when a job folder could not be made; leaves nothing behind."""
        ...

    def is_folder(self, path: Path) -> bool:
        """Whether there is a folder that can be entered."""
        ...

    def remove(self, folder: Path) -> None:
        """Remove a folder that this process made."""
        ...

    def scan(self, root: Path) -> Sequence[Path]:
        """The job folders under a root, oldest first; none when there is no such root."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogName:
    """One log of a job folder: of one rank or, None, merged; of one task of a job array."""

    folder: Path
    rank: int | None = None
    task: int | None = None


class JobLogs(Protocol):
    """The logs in job folders."""

    def ranks(self, folder: Path, task: int | None = None) -> Sequence[int]:
        """The ranks that have a log, in order."""
        ...

    def tasks(self, folder: Path) -> Sequence[int]:
        """The tasks of a job array that have a log, in order."""
        ...

    def path(self, log: LogName) -> Path:
        """Where a log lies, or will."""
        ...

    def size_bytes(self, log: LogName) -> int | None:
        """How large a log is, None where there is none. Raises StorageFailed."""
        ...

    def read(self, log: LogName, offset: int) -> Iterator[bytes]:
        """The log from byte `offset` to its present end. Raises StorageFailed."""
        ...

    def tail(self, log: LogName, count: int) -> Sequence[str]:
        """The last `count` lines that are not blank, oldest first."""
        ...
