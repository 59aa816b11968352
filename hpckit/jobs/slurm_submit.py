"""Jobs on a Slurm cluster: submitted exactly once, and known by their uuid."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from hpckit.core.errors import (
    AdapterError,
    HpckitError,
    ParseError,
    SchedulerRefused,
    SchedulerUnreachable,
    StorageFailed,
    SubmissionUnconfirmed,
    ToolMissing,
    ToolTimeout,
)
from hpckit.core.files import Clock, not_written
from hpckit.core.late import Late
from hpckit.core.process import CommandRunner
from hpckit.jobs.slurm_status import SlurmStatuses
from hpckit.jobs.status import CONFIRM_S
from hpckit.jobs.track import cancel_targets, signal_word
from hpckit.slurm.ask import SlurmCli, attempts
from hpckit.slurm.sbatch import (
    SbatchFailure,
    explain_refusal,
    parse_sbatch,
    refusal_words,
    sbatch_failure,
)
from hpckit.slurm.text import is_unreachable
from hpckit.slurm.values import (
    JobDetail,
    JobEntry,
    JobId,
    JobPart,
    JobRecord,
    JobState,
    JobStatus,
    StartedJob,
    SubmitRequest,
    submission_file,
)
from hpckit.spec.job_folder import LOGS_FOLDER, SCRIPT_FILE, task_log

if TYPE_CHECKING:
    import tempfile
else:
    tempfile = Late("tempfile")

_SBATCH_S = 60.0
_PAUSES_S = (1.0, 3.0)
_SIGNALS = ("TERM", "INT", "HUP", "USR1", "USR2", "CONT", "STOP", "KILL")
WHERE_SBATCH_IS = "submit from a login node of the cluster, or run here with --local"


class SlurmSubmitter:
    """Hands scripts to sbatch, asks squeue and sacct, cancels with scancel.

    A submission's uuid is the name of the file that sbatch is given, which squeue and sacct give
    back: by it a job is known as this submission's, whatever its id. sbatch is called a second
    time only when it never reached slurmctld. Slurm's commands are asked unless `slurm` is given.
    """

    def __init__(self, runner: CommandRunner, clock: Clock, slurm: SlurmCli | None = None) -> None:
        self._runner = runner
        self._clock = clock
        self._slurm = slurm or SlurmCli(runner, clock)
        self._statuses = SlurmStatuses(self._slurm, clock)

    def submit(self, request: SubmitRequest) -> StartedJob:
        """Have sbatch queue the script.

        Raises SchedulerRefused with Slurm's words; SchedulerUnreachable when slurmctld was not
        reached, in up to three attempts; SubmissionUnconfirmed when it was, and its answer is
        missing; StorageFailed and ToolMissing when nothing was sent.
        """
        sbatch = _Sbatch(self._runner, self._clock, request)
        try:
            path = _write_script(request)
            printed = sbatch(["sbatch", "--parsable", *_options(request), str(path)])
            job_id, cluster = parse_sbatch(printed)
        except (SubmissionUnconfirmed, ParseError) as error:
            return self._found(request, error)
        return StartedJob(
            job_id=job_id, cluster=cluster, state=JobState.PENDING, words=sbatch.words
        )

    def test(self, request: SubmitRequest) -> Sequence[str]:
        """What `sbatch --test-only` says: when and where the job would start.

        Raises SchedulerRefused with Slurm's words, and what else `submit` raises.
        """
        sbatch = _Sbatch(self._runner, self._clock, request)
        with script_file(request.script) as path:
            try:
                sbatch(["sbatch", "--test-only", *_options(request), str(path)])
            except SubmissionUnconfirmed as error:
                # Nothing can have been queued. It says "allocation failure: …" of what it refuses.
                words = error.message.removeprefix("allocation failure: ")
                if isinstance(error.__cause__, ToolTimeout) or is_unreachable(words):
                    raise SchedulerUnreachable(
                        f"Slurm did not answer: {words}", hint="nothing was queued; try again"
                    ) from error
                raise SchedulerRefused(
                    f"Slurm would refuse the job: {words}", hint=explain_refusal(words)
                ) from error
        return sbatch.words

    def statuses(self, jobs: Sequence[JobEntry]) -> Mapping[str, JobStatus]:
        """Submission → status: one squeue for all, one sacct for what squeue does not tell."""
        return self._statuses.of(jobs)

    def detail(self, job: JobEntry, task: int | None = None) -> JobDetail | None:
        """The last run of the job as the accounts have it, with its steps; None when in doubt.

        22.05 does not say which submission a job is (sacct_json.py): there the id has to do.
        """
        part = JobPart(offset=0, job_id=job.job_id)
        if task is not None:
            part = max(
                (one for one in job.parts if one.offset <= task),
                default=part,
                key=attrgetter("offset"),
            )
        index = None if task is None else task - part.offset
        job_id = part.job_id if index is None else JobId(f"{part.job_id}_{index}")
        try:
            details = self._slurm.detail(job_id, job.cluster)
        except HpckitError:
            return None
        own = [
            detail
            for detail in details
            if detail.record.submission in (None, job.submission)
            and detail.record.job_id == part.job_id
            and _local_index(detail.record) == index
        ]
        return own[-1] if own and own[-1].record.state.is_final else None

    def cancel(self, job: JobEntry, signal_name: str | None, task: int | None = None) -> JobStatus:
        """End the job with scancel (None), or send a signal to the steps of a running one.

        Gives its status before. Slurm's TERM comes first and KILL after its KillWait; the signal
        KILL ends it at once. Raises HpckitError when the job has ended, has not begun or is not
        known to Slurm.
        """
        status = self._statuses.of([job])[job.submission]
        if status.state.is_final:
            raise HpckitError(f"job {status.job_id} has already ended: {status.state}")
        if status.state is JobState.UNKNOWN:
            raise AdapterError(f"cannot cancel job {status.job_id}: {status.reason}")
        signal = signal_word(signal_name, _SIGNALS, "a job")
        targets = cancel_targets(status, task, signal)
        argv = ["scancel"]
        if signal is not None:
            argv.append(f"--signal={signal}")
        if status.cluster is not None:
            argv.append(f"--clusters={status.cluster}")
        self._slurm.ask([*argv, *targets])
        return status

    def _found(self, request: SubmitRequest, error: HpckitError) -> StartedJob:
        """The job of a submission whose answer was lost, should Slurm list it already."""
        for pause_s in _PAUSES_S:
            self._clock.sleep(pause_s)
            try:
                queue = self._slurm.queue(request.cluster)
            except HpckitError:
                break
            for record in queue:
                known = (record.submission, record.array_offset)
                if known == (request.submission, request.array_offset):
                    return StartedJob(
                        job_id=record.job_id, state=JobState.PENDING, cluster=request.cluster
                    )
        raise SubmissionUnconfirmed(
            f"unknown whether Slurm accepted the job: {error.message}",
            hint=f"do not submit it again; `hpckit status {request.job_id}` shows it within "
            f"{CONFIRM_S:.0f} s after Slurm is back",
        ) from error


def _write_script(request: SubmitRequest) -> Path:
    """Write what sbatch reads, by a name that holds the submission. Raises StorageFailed."""
    path = request.folder / submission_file(request.submission, request.array_offset)
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(request.script)
    except FileExistsError as error:
        raise StorageFailed(f"the job in {path.parent} was already submitted") from error
    except OSError as error:
        raise not_written(path, error) from error
    return path


@contextmanager
def script_file(script: str) -> Iterator[Path]:
    """A file that holds the script inside the block. Raises StorageFailed."""
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="hpckit-"))
            path = Path(folder, SCRIPT_FILE)
            path.write_text(script, encoding="utf-8")
        except OSError as error:
            raise StorageFailed(
                f"the script cannot be written to a temporary file: {error.strerror}",
                hint="set TMPDIR to another folder",
            ) from error
        yield path


def _local_index(record: JobRecord) -> int | None:
    return None if record.task_index is None else record.task_index - record.array_offset


class _Sbatch:
    """Calls sbatch for one submission, again only when slurmctld was not reached at all.

    The last call begins within a quarter of CONFIRM_S and lasts 60 s at most: what is not in
    Slurm's hands when CONFIRM_S has passed never comes there.
    """

    def __init__(self, runner: CommandRunner, clock: Clock, request: SubmitRequest) -> None:
        self._runner = runner
        self._clock = clock
        self._request = request
        self.words: tuple[str, ...] = ()

    def __call__(self, argv: Sequence[str]) -> str:
        words = ""
        for _ in attempts(self._clock, _PAUSES_S):
            self._refuse_late()
            try:
                result = self._runner.run(argv, _SBATCH_S, self._request.environment)
            except ToolTimeout as error:
                raise SubmissionUnconfirmed(_timed_out(error)) from error
            except ToolMissing as error:
                raise ToolMissing(error.message, hint=WHERE_SBATCH_IS) from error
            words = refusal_words(result.stderr)
            if result.returncode == 0:
                self.words = tuple(words.splitlines())
                return result.stdout
            failure = sbatch_failure(
                result.stderr, returncode=result.returncode, stdout=result.stdout
            )
            if failure is SbatchFailure.REFUSED:
                raise SchedulerRefused(
                    f"Slurm refused the job: {words}", hint=explain_refusal(words)
                )
            if failure is SbatchFailure.UNCONFIRMED:
                raise SubmissionUnconfirmed(
                    words or f"sbatch ended with {result.returncode} and no message"
                )
        raise SchedulerUnreachable(
            f"sbatch cannot reach Slurm: {words}",
            hint=f"nothing was submitted; {_remedy(words)}",
        )

    def _refuse_late(self) -> None:
        """A process that was stopped for long may have been declared dead meanwhile."""
        late_s = self._clock.now_s() - self._request.begun_s
        if late_s > CONFIRM_S / 4:
            raise AdapterError(
                f"nothing was submitted: this process was delayed by {late_s:.0f} s",
                hint="submit it again",
            )


def _remedy(words: str) -> str:
    if "configuration source" in words or "configuration file" in words:
        return "this host has no Slurm configuration: submit from a login node, or set SLURM_CONF"
    return "slurmctld may be restarting: try again in a minute"


def _timed_out(error: ToolTimeout) -> str:
    words = refusal_words(error.stderr)
    text = f"sbatch did not answer within {error.timeout_s:g} s"
    return f"{text}; its message: {words}" if words else text


def _options(request: SubmitRequest) -> list[str]:
    """What the command line says: it stands over the script, which is the same for every part."""
    # A site may set --export=NONE as a default (cli_filter): a part would not know which it is.
    options = [
        f"--chdir={request.workdir}",
        f"--output={_log_pattern(request)}",
        "--export=ALL",
    ]
    if request.array_part is not None:
        options.append(f"--array={request.array_part}")
    if request.dependency is not None:
        options.append(f"--dependency={request.dependency}")
    if request.ends_with_it:
        options.append("--kill-on-invalid-dep=yes")
    return options


def _log_pattern(request: SubmitRequest) -> str:
    """The log's path as sbatch reads one: % begins a replacement symbol, a backslash ends them all.

    Source: sbatch(1), "FILENAME PATTERN".
    """
    folder = str(request.folder)
    if "\\" in folder:
        raise StorageFailed(
            f"sbatch cannot write logs to {folder}: a backslash in the path has a special meaning",
            hint="set another job_root in the site file",
        )
    name = task_log("%a", request.array_offset) if request.is_array else f"{LOGS_FOLDER}/job.log"
    return f"{folder.replace('%', '%%')}/{name}"
