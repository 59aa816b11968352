"""The answer of sacct."""

from __future__ import annotations

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.sacct import parse_sacct, parse_sacct_energy, sacct_argv, sacct_since_argv
from hpckit.slurm.text import SEPARATOR
from hpckit.slurm.values import JobId, JobState
from tests.fakes.slurm_records import UUID, job, record_text, tasks

LINE = SEPARATOR.join(
    ("4242", "COMPLETED", "0:0", "Unknown", "Unknown", "n1", "None", "sbatch a.sh")
)

SAME_IDS = {
    "completed": "1",
    "failed": "2",
    "submission": "3",
    "cancelled": "5",
    "array": "10",
    "waiting": "11",
    "newlines": "14",
    "killed": "15",
    "ended": "16",
}
IDS = {
    "sacct-22.05.8": SAME_IDS,
    "sacct-24.11.5": {
        "completed": "7",
        "failed": "8",
        "submission": "9",
        "cancelled": "11",
        "array": "16",
        "waiting": "17",
        "newlines": "20",
        "killed": "21",
        "ended": "22",
    },
    "sacct-26.05.5": SAME_IDS,
}
WAITING = [5, 8, 11, 14, 17]


def test_the_question_for_jobs() -> None:
    """One question is for many jobs; `--array`, which 22.05 does not know, is not in it."""
    argv = sacct_argv([JobId("1"), JobId("2")], None)
    assert argv[0] == "sacct"
    assert "--jobs=1,2" in argv
    assert "--delimiter=\x1f" in argv
    assert "--array" not in argv
    assert "--clusters=north" in sacct_argv([JobId("1")], "north")


def test_the_question_since_a_time() -> None:
    """The time is UTC, the window ends after now, and each state is asked for."""
    argv = sacct_since_argv("alice", 0.9, "north")
    assert {"--user=alice", "--starttime=1970-01-01T00:00:00", "--endtime=now+1hour"} <= set(argv)
    (states,) = (word for word in argv if word.startswith("--state="))
    assert {"PENDING", "RUNNING", "CANCELLED"} <= set(states.removeprefix("--state=").split(","))


@pytest.mark.parametrize(("version", "names"), IDS.items())
def test_jobs_that_ended(version: str, names: dict[str, str]) -> None:
    """Each way to end has its state and the script's own code."""
    records = parse_sacct(record_text(version, "jobs"))
    ends = {
        name: (r.state, r.exit_code, r.exit_signal)
        for name in ("completed", "failed", "cancelled", "killed", "ended")
        for r in (job(records, names[name]),)
    }
    assert ends == {
        "completed": (JobState.COMPLETED, 0, None),
        "failed": (JobState.FAILED, 7, None),
        "cancelled": (JobState.CANCELLED, None, None),
        "killed": (JobState.FAILED, 137, 9),
        "ended": (JobState.FAILED, 143, 15),
    }


@pytest.mark.parametrize(("version", "names"), IDS.items())
def test_who_cancelled_is_kept(version: str, names: dict[str, str]) -> None:
    """The state is kept as it was printed."""
    cancelled = job(parse_sacct(record_text(version, "jobs")), names["cancelled"])
    assert cancelled.raw == "CANCELLED by 1001"


@pytest.mark.parametrize(("version", "names"), IDS.items())
def test_a_submission_is_found_in_the_submit_line(version: str, names: dict[str, str]) -> None:
    """The submission's uuid is in the script's name, for tasks of an array too."""
    records = parse_sacct(record_text(version, "jobs"))
    task = job(records, names["array"], 3)
    assert job(records, names["submission"]).submission == task.submission == UUID
    assert job(records, names["completed"]).submission is None


@pytest.mark.parametrize(("version", "names"), IDS.items())
def test_a_submit_line_may_hold_newlines(version: str, names: dict[str, str]) -> None:
    """Lines that begin no record belong to the submit line before them."""
    records = parse_sacct(record_text(version, "jobs"))
    lines = record_text(version, "jobs").count("\x1f") // 7
    assert len(records) == lines + len(WAITING) - 1
    assert job(records, names["newlines"]).state is JobState.RUNNING


@pytest.mark.parametrize(("version", "names"), IDS.items())
def test_tasks_that_wait_are_told_apart(version: str, names: dict[str, str]) -> None:
    """Tasks that sacct lists as one are one record each."""
    assert tasks(parse_sacct(record_text(version, "jobs")), names["waiting"]) == WAITING


@pytest.mark.parametrize(("version", "names"), IDS.items())
def test_why_a_job_once_waited_is_no_reason_for_its_end(
    version: str, names: dict[str, str]
) -> None:
    """The reason of a job that ran is why it waited before, so it is left out."""
    text = record_text(version, "jobs")
    assert "JobArrayTaskLimit" in text
    assert job(parse_sacct(text), names["array"], 3).reason is None


@pytest.mark.parametrize("version", ["sacct-24.11.5", "sacct-26.05.5"])
def test_a_requeue_is_a_record_of_its_own(version: str) -> None:
    """The records of one id are oldest first."""
    records = parse_sacct(record_text(version, "requeued"))
    assert [record.state for record in records] == [JobState.REQUEUED, JobState.RUNNING]
    assert len({record.job_id for record in records}) == 1


@pytest.mark.parametrize("version", ["sacct-24.11.5", "sacct-26.05.5"])
def test_a_timeout_has_no_code(version: str) -> None:
    """A job that ran into its limit has no code of its own."""
    (record,) = parse_sacct(record_text(version, "timeout"))
    assert (record.state, record.exit_code) == (JobState.TIMEOUT, None)


def test_a_job_that_never_ran_has_no_code() -> None:
    """Slurm records 1:0 for a job that it refused; no script ended with it."""
    records = parse_sacct(record_text("sacct-24.11.5", "never-ran"))
    assert [(r.started_s, r.exit_code) for r in records] == [(None, None)] * 3


def test_rare_endings() -> None:
    """Out of memory, a lost node and a deadline have no code; a new word is kept."""
    records = parse_sacct(record_text("sacct-22.05.8", "synthetic-endings"))
    assert job(records, "1").exit_code is None
    assert (job(records, "2").exit_code, job(records, "2").exit_signal) == (143, 15)
    assert job(records, "3").exit_code is None
    assert job(records, "5").reason == "DeadLine"
    assert (job(records, "6").state, job(records, "6").raw) == (JobState.UNKNOWN, "SOMETHING_NEW")
    assert tasks(records, "7") == [None]
    assert job(records, "8").submission is None


@pytest.mark.parametrize(
    "text",
    ["banner", LINE.replace("4242", "4242.batch"), LINE.replace("0:0", "0"), "7|COMPLETED|0:0"],
)
def test_what_is_not_understood_is_an_error(text: str) -> None:
    """The error names the line."""
    with pytest.raises(ParseError) as caught:
        parse_sacct(text)
    assert (caught.value.tool, caught.value.line_no) == ("sacct", 1)


@pytest.mark.parametrize(
    ("words", "joules"),
    [
        (["5600"], 5600.0),
        (["5600", "400"], 6000.0),
        (["0"], None),
        ([""], None),
        (["18446744073709551614"], None),
        ([], None),
    ],
)
def test_energy_of_all_incarnations(words: list[str], joules: float | None) -> None:
    """The records of a job that was requeued add up; 0, nothing and NO_VAL64 are no energy."""
    text = "".join(f"7{SEPARATOR}{word}\n" for word in words)
    assert parse_sacct_energy(text) == joules


def test_an_energy_that_is_no_number() -> None:
    """Words in its place are refused."""
    with pytest.raises(ParseError, match="joules"):
        parse_sacct_energy(f"7{SEPARATOR}5.6K\n")
