"""Jobs are waited for, seldom asked about, and given up only when nobody knows them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from hpckit.jobs.track import LOST_LIMIT_S, UNKNOWN_LIMIT_S, TrackTools, pause_s, wait_for
from hpckit.slurm.values import JobEntry, JobState, JobStatus
from tests.fakes.clock import FakeClock
from tests.fakes.job_index import TemporaryJobIndex
from tests.fakes.submitter import FakeSubmitter
from tests.fakes.tracked import LOST, RUNS, UNSEEN, ToldSubmitter, intended, running
from tests.fakes.world import entry_of, tracking


def wait(
    entries: Sequence[JobEntry],
    tools: TrackTools,
    *,
    poll_interval_s: float,
    back_off: bool = False,
    timeout_s: float | None = None,
) -> Sequence[JobStatus]:
    """What waiting gives when nobody looks on."""
    return wait_for(
        entries,
        tools,
        poll_interval_s=poll_interval_s,
        back_off=back_off,
        timeout_s=timeout_s,
        progress=lambda _statuses, _waited_s: None,
    )


def test_waiting_ends_with_the_job(tmp_path: Path) -> None:
    """Each poll says how long was waited, and the final status is given and remembered."""
    index, submitter = TemporaryJobIndex(), FakeSubmitter()
    entry = running(submitter, tmp_path / "a")
    index.add(entry)
    waited: list[float] = []

    def progress(statuses: Sequence[JobStatus], waited_s: float) -> None:
        assert [status.state for status in statuses] == [JobState.RUNNING]
        waited.append(waited_s)
        if waited_s >= 200:
            submitter.end(tmp_path / "a", 3)

    (status,) = wait_for(
        [entry],
        tracking(submitter, index),
        poll_interval_s=100.0,
        back_off=False,
        progress=progress,
    )
    assert (status.state, status.exit_code) == (JobState.FAILED, 3)
    assert waited == [0.0, 100.0, 200.0]
    assert index.find("Laa")[0].exit_code == 3


def test_waiting_ends_at_its_own_limit(tmp_path: Path) -> None:
    """When the time is over, the last status is given though the job runs on."""
    submitter, clock = FakeSubmitter(), FakeClock()
    entry = running(submitter, tmp_path / "a")
    (status,) = wait([entry], tracking(submitter, clock=clock), poll_interval_s=1.0, timeout_s=2.5)
    assert status.state is JobState.RUNNING
    assert clock.slept_s == [1.0, 1.0, 0.5]


def test_only_open_jobs_are_asked_about(tmp_path: Path) -> None:
    """Several jobs are one question, and a job that has ended is not asked about again."""
    submitter = FakeSubmitter()
    entries = [running(submitter, tmp_path / name, name) for name in ("La", "Lb", "Lc")]
    ends = iter(["Lb", "La", "Lc"])

    def progress(statuses: Sequence[JobStatus], _waited_s: float) -> None:
        assert len(statuses) == 3
        submitter.end(tmp_path / next(ends), 0)

    statuses = wait_for(
        entries, tracking(submitter), poll_interval_s=1.0, back_off=False, progress=progress
    )
    assert submitter.asked == [["La", "Lb", "Lc"], ["La", "Lb", "Lc"], ["La", "Lc"], ["Lc"]]
    assert [(status.job_id, status.state) for status in statuses] == [
        (name, JobState.COMPLETED) for name in ("La", "Lb", "Lc")
    ]


def test_a_job_is_waited_for_under_its_confirmed_id(tmp_path: Path) -> None:
    """Once an id is confirmed, the next question is about that id."""
    entry = entry_of("U0000cafe", tmp_path / "a")
    intended(entry)
    submitter = ToldSubmitter(RUNS, replace(RUNS, state=JobState.COMPLETED))
    wait([entry], tracking(submitter), poll_interval_s=1.0)
    assert submitter.asked == [["U0000cafe"], ["4242"]]


@pytest.mark.parametrize(("answer", "limit_s"), [(UNSEEN, UNKNOWN_LIMIT_S), (LOST, LOST_LIMIT_S)])
def test_waiting_gives_up_on_a_job_that_nobody_knows(answer: JobStatus, limit_s: float) -> None:
    """An hour without an answer, or a minute of a lost job, ends the waiting."""
    clock = FakeClock()
    entry = entry_of("4242", Path("/jobs/a"))
    (status,) = wait([entry], tracking(ToldSubmitter(answer), clock=clock), poll_interval_s=7.0)
    assert (status.state, status.reason) == (JobState.UNKNOWN, answer.reason)
    assert limit_s <= sum(clock.slept_s) < limit_s + 7


@pytest.mark.parametrize(("answer", "times"), [(UNSEEN, 59), (LOST, 5)])
def test_what_is_unknown_for_a_while_is_waited_out(answer: JobStatus, times: int) -> None:
    """When the answer comes back within the limit, waiting goes on, and the limit begins anew."""
    gone = [answer] * times
    done = replace(RUNS, state=JobState.COMPLETED)
    submitter = ToldSubmitter(RUNS, *gone, RUNS, *gone, done)
    poll_interval_s = 60.0 if answer is UNSEEN else 10.0
    (status,) = wait(
        [entry_of("4242", Path("/jobs/a"))],
        tracking(submitter),
        poll_interval_s=poll_interval_s,
    )
    assert status.state is JobState.COMPLETED


def test_a_lost_job_is_given_up_when_the_others_have_ended(tmp_path: Path) -> None:
    """While another job runs a lost one is kept; a minute after that one's end waiting ends."""
    submitter, clock = FakeSubmitter(), FakeClock()
    runs = running(submitter, tmp_path / "a")
    begun_s = clock.now_s()

    def progress(_statuses: Sequence[JobStatus], waited_s: float) -> None:
        if waited_s == 600.0:
            submitter.end(tmp_path / "a", 0)

    statuses = wait_for(
        [runs, entry_of("Lbb", tmp_path / "gone")],
        tracking(submitter, clock=clock),
        poll_interval_s=10.0,
        back_off=False,
        progress=progress,
    )
    assert [status.state for status in statuses] == [JobState.COMPLETED, JobState.UNKNOWN]
    assert clock.now_s() - begun_s == 600.0 + LOST_LIMIT_S


@pytest.mark.parametrize(
    ("waited_s", "interval_s", "pause"),
    [(0.0, 2.0, 2.0), (10.0, 2.0, 2.0), (100.0, 1.0, 20.0), (1e6, 1.0, 60.0), (1e6, 90.0, 90.0)],
)
def test_a_pause_grows_to_a_minute(waited_s: float, interval_s: float, pause: float) -> None:
    """At first it is the site's interval, then a fifth of the waiting; a longer interval counts."""
    assert pause_s(waited_s, interval_s) == pytest.approx(pause)
