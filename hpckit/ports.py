"""What the use cases need from the world, each as small as its users allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from hpckit.model.slurm import JobEntry, JobId, JobStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFile:
    """A text and the file that it was read from."""

    text: str
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitRequest:
    """A prepared job folder to be started.

    `environment` is the whole environment of the job; `time_limit_s` None is no limit.
    """

    job_id: JobId
    folder: Path
    workdir: Path
    environment: Mapping[str, str]
    time_limit_s: int | None
    kill_wait_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandResult:
    """What an external command printed, decoded leniently, and its code."""

    returncode: int
    stdout: str
    stderr: str


class CommandRunner(Protocol):
    """Runs external commands: a list, never a shell, always with a limit."""

    def run(self, argv: Sequence[str], timeout_s: float) -> CommandResult:
        """The result of `argv`. Raises ToolMissing, ToolTimeout."""
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

    def read(self, path: Path) -> str:
        """The text of one of these files. Raises StorageFailed."""
        ...


class Submitter(Protocol):
    """Starts prepared jobs and knows how they are."""

    def submit(self, request: SubmitRequest) -> None:
        """Start the job. Raises AdapterError when it was not started."""
        ...

    def statuses(self, folders: Mapping[JobId, Path]) -> Mapping[JobId, JobStatus]:
        """The status of each job, in one question."""
        ...

    def cancel(self, job_id: JobId, folder: Path, signal_name: str | None) -> None:
        """End the job, or only send it a signal. Raises HpckitError if it has ended already."""
        ...


class JobIndex(Protocol):
    """Which job folders exist; only points to them and can be rebuilt from them."""

    def add(self, entry: JobEntry) -> None:
        """Record a job. Raises StorageFailed, also for an id that is taken."""
        ...

    def update(self, status: JobStatus) -> None:
        """Remember the last state seen."""
        ...

    def remove(self, job_id: JobId) -> None:
        """Forget a job whose submission was undone."""
        ...

    def find(self, job_id_prefix: str) -> Sequence[JobEntry]:
        """The jobs whose id begins so; an exact id gives exactly that job."""
        ...

    def rebuild(self, entries: Sequence[JobEntry], gone: Sequence[JobId]) -> None:
        """Put these entries in place of what stands under their ids, forget `gone`, at once."""
        ...

    def latest(self, limit: int | None) -> Sequence[JobEntry]:
        """The newest jobs, newest first; None is all."""
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
        """The text of a file of the folder. Raises StorageFailed."""
        ...

    def read_json(self, folder: Path, name: str) -> Mapping[str, Any]:
        """A JSON document of the folder. Raises StorageFailed for any other text."""
        ...

    def pack_agent(self, folder: Path) -> str:
        """Put the rank entry into the folder as `hpckit-injob.pyz`; gives its SHA-256."""
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


class JobLogs(Protocol):
    """The logs in job folders; rank None is the merged one."""

    def ranks(self, folder: Path) -> Sequence[int]:
        """The ranks that have a log, in order."""
        ...

    def exists(self, folder: Path, rank: int | None) -> bool:
        """Whether a log is there."""
        ...

    def read(self, folder: Path, rank: int | None, offset: int) -> Iterator[bytes]:
        """The log from byte `offset` to its present end. Raises StorageFailed."""
        ...

    def tail(self, folder: Path, rank: int | None, count: int) -> Sequence[str]:
        """The last `count` lines that are not blank, oldest first."""
        ...
