"""How jobs are when Slurm's commands agree, differ, or do not answer."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from hpckit.jobs.slurm_status import SlurmStatuses
from hpckit.jobs.status import CONFIRM_S, FAR_CONFIRM_S
from hpckit.slurm.ask import SlurmCli
from hpckit.slurm.values import JobEntry, JobId, JobState, JobStatus, submission_file
from tests.fakes.clock import FakeClock
from tests.fakes.scripted import Answer, ScriptedRunner, row, said

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
    assert (timeout.state, timeout.reason) == (JobState.TIMEOUT, "time limit reached")
    assert running.state is JobState.RUNNING
    assert runner.programs == ["squeue", "sacct"]
    assert "--jobs=1,2" in runner.asked[1]


def test_without_accounts_the_controller_knows_the_code(tmp_path: Path) -> None:
    """Where no accounts are kept, a failed job's code is what scontrol still knows."""
    command = f"/jobs/{submission_file(uuid_of(1))}"
    capture = (RECORDS / "scontrol-job-24.11.5" / "failed" / "output.txt").read_text()
    shown = re.sub(r"Command=\S+", f"Command={command}", capture.replace("JobId=8", "JobId=1"))
    runner = ScriptedRunner(
        squeue=[said(in_queue(1, "FAILED"))], sacct=[NO_ACCOUNTS], scontrol=[said(shown)]
    )
    (status,) = asked(runner, [an_entry(tmp_path)])
    assert (status.state, status.exit_code) == (JobState.FAILED, 7)
    assert runner.programs == ["squeue", "sacct", "scontrol"]


COMPLETED, RUNNING = said(in_accounts(1, "COMPLETED")), said(in_accounts(1, "RUNNING"))
USED_AGAIN = said(in_accounts(1, "FAILED", "9:0", uuid=uuid_of(5)) + in_accounts(1, "COMPLETED"))
A_PLAIN_JOB = said(
    row("1", "FAILED", "9:0", *("2026-11-21T06:00:00",) * 2, "c1", "None", "sbatch x.sh")
)
CUT: dict[str, Any] = {"confirmed": False}
OLD: dict[str, Any] = {"age_s": 1e6}


@pytest.mark.parametrize(
    ("entry", "squeue", "sacct", "state", "says"),
    [
        ({}, UNREACHED, COMPLETED, "COMPLETED", ""),
        ({}, said("?!\n"), COMPLETED, "COMPLETED", ""),
        ({}, EMPTY, USED_AGAIN, "COMPLETED", ""),
        ({}, None, None, "UNKNOWN", "squeue was not found"),
        (OLD, UNREACHED, NO_DBD, "UNKNOWN", "squeue cannot reach Slurm"),
        (OLD | CUT, UNREACHED, NO_DBD, "UNKNOWN", "squeue cannot reach Slurm"),
        (OLD | CUT, EMPTY, NO_DBD, "UNKNOWN", ""),
        (OLD, UNREACHED, RUNNING, "RUNNING", "from sacct, may be out of date; squeue cannot reach"),
        ({"age_s": 1}, EMPTY, RUNNING, "RUNNING", ""),
        ({"age_s": CONFIRM_S + 1}, EMPTY, RUNNING, "lost", "slurmctld no longer has the job"),
        (OLD | {"ran": True}, EMPTY, EMPTY, "lost", "squeue and sacct no longer list it"),
        (OLD | {"ran": True}, EMPTY, A_PLAIN_JOB, "lost", "no longer list it"),
        (CUT | {"age_s": 1}, EMPTY, EMPTY, "UNKNOWN", "do not submit it again yet"),
        (
            CUT | {"age_s": FAR_CONFIRM_S - 1},
            EMPTY,
            EMPTY,
            "UNKNOWN",
            "its submission was interrupted",
        ),
        (
            CUT | {"age_s": FAR_CONFIRM_S},
            EMPTY,
            EMPTY,
            "NOT_SUBMITTED",
            "before Slurm accepted the job",
        ),
        (CUT | OLD | {"ran": True}, EMPTY, EMPTY, "lost", "no longer list it"),
        ({"age_s": 1}, EMPTY, EMPTY, "UNKNOWN", "Slurm does not list it yet"),
        (OLD, EMPTY, NO_ACCOUNTS, "lost", "squeue no longer lists it"),
    ],
)
def test_what_is_known_of_a_job(
    tmp_path: Path,
    entry: dict[str, Any],
    squeue: Answer | None,
    sacct: Answer | None,
    *,
    state: str,
    says: str,
) -> None:
    """It follows from who answers, what is listed, and the age of the submission, of elsewhere."""
    answers = {"squeue": squeue, "sacct": sacct}
    runner = ScriptedRunner(
        lambda _: None, **{name: [one] for name, one in answers.items() if one is not None}
    )
    (status,) = asked(runner, [an_entry(tmp_path, **entry)])
    assert status.state is (JobState.UNKNOWN if state == "lost" else JobState(state))
    assert status.is_lost == (state == "lost")
    assert says in str(status.reason)


@pytest.mark.parametrize("source", ["squeue", "sacct"])
def test_a_cut_submission_is_found_by_its_uuid(tmp_path: Path, source: str) -> None:
    """A submission without an id gets that of the job whose script has its uuid."""
    entry = replace(an_entry(tmp_path, 9, confirmed=False), created_s=FakeClock().now_s())
    queue = said(in_queue(9, "RUNNING")) if source == "squeue" else EMPTY
    runner = ScriptedRunner(squeue=[queue], sacct=[said(in_accounts(9, "COMPLETED"))])
    (status,) = asked(runner, [entry])
    assert status.job_id == "9"
    assert status.state is (JobState.RUNNING if source == "squeue" else JobState.COMPLETED)


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
    assert (status.state, status.reason) == (JobState.UNKNOWN, "submission in progress")


def test_each_cluster_is_asked_for_its_own(tmp_path: Path) -> None:
    """Jobs of a named cluster are asked about there, those of none without a name."""
    north = replace(an_entry(tmp_path, 2), cluster="north")
    runner = ScriptedRunner(squeue=[said(in_queue(1, "RUNNING")), said(in_queue(2, "RUNNING"))])
    statuses = asked(runner, [an_entry(tmp_path, 1), north])
    assert [status.cluster for status in statuses] == [None, "north"]
    assert "--clusters=north" in runner.asked[1]
    assert not any(word.startswith("--clusters") for word in runner.asked[0])


def test_thousands_of_ids_are_several_questions(tmp_path: Path) -> None:
    """An argument holds 128 KiB at most: sacct is asked for a thousand jobs at a time."""
    runner = ScriptedRunner(sacct=[said(in_accounts(1, "COMPLETED")), EMPTY, EMPTY])
    clock = FakeClock()
    ids = [JobId(str(number)) for number in range(1, 2002)]
    found = SlurmCli(runner, clock).accounts(ids, None)
    assert found is not None
    assert [record.job_id for record in found] == ["1"]
    assert runner.programs == ["sacct"] * 3


def test_a_script_that_was_submitted_again_is_another_job(tmp_path: Path) -> None:
    """A confirmed job keeps its id when its script runs once more under another."""
    again = row("8", "RUNNING", "None", *("2026-11-21T06:00:00",) * 2, "c1", "x").replace(
        "x", f"/jobs/{submission_file(uuid_of(1))}"
    )
    first = in_queue(1, "COMPLETED")
    (status,) = asked(ScriptedRunner(squeue=[said(first + again)]), [an_entry(tmp_path)])
    assert (status.job_id, status.state) == ("1", JobState.COMPLETED)
    unconfirmed = replace(an_entry(tmp_path / "2"), job_id=JobId("U00000000"))
    (status,) = asked(ScriptedRunner(squeue=[said(again + first)]), [unconfirmed])
    assert status.job_id == "1"


def array_of(entry: JobEntry, expression: str) -> JobEntry:
    """The job as an array of these tasks."""
    document = {"job": {"slurm": {"array": expression}}}
    (Path(entry.folder) / "effective.json").write_text(json.dumps(document))
    return entry


def test_an_array_has_not_completed_while_a_task_is_untold(tmp_path: Path) -> None:
    """Slurm forgets ended tasks: without the accounts, the rest does not speak for them."""
    queue = said(in_queue(1, "COMPLETED", task="_1"))
    for answer, is_lost in ((NO_DBD, False), (NO_ACCOUNTS, True)):
        entry = array_of(an_entry(tmp_path / str(is_lost)), "0-1")
        (status,) = asked(ScriptedRunner(squeue=[queue], sacct=[answer]), [entry])
        assert (status.state, status.is_lost) == (JobState.UNKNOWN, is_lost)
        assert "not listed: 0" in str(status.reason)


def test_a_task_that_never_began_did_not_complete(tmp_path: Path) -> None:
    """Where the accounts have no record of a task, it was cancelled before it began."""
    entry = array_of(an_entry(tmp_path), "0-2%1")
    queue = in_queue(1, "COMPLETED", task="_0") + in_queue(1, "COMPLETED", task="_1")
    (status,) = asked(ScriptedRunner(squeue=[said(queue)], sacct=[EMPTY]), [entry])
    assert (status.state, status.exit_code) == (JobState.CANCELLED, None)
    assert "not listed: 2 (never started)" in str(status.reason)


def test_a_task_that_ended_is_missed_while_others_run(tmp_path: Path) -> None:
    """While the array lives, tasks that Slurm no longer lists are named."""
    entry = array_of(an_entry(tmp_path), "0-2")
    queue = said(in_queue(1, "RUNNING", task="_2"))
    (status,) = asked(ScriptedRunner(squeue=[queue], sacct=[EMPTY]), [entry])
    assert status.state is JobState.RUNNING
    assert status.reason == "tasks: 1 RUNNING; not listed: 0-1"


def test_one_question_that_fails_does_not_hide_the_other(tmp_path: Path) -> None:
    """A refusal of the search by time leaves what is known of jobs by their ids."""
    known, cut = an_entry(tmp_path, 1), an_entry(tmp_path, 2, confirmed=False, age_s=1e6)
    refused = said(code=1, stderr="sacct: error: slurmdbd: Request is too wide\n")
    runner = ScriptedRunner(squeue=[EMPTY], sacct=[said(in_accounts(1, "COMPLETED")), refused])
    done, unknown = asked(runner, [known, cut])
    assert done.state is JobState.COMPLETED
    assert (unknown.state, unknown.is_lost) == (JobState.UNKNOWN, False)
    assert unknown.reason == "sacct failed: slurmdbd: Request is too wide"


def test_components_end_as_each_of_them_recorded(tmp_path: Path) -> None:
    """Slurm ends all components as the script does: what each left in its folder is shown."""
    entry = an_entry(tmp_path)
    folder = Path(entry.folder)
    names = ["server", "client", "other"]
    (folder / "intent.json").write_text(
        json.dumps({"schema": "hpckit.intent/1", "components": names})
    )
    for name, end in (("server", "0 asked"), ("client", "200")):
        (folder / "components" / name).mkdir(parents=True)
        (folder / "components" / name / "end-0").write_text(f"{end}\n")
    lines = "".join(in_queue(1, "RUNNING", task=f"+{number}") for number in range(3))
    (status,) = asked(ScriptedRunner(squeue=[said(lines)]), [entry])
    ends = [(one.job_id, one.state, one.exit_code) for one in status.components]
    assert ends == [
        ("1+0", JobState.CANCELLED, 0),
        ("1+1", JobState.FAILED, 200),
        ("1+2", JobState.RUNNING, None),
    ]
    assert status.components[0].reason == "stopped when the other components ended"
    component = replace(entry, job_id=JobId("1+1"), folder=str(folder / "components" / "client"))
    (alone,) = asked(ScriptedRunner(squeue=[said(lines)]), [component])
    assert (alone.state, alone.exit_code) == (JobState.FAILED, 200)


def test_slurms_new_word_is_told(tmp_path: Path) -> None:
    """A state that hpckit does not know is UNKNOWN and quoted."""
    (status,) = asked(ScriptedRunner(squeue=[said(in_queue(1, "DREAMING"))]), [an_entry(tmp_path)])
    assert (status.state, status.raw) == (JobState.UNKNOWN, "DREAMING")
    assert '"DREAMING"' in str(status.reason)


@pytest.mark.parametrize(("there", "here", "told"), [
    ("north", "south", "it belongs to cluster north: run this command there"),
    (None, "south", "unknown on this host: it was submitted on login9, ask there"),
    ("south", "south", None),
])  # fmt: skip
def test_another_clusters_silence_decides_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: str | None, here: str, told: str | None
) -> None:
    """A host that shares the home folder but not the Slurm does not declare a job dead."""
    (tmp_path / "slurm.conf").write_text(f"# x\nClusterName={here}\n")
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    entry = an_entry(tmp_path, confirmed=False, age_s=1e6)
    intent = {"schema": "hpckit.intent/1", "submitter_host": "login9", "slurm_cluster": there}
    (Path(entry.folder) / "intent.json").write_text(json.dumps(intent))
    (status,) = asked(ScriptedRunner(squeue=[EMPTY], sacct=[EMPTY]), [entry])
    expected = JobState.NOT_SUBMITTED if told is None else JobState.UNKNOWN
    assert status.state is expected
    assert told is None or status.reason == told


def test_a_code_above_127_is_whole(tmp_path: Path) -> None:
    """The accounts take 128 from such a code; the rank that failed first has left it whole."""
    for number, (left, code) in enumerate([("200 3\n", 200), ("72 0\n", 72), ("9 0\n", 72)], 1):
        entry = an_entry(tmp_path, number)
        (Path(entry.folder) / "logs" / "failed-0").write_text(left)
        runner = ScriptedRunner(
            squeue=[said(in_queue(number, "FAILED"))],
            sacct=[said(in_accounts(number, "FAILED", "72:0"))],
        )
        assert asked(runner, [entry])[0].exit_code == code
