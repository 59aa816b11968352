"""What a submission does when Slurm does not simply take it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.core.errors import (
    AdapterError,
    HpckitError,
    SchedulerRefused,
    SchedulerUnreachable,
    StorageFailed,
    SubmissionUnconfirmed,
    ToolMissing,
    ToolTimeout,
)
from hpckit.jobs.slurm_submit import SlurmSubmitter
from hpckit.jobs.status import CONFIRM_S
from hpckit.slurm.values import JobId, JobState, SubmitRequest, submission_file
from tests.fakes.clock import FakeClock
from tests.fakes.local_job import entry_of_request, job_request
from tests.fakes.scripted import Answer, ScriptedRunner, row, said

UUID = "0123456789abcdef" * 2
DOWN = said(
    code=1,
    stderr="sbatch: error: Batch job submission failed: "
    "Unable to contact slurm controller (connect failure)\n",
)
LOST = said(
    code=1,
    stderr="sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n",
)
EMPTY = said()


def queued(uuid: str = UUID, state: str = "PENDING", job_id: str = "77") -> str:
    """What squeue lists of a job of this submission."""
    command = f"/shared/jobs/x/{submission_file(uuid)}"
    return row(job_id, state, "Priority", "N/A", "N/A", "", command)


def a_request(tmp_path: Path, clock: FakeClock, **more: object) -> SubmitRequest:
    """A prepared job whose intent was written now."""
    made = job_request(tmp_path / "job", "true\n", submission=UUID)
    fields = {name: getattr(made, name) for name in made.__dataclass_fields__}
    return SubmitRequest(**{**fields, "begun_s": clock.now_s(), **more})


def test_the_script_goes_to_sbatch_under_its_uuid(tmp_path: Path) -> None:
    """The script's own bytes go to sbatch under the uuid's name, in the job's environment."""
    clock = FakeClock()
    runner = ScriptedRunner(sbatch=[said("99 banner\n4242;north\n", stderr="sbatch: lua: hello\n")])
    request = a_request(tmp_path, clock, environment={"PATH": "/bin", "A": "1"})
    started = SlurmSubmitter(runner, clock).submit(request)
    assert (started.job_id, started.cluster, started.state) == ("4242", "north", JobState.PENDING)
    assert started.words == ("lua: hello",)
    file = request.folder / submission_file(UUID)
    assert runner.asked == [
        (
            "sbatch",
            "--parsable",
            f"--chdir={request.workdir}",
            f"--output={request.folder}/logs/job.log",
            "--export=ALL",
            str(file),
        )
    ]
    assert runner.environments == [{"PATH": "/bin", "A": "1"}]
    assert file.read_bytes() == (request.folder / "job.sbatch").read_bytes()
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_part_is_handed_over_on_the_command_line(tmp_path: Path) -> None:
    """A part has its own file and log names; its array and dependency stand over the script's."""
    clock = FakeClock()
    runner = ScriptedRunner(sbatch=[said("4243\n")])
    part = {"is_array": True, "array_part": "0-47%8", "array_offset": 202}
    request = a_request(tmp_path, clock, **part, dependency="afterany:4242", ends_with_it=True)
    SlurmSubmitter(runner, clock).submit(request)
    assert runner.asked[0][3:] == (
        f"--output={request.folder}/logs/job-202+%a.log",
        "--export=ALL",
        "--array=0-47%8",
        "--dependency=afterany:4242",
        "--kill-on-invalid-dep=yes",
        f"{request.folder}/submission-{UUID}-202.sbatch",
    )


def test_a_lost_answer_about_a_part_is_found_by_its_offset(tmp_path: Path) -> None:
    """Of the parts that squeue lists for a submission, the one with the same offset is it."""
    clock = FakeClock()
    command = f"/shared/jobs/x/{submission_file(UUID, 202)}"
    listed = queued() + row("78_[0-9]", "PENDING", "Priority", "N/A", "N/A", "", command)
    runner = ScriptedRunner(sbatch=[LOST], squeue=[said(listed)])
    request = a_request(tmp_path, clock, is_array=True, array_part="0-9", array_offset=202)
    assert SlurmSubmitter(runner, clock).submit(request).job_id == "78"


def test_a_trial_is_sbatchs_own(tmp_path: Path) -> None:
    """The command gets a file with the script and the same options, and its words come back."""
    clock, seen = FakeClock(), []
    words = "sbatch: Job 7 to start at 2026-11-21T11:13:27 using 4 processors on nodes c[1-4]\n"

    def read(_program: str) -> None:
        seen.append(Path(runner.asked[-1][-1]).read_text(encoding="utf-8"))

    runner = ScriptedRunner(read, sbatch=[said(stderr=words)])
    request = a_request(tmp_path, clock)
    told = SlurmSubmitter(runner, clock).test(request)
    assert told == ("Job 7 to start at 2026-11-21T11:13:27 using 4 processors on nodes c[1-4]",)
    (argv,) = runner.asked
    assert argv[:2] == ("sbatch", "--test-only")
    assert f"--chdir={request.workdir}" in argv
    assert seen == ["#!/bin/bash\ntrue\n"]
    assert not Path(argv[-1]).exists()


def test_a_trial_queues_nothing_whatever_is_said(tmp_path: Path) -> None:
    """A refusal in the words of --test-only is a refusal, not a submission that is in doubt."""
    stderr = "allocation failure: Invalid account or account/partition combination specified\n"
    clock, runner = FakeClock(), ScriptedRunner(sbatch=[said(code=1, stderr=stderr)])
    with pytest.raises(SchedulerRefused, match="would refuse the job: Invalid account"):
        SlurmSubmitter(runner, clock).test(a_request(tmp_path, clock))


@pytest.mark.parametrize(
    "answer",
    [
        ToolTimeout(("sbatch",), 60.0, ""),
        said(code=1, stderr="allocation failure: Socket timed out on send/recv operation\n"),
    ],
)
def test_a_trial_without_an_answer_is_no_refusal(tmp_path: Path, answer: Answer) -> None:
    """When nobody answers a trial, Slurm has not said no."""
    clock, runner = FakeClock(), ScriptedRunner(sbatch=[answer])
    with pytest.raises(SchedulerUnreachable, match="did not answer"):
        SlurmSubmitter(runner, clock).test(a_request(tmp_path, clock))


def test_the_log_of_an_array_has_a_name_a_task(tmp_path: Path) -> None:
    """Tasks of an array write to files of their own; a percent sign in a path is no pattern."""
    clock = FakeClock()
    runner = ScriptedRunner(sbatch=[said("1\n")])
    request = a_request(tmp_path / "100%", clock, is_array=True)
    SlurmSubmitter(runner, clock).submit(request)
    assert f"--output={tmp_path}/100%%/job/logs/job-%a.log" in runner.asked[0]


def test_a_backslash_in_the_path_is_refused(tmp_path: Path) -> None:
    """A backslash in the log's path would be an instruction to sbatch: refused before it."""
    clock = FakeClock()
    runner = ScriptedRunner(sbatch=[said("1\n")])
    with pytest.raises(StorageFailed, match="backslash"):
        SlurmSubmitter(runner, clock).submit(a_request(tmp_path / "a\\b", clock))
    assert not runner.asked


def test_a_refusal_is_in_slurms_words(tmp_path: Path) -> None:
    """What sbatch refuses raises SchedulerRefused with its words and what would help, at once."""
    clock = FakeClock()
    stderr = (
        "sbatch: error: QOSMaxGRESPerUser\n"
        "sbatch: error: Batch job submission failed: Job violates accounting/QOS policy\n"
    )
    runner = ScriptedRunner(sbatch=[said(code=1, stderr=stderr)])
    with pytest.raises(SchedulerRefused, match="QOSMaxGRESPerUser\nBatch job") as raised:
        SlurmSubmitter(runner, clock).submit(a_request(tmp_path, clock))
    assert raised.value.exit_code == 7
    assert "GPUs" in str(raised.value.hint)
    assert runner.programs == ["sbatch"]


def test_a_controller_that_was_not_reached_is_tried_three_times(tmp_path: Path) -> None:
    """A connection that failed left no job: sbatch is called again, twice, and then given up."""
    clock = FakeClock()
    runner = ScriptedRunner(sbatch=[DOWN])
    with pytest.raises(SchedulerUnreachable, match="connect failure"):
        SlurmSubmitter(runner, clock).submit(a_request(tmp_path, clock))
    assert runner.programs == ["sbatch"] * 3


def test_a_controller_that_comes_back_takes_the_job(tmp_path: Path) -> None:
    """When the second attempt is answered, that is the submission."""
    clock = FakeClock()
    runner = ScriptedRunner(sbatch=[DOWN, said("5\n")])
    started = SlurmSubmitter(runner, clock).submit(a_request(tmp_path, clock))
    assert (started.job_id, runner.programs) == ("5", ["sbatch"] * 2)


def test_an_sbatch_that_tried_for_long_is_not_repeated(tmp_path: Path) -> None:
    """When sbatch itself took more than ten seconds to give up, it is not called again."""
    clock = FakeClock()
    runner = ScriptedRunner(meanwhile=lambda _program: clock.sleep(19), sbatch=[DOWN])
    with pytest.raises(SchedulerUnreachable):
        SlurmSubmitter(runner, clock).submit(a_request(tmp_path, clock))
    assert runner.programs == ["sbatch"]


@pytest.mark.parametrize(
    "answer", [LOST, ToolTimeout(["sbatch"], 60), said("no id here\n"), said("")]
)
def test_a_lost_answer_is_looked_for_not_repeated(tmp_path: Path, answer: Answer) -> None:
    """After an answer that tells nothing, sbatch is not called again; squeue finds the job."""
    clock = FakeClock()
    runner = ScriptedRunner(sbatch=[answer], squeue=[EMPTY, said(queued("f" * 32) + queued())])
    started = SlurmSubmitter(runner, clock).submit(a_request(tmp_path, clock))
    assert started.job_id == "77"
    assert runner.programs == ["sbatch", "squeue", "squeue"]


def test_a_lost_answer_that_squeue_does_not_have_is_unconfirmed(tmp_path: Path) -> None:
    """A job that may exist raises SubmissionUnconfirmed, and says not to submit it again."""
    clock = FakeClock()
    runner = ScriptedRunner(sbatch=[LOST], squeue=[EMPTY])
    with pytest.raises(SubmissionUnconfirmed, match="Socket timed out") as raised:
        SlurmSubmitter(runner, clock).submit(a_request(tmp_path, clock))
    assert "do not submit it again" in str(raised.value.hint)
    assert runner.programs.count("sbatch") == 1


def test_a_submission_that_was_stopped_for_long_is_not_sent(tmp_path: Path) -> None:
    """A process that slept for long sends nothing: its submission may be declared dead."""
    clock = FakeClock()
    request = a_request(tmp_path, clock)
    clock.sleep(CONFIRM_S / 4 + 1)
    runner = ScriptedRunner(sbatch=[said("1\n")])
    with pytest.raises(AdapterError, match="delayed by"):
        SlurmSubmitter(runner, clock).submit(request)
    assert not runner.asked


def test_without_slurm_there_is_a_hint(tmp_path: Path) -> None:
    """Where there is no sbatch, the hint names a login node and --local."""
    clock = FakeClock()
    with pytest.raises(ToolMissing) as raised:
        SlurmSubmitter(ScriptedRunner(), clock).submit(a_request(tmp_path, clock))
    assert "--local" in str(raised.value.hint)


def cancelled(runner: ScriptedRunner, tmp_path: Path, signal: str | None, task: int | None) -> None:
    """Cancel the job of the submission."""
    clock = FakeClock()
    entry = replace(entry_of_request(a_request(tmp_path, clock)), job_id=JobId("77"))
    SlurmSubmitter(runner, clock).cancel(entry, signal, task)


@pytest.mark.parametrize(
    ("signal", "task", "asked"),
    [
        (None, None, ("scancel", "77")),
        (None, 3, ("scancel", "77_3")),
        ("USR1", None, ("scancel", "--signal=USR1", "77")),
        ("sigkill", None, ("scancel", "--signal=KILL", "77")),
    ],
)
def test_scancel_gets_the_job_that_slurm_has(
    tmp_path: Path, signal: str | None, task: int | None, asked: tuple[str, ...]
) -> None:
    """The job is found by its uuid, and scancel gets the id under which Slurm has it now."""
    job_id = "77" if task is None else f"77_{task}"
    line = queued(state="RUNNING", job_id=job_id)
    runner = ScriptedRunner(squeue=[said(line)], sacct=[EMPTY], scancel=[EMPTY])
    cancelled(runner, tmp_path, signal, task)
    assert runner.asked[-1] == asked


def test_another_job_of_the_same_id_is_not_cancelled(tmp_path: Path) -> None:
    """A job whose script is not this submission's is somebody else's, whatever its id."""
    other = queued("e" * 32, state="RUNNING", job_id="77")
    runner = ScriptedRunner(squeue=[said(other)], sacct=[EMPTY], scancel=[EMPTY])
    with pytest.raises(HpckitError, match="cannot cancel job"):
        cancelled(runner, tmp_path, None, None)
    assert "scancel" not in runner.programs


def test_a_job_that_waits_gets_no_signal(tmp_path: Path) -> None:
    """A signal to a job that has not begun is refused; KILL ends it."""
    runner = ScriptedRunner(squeue=[said(queued())], scancel=[EMPTY])
    with pytest.raises(HpckitError, match="has not started"):
        cancelled(runner, tmp_path, "USR1", None)
    cancelled(runner, tmp_path / "2", "KILL", None)
    assert runner.asked[-1][0] == "scancel"


@pytest.mark.parametrize("answer", [said(code=137), said("4242\n", code=1, stderr="hook: no\n")])
def test_an_sbatch_that_was_ended_may_have_left_a_job(tmp_path: Path, answer: Answer) -> None:
    """What is no refusal of Slurm's own is looked for in squeue, and the job found there."""
    clock = FakeClock()
    runner = ScriptedRunner(sbatch=[answer], squeue=[said(queued())])
    assert SlurmSubmitter(runner, clock).submit(a_request(tmp_path, clock)).job_id == "77"
