"""The answer of squeue."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from hpckit.core.errors import ParseError
from hpckit.slurm.squeue import parse_squeue, squeue_argv
from hpckit.slurm.text import SEPARATOR
from hpckit.slurm.values import JobState
from tests.fakes.slurm_records import UUID, job, record_text, tasks

VERSIONS = ["squeue-22.05.8", "squeue-24.11.5", "squeue-26.05.5"]
LINE = SEPARATOR.join(("4242", "RUNNING", "None", "N/A", "N/A", "n1", "/a b/job.sbatch"))


def utc_s(text: str) -> float:
    """Seconds since the epoch of a time in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


def test_the_question() -> None:
    """One question is for the caller's own jobs in every state, on one cluster."""
    fields = "--format=%i\x1f%T\x1f%r\x1f%S\x1f%e\x1f%N\x1f%o"
    asked = ("squeue", "--me", "--noheader", "--states=all")
    assert squeue_argv("north") == (*asked, "--clusters=north", fields)
    assert squeue_argv(None) == (*asked, fields)


def test_nothing_is_no_jobs() -> None:
    """An empty answer is no jobs."""
    assert parse_squeue("") == parse_squeue("\n") == ()


def test_a_job_that_waits_22_05() -> None:
    """A waiting job has its expected start and reason, no start and no end."""
    waiting = job(parse_squeue(record_text("squeue-22.05.8", "jobs")), "6")
    assert (waiting.state, waiting.reason) == (JobState.PENDING, "Resources")
    assert waiting.expected_start_s == utc_s("2026-11-22T06:49:20")
    assert (waiting.started_s, waiting.ended_s, waiting.nodelist) == (None, None, None)
    assert waiting.submission == UUID


def test_a_job_that_runs_22_05() -> None:
    """The end of a running job is its limit's, so it is not taken."""
    running = job(parse_squeue(record_text("squeue-22.05.8", "jobs")), "3")
    assert (running.state, running.reason, running.nodelist) == (JobState.RUNNING, None, "n1")
    assert (running.started_s, running.ended_s) == (utc_s("2026-11-21T06:49:14"), None)


@pytest.mark.parametrize(("version", "failed"), list(zip(VERSIONS, ("2", "8", "2"), strict=True)))
def test_a_job_that_failed(version: str, failed: str) -> None:
    """A failed job has both times and Slurm's word; its code is not in squeue."""
    record = job(parse_squeue(record_text(version, "jobs")), failed)
    assert (record.state, record.reason) == (JobState.FAILED, "NonZeroExitCode")
    assert record.started_s is not None
    assert record.ended_s is not None
    assert record.exit_code is None


@pytest.mark.parametrize("version", VERSIONS)
def test_a_job_that_never_had_a_node_never_started(version: str) -> None:
    """Slurm prints a start for a job that was refused; without nodes it is none."""
    records = [
        r for r in parse_squeue(record_text(version, "jobs")) if r.reason == "BadConstraints"
    ]
    assert records
    assert {(r.state, r.started_s, r.nodelist) for r in records} == {(JobState.FAILED, None, None)}


@pytest.mark.parametrize(
    ("version", "array", "count"),
    [(VERSIONS[0], "9", 8), (VERSIONS[1], "16", 8), (VERSIONS[2], "10", 8)],
)
def test_each_task_of_an_array_is_a_record(version: str, array: str, count: int) -> None:
    """Tasks that ended and tasks that wait have the array's id and their own index."""
    records = parse_squeue(record_text(version, "jobs"))
    assert sorted(map(str, tasks(records, array))) == [str(index) for index in range(count)]


def test_collapsed_tasks_are_told_apart() -> None:
    """Tasks that squeue lists as one are one record each."""
    assert tasks(parse_squeue(record_text("squeue-26.05.5", "jobs")), "11") == [5, 8, 11, 14, 17]
    records = parse_squeue(record_text("squeue-22.05.8", "arrays-collapsed"))
    assert tasks(records, "10") == [5, 8, 11, 14, 17]
    assert tasks(records, "11") == list(range(0, 61, 2))
    assert tasks(records, "9")[4:] == [4, 5, 6, 7]


def test_a_list_of_tasks_that_is_cut_short_is_one_record() -> None:
    """Tasks that cannot be told apart are one record without an index."""
    for cut in ("4242_[1,3,...]", "4242_[1,3,5,7,9,11,13,15,17,1"):
        assert tasks(parse_squeue(LINE.replace("4242", cut)), "4242") == [None]


@pytest.mark.parametrize(
    ("version", "leader"), list(zip(VERSIONS, ("16", "23", "17"), strict=True))
)
def test_components_of_a_heterogeneous_job_keep_their_ids(version: str, leader: str) -> None:
    """A component is a job of its own."""
    records = parse_squeue(record_text(version, "jobs"))
    nodes = [job(records, f"{leader}+{component}").nodelist for component in (0, 1)]
    assert nodes in (["n1", "n2"], ["c1", "c2"], ["c2", "c3"])


def test_an_argument_may_hold_a_newline() -> None:
    """A line that begins no record belongs to the command before it."""
    records = parse_squeue(record_text("squeue-22.05.8", "jobs"))
    assert [r.job_id for r in records].count(job(records, "13").job_id) == 1
    assert len(records) == 32


def test_a_requeued_job_waits_again() -> None:
    """A requeued job has no start until it runs again."""
    (held,) = parse_squeue(record_text("squeue-22.05.8", "requeued-held"))
    (again,) = parse_squeue(record_text("squeue-24.11.5", "requeued"))
    (latest,) = parse_squeue(record_text("squeue-26.05.5", "requeued"))
    assert (latest.reason, latest.started_s) == ("BeginTime", None)
    assert latest.expected_start_s == utc_s("2026-11-21T10:16:13")
    assert (held.state, held.reason) == (JobState.PENDING, "job requeued in held state")
    assert (again.reason, again.started_s) == ("BeginTime", None)
    assert again.expected_start_s == utc_s("2026-11-21T06:52:44")


def test_a_clusters_heading_is_no_job() -> None:
    """The heading of `-M` is understood."""
    assert len(parse_squeue(f"CLUSTER: north\n{LINE}\n\nCLUSTER: south\n{LINE}\n")) == 2


def test_a_word_of_a_later_version_is_kept() -> None:
    """A state that is not known is UNKNOWN, with the word."""
    (record,) = parse_squeue(LINE.replace("RUNNING", "BRAND_NEW"))
    assert (record.state, record.raw) == (JobState.UNKNOWN, "BRAND_NEW")


@pytest.mark.parametrize(
    ("text", "line_no"),
    [
        ("job 7 will be charged\n" + LINE, 1),
        (LINE + "\n" + LINE.replace("4242", "job"), 2),
        (LINE.replace("N/A", "soon"), 1),
        ("\n" + LINE.replace("4242", "0"), 2),
        (LINE.replace("4242", "4242.batch"), 1),
    ],
)
def test_what_is_not_understood_is_an_error(text: str, line_no: int) -> None:
    """The error names the line."""
    with pytest.raises(ParseError) as caught:
        parse_squeue(text)
    assert (caught.value.tool, caught.value.line_no) == ("squeue", line_no)
