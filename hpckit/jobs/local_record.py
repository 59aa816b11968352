"""Records in a job folder: a local job's run, result and cancel request, and who submits a job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeVar

from hpckit.core.errors import StorageFailed
from hpckit.core.files_in_job import read_regular
from hpckit.core.late import Late
from hpckit.core.values import dataclass
from hpckit.jobs.process_tree import ProcessMark, is_running_since
from hpckit.slurm.values import JobState
from hpckit.spec.folder_in_job import (
    ACCOUNT_FOLDER,
    PLACE_FOLDER,
    PROOF_FILE,
    SERVE_FILE,
    restart_of,
)
from hpckit.spec.job_folder import INTENT_FILE, LOCAL_RESULT_SCHEMA
from hpckit.spec.store import FileJobFolders

if TYPE_CHECKING:
    import socket

    import msgspec

    from hpckit.binding.proof import Verdict
else:
    msgspec = Late("msgspec")
    socket = Late("socket")

Record = TypeVar("Record")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalRun:
    """`run.json`: the supervisor and its script; the script's process is None until it is started.

    Times are seconds since the epoch, those of processes as in `ProcessMark`.
    """

    schema: Literal["hpckit.local-run/1"] = "hpckit.local-run/1"
    host: str
    pid: int
    pid_started_s: float
    booted_s: float
    script_sha256: str
    started_s: float
    kill_wait_s: float
    script_pid: int | None = None
    script_pid_started_s: float | None = None

    @property
    def supervisor(self) -> ProcessMark:
        """The mark of the supervisor."""
        return ProcessMark(pid=self.pid, started_s=self.pid_started_s, booted_s=self.booted_s)

    @property
    def script(self) -> ProcessMark | None:
        """The mark of the script's first process, which leads its session."""
        if self.script_pid is None or self.script_pid_started_s is None:
            return None
        return ProcessMark(
            pid=self.script_pid, started_s=self.script_pid_started_s, booted_s=self.booted_s
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalResult:
    """`result.json`: how the job ended.

    `exit_code` is 128+N when signal N ended the script, and then `exit_signal` is N. Times are
    seconds since the epoch.
    """

    schema: Literal["hpckit.local-result/1"] = LOCAL_RESULT_SCHEMA
    exit_code: Annotated[int, msgspec.Meta(ge=0, le=255)]
    exit_signal: int | None
    state: JobState
    reason: str | None
    started_s: float
    ended_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelRequest:
    """`cancel.json`: who asked for the job's end, and when, in seconds since the epoch.

    `signal` None ends the job, KILL ends it at once, TERM is only that signal to the script.
    """

    schema: Literal["hpckit.local-cancel/1"] = "hpckit.local-cancel/1"
    user: str
    host: str
    pid: int
    requested_s: float
    signal: str | None


def write_record(folder: Path, name: str, record: LocalRun | LocalResult | CancelRequest) -> None:
    """Write a record at once or not at all, mode 0600. Raises StorageFailed."""
    text = msgspec.json.format(msgspec.json.encode(record), indent=2).decode()
    FileJobFolders().write(folder, name, text + "\n")


def read_record(folder: Path, name: str, kind: type[Record]) -> Record | None:
    """A record; None when it is not there. Raises StorageFailed for one that is not understood."""
    path = folder / name
    try:
        data = read_regular(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StorageFailed(f"{path} cannot be read: {error.strerror}") from error
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise StorageFailed(f"{path} is damaged: {error}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """The submitting process: its host, id and start, in seconds since the epoch.

    `slurm_cluster` is the cluster of that host, None where its slurm.conf does not tell.
    `components` are what a heterogeneous job's are called, in their order.
    """

    submitter_host: str | None = None
    submitter_pid: int | None = None
    submitter_started_s: float | None = None
    slurm_cluster: str | None = None
    components: tuple[str, ...] = ()

    @property
    def submitter_lives(self) -> bool | None:
        """Whether that process lives; None where this cannot be seen from here."""
        if self.submitter_host not in (None, socket.gethostname()):
            return None
        if self.submitter_pid is None or self.submitter_started_s is None:
            return None
        return is_running_since(self.submitter_pid, self.submitter_started_s)


def read_intent(folder: Path) -> Intent | None:
    """Who submits the job of a folder; None without an intent. Raises StorageFailed."""
    return read_record(folder, INTENT_FILE, Intent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Served:
    """Where the server of a job is, and since when it answers: `hpckit.serve/1`."""

    url: str
    host: str
    port: int
    ready_s: float


def read_served(folder: Path) -> Served | None:
    """Return where the job of a folder serves in its latest start; None where it does not yet."""
    try:
        newest = max(folder.glob(f"{SERVE_FILE}-*"), key=lambda path: path.stat().st_mtime)
        return read_record(folder, newest.name, Served)
    except (OSError, ValueError, StorageFailed):
        return None


def requeues(folder: Path, task: int | None = None) -> int:
    """Return how often Slurm has started the job of a folder again, by what its runs left."""
    of_task = f"array-{task}" if task is not None else ""
    runs = [
        path
        for parent in (PLACE_FOLDER, ACCOUNT_FOLDER)
        for path in (folder / parent / of_task).glob("restart-*")
    ]
    return max((restart_of(path.name) or 0 for path in runs), default=0)


def read_placement(folder: Path, task: int | None = None) -> list[Verdict]:
    """Return what the ranks of a folder's latest start found of their places; else nothing."""
    place = folder / PLACE_FOLDER / (f"array-{task}" if task is not None else "")
    starts = {restart_of(path.name): path for path in place.glob("restart-*")}
    newest = max((one for one in starts if one is not None), default=None)
    if newest is None:
        return []
    try:
        document = FileJobFolders().read_json(starts[newest], PROOF_FILE, "verdicts")
    except StorageFailed:
        return []
    return list(document["verdicts"])


def placement_words(folder: Path, task: int | None = None) -> str | None:
    """Return the same in a line; None where they left nothing."""
    from hpckit.binding.proof import proof_words

    return proof_words(read_placement(folder, task)) or None


def component_names(folder: Path) -> tuple[str, ...]:
    """Return what the components of the heterogeneous job in a folder are called, else none."""
    try:
        intent = read_intent(folder)
    except StorageFailed:
        return ()
    return () if intent is None else intent.components
