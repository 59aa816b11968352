"""Jobs on this machine, without a scheduler, through submitit's local executor."""

from __future__ import annotations

import importlib.util
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hpckit.core.errors import AdapterError, HpckitError, StorageFailed, ToolMissing
from hpckit.core.files import pip_line, user_name
from hpckit.core.late import Late
from hpckit.jobs import local_run
from hpckit.jobs.local_record import CancelRequest, LocalRun, read_record, write_record
from hpckit.jobs.process_tree import (
    end_members,
    find_process,
    kill_tree,
    send_signal,
    session_members,
)
from hpckit.jobs.slurm_status import is_here, local_status
from hpckit.jobs.track import signal_word
from hpckit.slurm.values import JobEntry, JobId, JobState, JobStatus, StartedJob, SubmitRequest
from hpckit.spec.job_folder import CANCEL_FILE, RESULT_FILE, RUN_FILE, SUBMITIT_FOLDER

if TYPE_CHECKING:
    import hashlib
    import socket
    import subprocess
else:
    hashlib = Late("hashlib")
    socket = Late("socket")
    subprocess = Late("subprocess")

_START_S = 30.0
_POLL_S = 0.01
_TAIL_LINES = 10
# submitit replaces these in every path it is given (core/utils.py, JobPaths).
_PLACEHOLDERS = ("%j", "%t", "%A", "%a")
# The supervisor keeps the time limit; submitit's own must never come first.
_NEVER_MIN = 60 * 24 * 365 * 50
_NEEDED = ("hpckit", "submitit", "cloudpickle", "typing_extensions", "psutil", "msgspec")
_FORWARDED = ("HUP", "INT", "USR1", "USR2")
_REQUESTED = ("KILL", "TERM")


class LocalSubmitter:
    """Runs each job below a supervisor of its own, which outlives this process.

    `python` runs the supervisor and must be of this Python's version: it gets its search path.
    """

    def __init__(self, python: str = sys.executable) -> None:
        self._python = python

    def submit(self, request: SubmitRequest) -> StartedJob:
        """Start the job; returns when its supervisor has recorded itself in `run.json`.

        Raises AdapterError when that has not come about within 30 s, StorageFailed when the
        folder cannot be used, ToolMissing without submitit; then nothing is left running.
        """
        folder = request.folder.absolute()
        _check_folder(folder)
        launch = _Launch(self._python, folder, request.environment)
        with ExitStack() as undo:
            undo.callback(launch.undo)
            launch.start(request)
            launch.wait()
            undo.pop_all()
        launch.release()
        return StartedJob(job_id=request.job_id, state=JobState.RUNNING)

    def test(self, request: SubmitRequest) -> Sequence[str]:
        """Nothing: no scheduler decides here."""
        return ()

    def statuses(self, jobs: Sequence[JobEntry]) -> Mapping[str, JobStatus]:
        """The status of each job, from the files of its folder and the processes of this machine.

        Never raises for a folder that is gone or damaged: that is UNKNOWN, with the reason.
        """
        return {job.submission: local_status(job.job_id, Path(job.folder)) for job in jobs}

    def detail(self, job: JobEntry, task: int | None = None) -> None:
        """None: a job on this machine has no steps, and no accounts are kept."""

    def cancel(self, job: JobEntry, signal_name: str | None, task: int | None = None) -> JobStatus:
        """Ask the supervisor to end the job (None; KILL at once), or to send its script a signal.

        Signals are INT, HUP, USR1, USR2 and TERM. Returns at once, unless the supervisor was
        killed: then it ends what is left of the job itself. Gives the status before. Raises
        HpckitError when the job has ended or the signal is another, AdapterError when the job is
        not this machine's.
        """
        job_id, folder = job.job_id, Path(job.folder)
        if task is not None:
            raise HpckitError(f"job {job_id} is not a job array: it has no task {task}")
        name = signal_word(signal_name, sorted((*_FORWARDED, *_REQUESTED)), "a local job")
        status = local_status(job_id, folder)
        run = None
        if status.state in (JobState.RUNNING, JobState.FAILED, JobState.UNKNOWN):
            run = _read_run(folder)
        if run is not None and not is_here(run) and not status.state.is_final:
            raise AdapterError(f"job {job_id} runs on {run.host}: cancel it there")
        if status.state is JobState.RUNNING and run is not None:
            _ask_supervisor(run, folder, name)
        elif status.state is JobState.FAILED and run is not None and status.exit_code is None:
            _end_rest(job_id, run, folder, name)
        elif status.state.is_final:
            raise HpckitError(f"job {job_id} has already ended: {status.state}")
        else:
            raise AdapterError(f"cannot cancel job {job_id}: {status.reason}")
        return status


class _Launch:
    """One start of a supervisor through submitit."""

    def __init__(self, python: str, folder: Path, environment: Mapping[str, str]) -> None:
        self._python = python
        self._folder = folder
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, request: SubmitRequest) -> None:
        """Have submitit start its controller, which starts the supervisor."""
        try:
            (self._folder / SUBMITIT_FOLDER).mkdir(mode=0o700, exist_ok=True)
            # Not `submit`, which would have the supervisor unpickle what lies in a folder.
            self._executor()._submit_command(
                shlex.join(
                    [
                        *(self._python, "-m", local_run.__name__),
                        str(self._folder),
                        str(request.workdir.absolute()),
                        hashlib.sha256(request.script.encode()).hexdigest(),
                        str(request.time_limit_s),
                        str(request.kill_wait_s),
                    ]
                )
            )
        except OSError as error:
            raise StorageFailed(f"the job was not started: {error}") from error

    def wait(self) -> None:
        """Return when the supervisor has recorded itself. Raises AdapterError."""
        end_s = time.monotonic() + _START_S
        while not self._is_recorded():
            ended = self._process is None or self._process.poll() is not None
            if ended and not self._is_recorded():
                raise AdapterError(f"the job's supervisor did not start: {self._last_words()}")
            if time.monotonic() > end_s:
                raise AdapterError(
                    f"the job's supervisor did not start within {_START_S:g} s: "
                    f"{self._last_words()}"
                )
            time.sleep(_POLL_S)

    def undo(self) -> None:
        """Leave nothing running."""
        if self._process is not None:
            if self._process.poll() is None:
                kill_tree(self._process.pid)
            self._process.wait()

    def release(self) -> None:
        """Let the controller go on without this process, and take note when it ends."""
        if self._process is not None:
            threading.Thread(target=self._process.wait, daemon=True).start()

    def _is_recorded(self) -> bool:
        return (self._folder / RUN_FILE).exists()

    def _last_words(self) -> str:
        logs = sorted((self._folder / SUBMITIT_FOLDER).glob("*.log*"))
        text = "\n".join(log.read_text(encoding="utf-8", errors="replace") for log in logs)
        lines = [line for line in text.splitlines() if line]
        return "\n".join(lines[-_TAIL_LINES:]) or "no output"

    def _executor(self) -> Any:
        try:
            from submitit.local.local import LocalExecutor, LocalJob
        except ImportError as error:
            raise ToolMissing(
                f"submitit cannot be imported: {error}", hint=pip_line("submitit")
            ) from error
        launch = self

        class Executor(LocalExecutor):
            """Starts the controller apart from this terminal, in an environment of its own."""

            def _submit_command(self, command: str) -> LocalJob[Any]:
                process = launch.start_controller(self.folder, command)
                return LocalJob(folder=self.folder, job_id=str(process.pid), process=process)

        return Executor(self._folder / SUBMITIT_FOLDER, python=shlex.quote(self._python))

    def start_controller(self, folder: Path, command: str) -> subprocess.Popen[bytes]:
        """Start submitit's controller as its own `start_controller` does, but detached.

        Source: submitit 1.5.4, local/local.py, start_controller.
        """
        environment = {
            **local_run.supervisor_environment(self._environment, _search_path(self._environment)),
            "SUBMITIT_LOCAL_NTASKS": "1",
            "SUBMITIT_LOCAL_COMMAND": command,
            "SUBMITIT_LOCAL_TIMEOUT_S": str(60 * _NEVER_MIN),
            "SUBMITIT_LOCAL_SIGNAL_DELAY_S": "0",
            "SUBMITIT_LOCAL_NODEID": "0",
            "SUBMITIT_LOCAL_JOB_NUM_NODES": "1",
            "SUBMITIT_STDERR_TO_STDOUT": "1",
            "SUBMITIT_EXECUTOR": "local",
            "SUBMITIT_LOCAL_WITH_SHELL": "",
        }
        with (folder / "controller.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._python, "-m", "submitit.local._local", str(folder)],
                env=environment,
                # Not the caller's: a folder in use cannot be unmounted.
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        return self._process


def _check_folder(folder: Path) -> None:
    odd = [word for word in _PLACEHOLDERS if word in str(folder)]
    if odd:
        raise AdapterError(
            f"the path of the job folder {folder} has {odd[0]}, which submitit expands",
            hint="set another job_root in the site file",
        )
    if (folder / RUN_FILE).exists() or (folder / RESULT_FILE).exists():
        raise AdapterError(f"the job in {folder} was already started")


def _search_path(environment: Mapping[str, str]) -> str:
    """This process's search path without what the user's PYTHONPATH put there for the job."""
    own = [home for home in map(_home_of, _NEEDED) if home]
    users = {str(Path(item).absolute()) for item in environment.get("PYTHONPATH", "").split(":")}
    # Where hpckit itself comes from the user's PYTHONPATH, that keeps its place before the rest.
    dropped = users.difference(own)
    kept = [item for item in sys.path if item.startswith("/") and item not in dropped]
    return ":".join(dict.fromkeys([*kept, *own]))


def _home_of(module: str) -> str:
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return ""
    origin = Path(spec.origin).absolute()
    return str(origin.parent.parent if spec.submodule_search_locations else origin.parent)


def _read_run(folder: Path) -> LocalRun | None:
    try:
        return read_record(folder, RUN_FILE, LocalRun)
    except StorageFailed:
        return None


def _ask_supervisor(run: LocalRun, folder: Path, name: str | None) -> None:
    supervisor = find_process(run.supervisor)
    if supervisor is None:
        return
    if name in _FORWARDED:
        send_signal([supervisor], signal.Signals[f"SIG{name}"])
        return
    try:
        _record_request(folder, name)
    except StorageFailed:
        # Without the record it can still be ended, but no more than that.
        if name is not None:
            raise
    send_signal([supervisor], signal.SIGTERM)
    # A stopped supervisor would not hear it.
    send_signal([supervisor], signal.SIGCONT)


def _record_request(folder: Path, name: str | None) -> None:
    request = CancelRequest(
        user=os.environ.get("USER") or user_name() or str(os.getuid()),
        host=socket.gethostname(),
        pid=os.getpid(),
        requested_s=time.time(),
        signal=name,
    )
    write_record(folder, CANCEL_FILE, request)


def _end_rest(job_id: JobId, run: LocalRun, folder: Path, name: str | None) -> None:
    variable = ("HPCKIT_JOB_FOLDER", str(folder))
    if not session_members(run.script, variable, run.started_s):
        raise HpckitError(f"job {job_id} has already ended: {JobState.FAILED}")
    if name not in (None, "KILL"):
        script = None if run.script is None else find_process(run.script)
        if script is None:
            raise AdapterError(
                f"the script of job {job_id} has ended; hpckit cancel without a signal ends its "
                "remaining processes"
            )
        send_signal([script], signal.Signals[f"SIG{name}"])
        return
    _record_request(folder, name)
    kill_wait_s = 0.0 if name == "KILL" else run.kill_wait_s
    left = end_members(run.script, variable, run.started_s, kill_wait_s)
    if left:
        raise AdapterError(f"{left} processes of job {job_id} did not end on SIGKILL")
