"""How jobs are when Slurm's commands agree, differ, or do not answer."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from hpckit.adapters.slurm_cli import SlurmCli
from hpckit.adapters.slurm_status import SlurmStatuses
from hpckit.decide.job_status import CONFIRM_S, FAR_CONFIRM_S
from hpckit.model.job_folder import submission_file
from hpckit.model.slurm import JobEntry, JobId, JobState, JobStatus
from tests.fakes.clock import FakeClock
from tests.unit.adapters.scripted import ScriptedRunner, row, said

EMPTY = said()
UNREACHED = said(
    code=1,
    stderr="slurm_load_jobs error: Unable to contact slurm controller (connect failure)\n",
)
NO_ACCOUNTS = said(code=1, stderr="Slurm accounting storage is disabled\n")
RECORDS = Path(__file__).parents[2] / "records"
NO_DBD = said(code=1, stderr="sacct: error: Problem talking to the database: Connection refused\n")


def uuid_of(number: int) -> str:
    """The uuid of the numbered submission."""
    return f"{number:032x}"


def an_entry(
    tmp_path: Path, number: int = 1, *, confirmed: bool = True, age_s: float = 0, ran: bool = False
) -> JobEntry:
    """A job whose intent was written `age_s` ago on another host, with a log if it `ran`."""
    folder = tmp_path / str(number)
    (folder / "logs").mkdir(parents=True)
    if ran:
        (folder / "logs" / "job.log").touch()
    return JobEntry(
        submission=uuid_of(number),
        job_id=JobId(str(number) if confirmed else f"U{uuid_of(number)[:8]}"),
        name="train",
        site="docker",
        folder=str(folder),
        created_s=FakeClock().now_s() - age_s,
        state=JobState.PENDING,
    )


def intent_of(entry: JobEntry, pid: int, started_s: float, host: str | None = None) -> None:
    """Write who submits."""
    document = {
        "schema": "hpckit.intent/1",
        "submitter_host": host or socket.gethostname(),
        "submitter_pid": pid,
        "submitter_started_s": started_s,
    }
    (Path(entry.folder) / "intent.json").write_text(json.dumps(document))


def in_queue(number: int, state: str, *, task: str = "", reason: str = "None") -> str:
    """What squeue lists."""
    times = ("2026-11-21T06:00:00", "2026-11-21T06:00:05")
    command = f"/jobs/{submission_file(uuid_of(number))}"
    return row(f"{number}{task}", state, reason, *times, "c1", command)


def in_accounts(number: int, state: str, code: str = "0:0", *, uuid: str | None = None) -> str:
    """What sacct lists."""
    times = ("2026-11-21T06:00:00", "2026-11-21T06:00:05")
    line = f"sbatch --parsable /jobs/{submission_file(uuid or uuid_of(number))}"
    return row(str(number), state, code, *times, "c1", "None", line)


def asked(runner: ScriptedRunner, entries: Sequence[JobEntry]) -> list[JobStatus]:
    """The statuses of these jobs, in order."""
    clock = FakeClock()
    answers = SlurmStatuses(SlurmCli(runner, clock), clock).of(entries)
    return [answers[entry.submission] for entry in entries]


def test_the_living_cost_one_question(tmp_path: Path) -> None:
    """Jobs that squeue lists as waiting, running or completed need no other command."""
    entries = [an_entry(tmp_path, number) for number in (1, 2, 3)]
    lines = in_queue(1, "PENDING") + in_queue(2, "RUNNING") + in_queue(3, "COMPLETED")
    runner = ScriptedRunner(squeue=[said(lines)])
    states = [status.state for status in asked(runner, entries)]
    assert states == [JobState.PENDING, JobState.RUNNING, JobState.COMPLETED]
    assert runner.programs == ["squeue"]


def test_the_finished_cost_one_more(tmp_path: Path) -> None:
    """What squeue has forgotten, or lists without a code, is one question to sacct."""
    entries = [an_entry(tmp_path, number) for number in (1, 2, 3)]
    accounts = (
        in_accounts(1, "FAILED", "7:0") + in_accounts(2, "TIMEOUT") + in_accounts(3, "RUNNING")
    )
    runner = ScriptedRunner(
        squeue=[said(in_queue(1, "FAILED") + in_queue(3, "RUNNING"))], sacct=[said(accounts)]
    )
    failed, timeout, running = asked(runner, entries)
    assert (failed.state, failed.exit_code) == (JobState.FAILED, 7)
    assert (timeout.state, timeout.reason) == (JobState.TIMEOUT, "the time limit was reached")
    assert running.state is JobState.RUNNING
    assert runner.programs == ["squeue", "sacct"]
    assert "--jobs=1,2" in runner.asked[1]


def test_without_accounts_the_controller_knows_the_code(tmp_path: Path) -> None:
    """Where no accounts are kept, a failed job's code is what scontrol still knows."""
    command = f"/jobs/{submission_file(uuid_of(1))}"
    capture = (RECORDS / "scontrol-job-24.11.5" / "failed" / "output.txt").read_text()
    shown = re.sub(r"Command=\S+", f"Command={command}", capture)
    runner = ScriptedRunner(
        squeue=[said(in_queue(1, "FAILED"))], sacct=[NO_ACCOUNTS], scontrol=[said(shown)]
    )
    (status,) = asked(runner, [an_entry(tmp_path)])
    assert (status.state, status.exit_code) == (JobState.FAILED, 7)
    assert runner.programs == ["squeue", "sacct", "scontrol"]


def test_without_the_controller_the_accounts_answer(tmp_path: Path) -> None:
    """While slurmctld is down, a job's end is known from sacct."""
    runner = ScriptedRunner(squeue=[UNREACHED], sacct=[said(in_accounts(1, "COMPLETED"))])
    (status,) = asked(runner, [an_entry(tmp_path)])
    assert (status.state, status.exit_code) == (JobState.COMPLETED, 0)


@pytest.mark.parametrize("confirmed", [True, False])
def test_while_nothing_answers_nothing_is_decided(tmp_path: Path, *, confirmed: bool) -> None:
    """While neither answers, a job of any age is UNKNOWN for now, with the reason."""
    entry = an_entry(tmp_path, confirmed=confirmed, age_s=1e6)
    (status,) = asked(ScriptedRunner(squeue=[UNREACHED], sacct=[NO_DBD]), [entry])
    assert (status.state, status.is_lost) == (JobState.UNKNOWN, False)
    assert "squeue did not reach Slurm" in str(status.reason)


def test_without_the_accounts_a_cut_submission_is_not_decided(tmp_path: Path) -> None:
    """What squeue does not list may have run and ended: only sacct makes it certain."""
    entry = an_entry(tmp_path, confirmed=False, age_s=1e6)
    (status,) = asked(ScriptedRunner(squeue=[EMPTY], sacct=[NO_DBD]), [entry])
    assert (status.state, status.is_lost) == (JobState.UNKNOWN, False)


@pytest.mark.parametrize("source", ["squeue", "sacct"])
def test_a_cut_submission_is_found_by_its_uuid(tmp_path: Path, source: str) -> None:
    """A submission without an id gets that of the job whose script has its uuid."""
    entry = replace(an_entry(tmp_path, 9, confirmed=False), created_s=FakeClock().now_s())
    queue = said(in_queue(9, "RUNNING")) if source == "squeue" else EMPTY
    runner = ScriptedRunner(squeue=[queue], sacct=[said(in_accounts(9, "COMPLETED"))])
    (status,) = asked(runner, [entry])
    assert status.job_id == "9"
    assert status.state is (JobState.RUNNING if source == "squeue" else JobState.COMPLETED)


@pytest.mark.parametrize(
    ("age_s", "state"),
    [(1, JobState.UNKNOWN), (FAR_CONFIRM_S - 1, JobState.UNKNOWN), (FAR_CONFIRM_S, None)],
)
def test_a_cut_submission_is_unknown_while_young(
    tmp_path: Path, age_s: float, state: JobState | None
) -> None:
    """A submission from elsewhere may still become a job; old enough, it is NOT_SUBMITTED."""
    entry = an_entry(tmp_path, confirmed=False, age_s=age_s)
    (status,) = asked(ScriptedRunner(squeue=[EMPTY], sacct=[EMPTY]), [entry])
    assert status.state is (state or JobState.NOT_SUBMITTED)


def test_here_a_dead_submitter_is_seen(tmp_path: Path) -> None:
    """Where the submitting process was one of this host and is dead, it is certain sooner."""
    entry = an_entry(tmp_path, confirmed=False, age_s=CONFIRM_S + 1)
    intent_of(entry, 2**22 + 1, 0.0)
    (status,) = asked(ScriptedRunner(squeue=[EMPTY], sacct=[EMPTY]), [entry])
    assert status.state is JobState.NOT_SUBMITTED


def test_here_a_living_submitter_is_seen(tmp_path: Path) -> None:
    """While the submitting process lives, its job is being submitted, whatever its age."""
    entry = an_entry(tmp_path, confirmed=False, age_s=1e6)
    intent_of(entry, os.getpid(), psutil.Process().create_time())
    (status,) = asked(ScriptedRunner(squeue=[EMPTY], sacct=[EMPTY]), [entry])
    assert (status.state, status.reason) == (JobState.UNKNOWN, "it is being submitted")


def test_a_job_that_slurm_forgot_is_lost(tmp_path: Path) -> None:
    """A job that ran and that neither squeue nor sacct lists is UNKNOWN for good."""
    entry = an_entry(tmp_path, age_s=1e6, ran=True)
    (status,) = asked(ScriptedRunner(squeue=[EMPTY], sacct=[EMPTY]), [entry])
    assert (status.state, status.is_lost) == (JobState.UNKNOWN, True)
    assert "it ran" in str(status.reason)


def test_an_id_that_was_used_again_is_another_job(tmp_path: Path) -> None:
    """A record of this id that names another submission is not this job's."""
    accounts = in_accounts(1, "FAILED", "9:0", uuid=uuid_of(5)) + in_accounts(1, "COMPLETED")
    (status,) = asked(ScriptedRunner(squeue=[EMPTY], sacct=[said(accounts)]), [an_entry(tmp_path)])
    assert status.state is JobState.COMPLETED


def test_each_cluster_is_asked_for_its_own(tmp_path: Path) -> None:
    """Jobs of a named cluster are asked about there, those of none without a name."""
    north = replace(an_entry(tmp_path, 2), cluster="north")
    runner = ScriptedRunner(squeue=[said(in_queue(1, "RUNNING")), said(in_queue(2, "RUNNING"))])
    statuses = asked(runner, [an_entry(tmp_path, 1), north])
    assert [status.cluster for status in statuses] == [None, "north"]
    assert "--clusters=north" in runner.asked[1]
    assert not any(word.startswith("--clusters") for word in runner.asked[0])


def test_a_missing_squeue_is_a_reason(tmp_path: Path) -> None:
    """Away from Slurm, a job is UNKNOWN because squeue is not there, and no bug."""
    (status,) = asked(ScriptedRunner(), [an_entry(tmp_path)])
    assert (status.state, status.reason) == (JobState.UNKNOWN, "squeue was not found")


def test_unreadable_text_is_a_reason(tmp_path: Path) -> None:
    """What squeue says and nobody understands is the reason, and sacct still answers."""
    runner = ScriptedRunner(squeue=[said("?!\n")], sacct=[said(in_accounts(1, "COMPLETED"))])
    (status,) = asked(runner, [an_entry(tmp_path)])
    assert status.state is JobState.COMPLETED


def test_thousands_of_ids_are_several_questions(tmp_path: Path) -> None:
    """An argument holds 128 KiB at most: sacct is asked for a thousand jobs at a time."""
    runner = ScriptedRunner(sacct=[said(in_accounts(1, "COMPLETED")), EMPTY, EMPTY])
    clock = FakeClock()
    ids = [JobId(str(number)) for number in range(1, 2002)]
    found = SlurmCli(runner, clock).accounts(ids, None)
    assert found is not None
    assert [record.job_id for record in found] == ["1"]
    assert runner.programs == ["sacct"] * 3
