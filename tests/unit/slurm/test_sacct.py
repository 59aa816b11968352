"""The answers of sacct, as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.sacct import (
    parse_sacct,
    parse_sacct_energy,
    parse_sacct_json,
    sacct_argv,
    sacct_json_argv,
    sacct_since_argv,
)
from hpckit.slurm.text import SEPARATOR
from hpckit.slurm.values import JobDetail, JobId, JobRecord, JobState
from tests.fakes.slurm_records import RECORDS, UUID, job, record_text, tasks

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


OLD = "sacct-json-22.05.8"
NEW = ["sacct-json-24.11.5", "sacct-json-26.05.5"]
VERSIONS = [OLD, *NEW]
CAPTURES = [
    (version, case.name)
    for version in VERSIONS
    for case in sorted((RECORDS / version).iterdir())
    if case.name != "whole-code"
]


def only(version: str, case: str) -> JobDetail:
    """The one detail of a capture."""
    (detail,) = parse_sacct_json(record_text(version, case))
    return detail


def as_json_says(record: JobRecord, version: str) -> JobRecord:
    """A record of the text without what the JSON of that version leaves out."""
    known = replace(record, raw=record.raw.split(" by ", 1)[0])
    if version != OLD:
        return known
    lost = known.state is JobState.FAILED and known.exit_signal is None
    return replace(known, submission=None, exit_code=None if lost else known.exit_code)


def in_order(records: Sequence[JobRecord]) -> list[JobRecord]:
    """Records by their task: 22.05 has its own order in JSON."""
    return sorted(records, key=lambda record: record.task_index or 0)


def job_json(**changes: object) -> str:
    """An answer with one job of this kind."""
    job = {"job_id": 7, "state": {"current": ["FAILED"]}, "nodes": "n1", **changes}
    return json.dumps({"jobs": [job]})


def test_the_question() -> None:
    """The question is for one job, with each of its runs, in the release's own shape."""
    argv = ("sacct", "--json", "--duplicates", "--jobs=7")
    assert sacct_json_argv(JobId("7"), None) == argv
    assert "--clusters=north" in sacct_json_argv(JobId("7"), "north")


@pytest.mark.parametrize(("version", "case"), CAPTURES)
def test_text_and_json_give_the_same_record(version: str, case: str) -> None:
    """Whatever was asked for, hpckit says the same of a job."""
    text = (RECORDS / version / case / "sacct.txt").read_text()
    from_text = [as_json_says(record, version) for record in parse_sacct(text)]
    details = parse_sacct_json(record_text(version, case))
    assert in_order([detail.record for detail in details]) == in_order(from_text)


@pytest.mark.parametrize(("version", "in_text"), list(zip(NEW, (72, 200), strict=True)))
def test_a_code_above_127_is_whole(version: str, in_text: int) -> None:
    """24.11 takes 128 from such a code in text, and not in JSON; 26.05 in neither."""
    (from_text,) = parse_sacct((RECORDS / version / "whole-code" / "sacct.txt").read_text())
    detail = only(version, "whole-code")
    assert from_text.exit_code == in_text
    assert (detail.record.exit_code, detail.steps[0].exit_code) == (200, 200)


@pytest.mark.parametrize("version", VERSIONS)
def test_what_a_job_was_given(version: str) -> None:
    """Memory is in MiB, GPUs have their type's own count as well."""
    detail = only(version, "two-nodes")
    assert (detail.partition, detail.account, detail.qos) == ("main", "proj1", "normal")
    assert detail.tres_allocated == {
        "cpu": 2,
        "mem_mib": 4096,
        "node": 2,
        "billing": 2,
        "gres/gpu": 4,
        "gres/gpu:h100": 4,
    }


@pytest.mark.parametrize("version", NEW)
def test_each_step_has_its_end(version: str) -> None:
    """Which step failed, how and where is told."""
    steps = only(version, "two-nodes").steps
    assert [(s.step_id, s.state, s.exit_code, s.exit_signal, s.nodelist) for s in steps] == [
        ("batch", JobState.FAILED, 7, None, "c3"),
        ("extern", JobState.COMPLETED, 0, None, "c[3-4]"),
        ("0", JobState.COMPLETED, 0, None, "c[3-4]"),
        ("1", JobState.FAILED, 7, None, "c[3-4]"),
        ("2", JobState.CANCELLED, 137, 9, "c3"),
    ]


def test_22_05_has_no_codes() -> None:
    """22.05 prints 0 for the code of a step that failed with 7; a signal it prints."""
    text = record_text(OLD, "two-nodes")
    assert '"return_code":7' not in text
    steps = only(OLD, "two-nodes").steps
    assert [(s.step_id, s.state, s.exit_code, s.exit_signal) for s in steps] == [
        ("batch", JobState.FAILED, None, None),
        ("extern", JobState.COMPLETED, 0, None),
        ("0", JobState.COMPLETED, 0, None),
        ("1", JobState.FAILED, None, None),
        ("2", JobState.CANCELLED, 137, 9),
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_step_has_its_name_and_times(version: str) -> None:
    """A name of any characters is kept, and the times are a job's."""
    detail = only(version, "two-nodes")
    assert [step.name for step in detail.steps] == ["batch", "extern", "bash", "bash", 'a "b" |c']
    started_s, ended_s = detail.record.started_s, detail.record.ended_s
    assert (detail.steps[0].started_s, detail.steps[0].ended_s) == (started_s, ended_s)


@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_that_never_ran(version: str) -> None:
    """It has no steps, no start and nothing was given to it."""
    detail = only(version, "cancelled-pending")
    assert (detail.record.started_s, detail.steps, detail.tres_allocated) == (None, (), {})


@pytest.mark.parametrize("version", VERSIONS)
def test_each_run_of_a_requeued_job(version: str) -> None:
    """Each run is a detail, oldest first; a step that runs has no end."""
    first, second = parse_sacct_json(record_text(version, "requeued"))
    assert (first.record.state, second.record.state) == (JobState.REQUEUED, JobState.RUNNING)
    assert (first.restarts, second.restarts) == ((None, None) if version == OLD else (0, 1))
    assert {(step.state, step.ended_s) for step in second.steps} == {(JobState.RUNNING, None)}


def test_no_job_is_no_detail() -> None:
    """22.05 calls it an error that there is no such job, and ends with 0."""
    assert parse_sacct_json('{"errors": [{"error_number": 9003}], "jobs": []}') == ()


def test_a_word_of_a_later_version_is_kept() -> None:
    """A state that is not known is UNKNOWN; beside one that is known, it is only kept."""
    (new,) = parse_sacct_json(job_json(state={"current": ["BRAND_NEW"]}))
    (added,) = parse_sacct_json(job_json(state={"current": ["FAILED", "BRAND_NEW"]}))
    assert (new.record.state, new.record.raw) == (JobState.UNKNOWN, "BRAND_NEW")
    assert (added.record.state, added.record.raw) == (JobState.FAILED, "FAILED BRAND_NEW")


def test_numbers_in_either_shape() -> None:
    """A number, one in an object, one that is not set and Slurm's mark for none."""
    endings = [9, {"set": True, "infinite": False, "number": 9}]
    killed = [job_json(exit_code={"signal": {"id": number}}) for number in endings]
    assert {parse_sacct_json(text)[0].record.exit_signal for text in killed} == {9}
    for none in (None, {"set": False, "infinite": False, "number": 5}, 0xFFFFFFFE, 2**64 - 2):
        (detail,) = parse_sacct_json(job_json(restart_cnt=none))
        assert detail.restarts is None


def test_an_out_of_memory_kill_has_no_code() -> None:
    """Slurm's own mark 125 is no signal of the script's."""
    marked = {"signal": {"id": {"set": True, "number": 125}}}
    (detail,) = parse_sacct_json(
        job_json(
            state={"current": ["OUT_OF_MEMORY"]},
            exit_code=marked,
            steps=[{"step": {"id": "7.batch"}, "state": ["OUT_OF_MEMORY"], "exit_code": marked}],
        )
    )
    (step,) = detail.steps
    assert (step.step_id, step.state, step.exit_code) == ("batch", JobState.OUT_OF_MEMORY, None)
    assert detail.record.exit_code is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sacct: error",
        "[]",
        "{}",
        '{"jobs": [{"job_id": "7"}]}',
        job_json(job_id=0),
        job_json(state={"current": 3}),
        job_json(array={"job_id": 7, "task": "0xg"}),
        job_json(array={"job_id": 7, "task": "5]|"}),
        job_json(exit_code={"return_code": 4242}),
        job_json(steps=[{"state": "FAILED"}]),
        "[" * 100_000,
        '{"jobs": "\ud800"}',
    ],
)
def test_what_is_not_understood_is_an_error_of_json(text: str) -> None:
    """The error names the tool."""
    with pytest.raises(ParseError) as caught:
        parse_sacct_json(text)
    assert caught.value.tool == "sacct --json"
