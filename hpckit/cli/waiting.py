"""Waiting for jobs at a terminal: a progress line, and an interrupt that loses nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from hpckit.cli import output
from hpckit.cli.job_argument import site_of
from hpckit.errors import SchedulerUnreachable
from hpckit.model.site import SubmitterKind
from hpckit.units import format_duration

if TYPE_CHECKING:
    from hpckit.app.parts import Submitter
    from hpckit.app.track import TrackTools
    from hpckit.model.slurm import JobEntry, JobStatus

ASKING = "asking Slurm …"
_LOCAL_PREFIX = "L"


@contextmanager
def asking(tools: TrackTools) -> Iterator[TrackTools]:
    """The same tools; on a terminal a line says so from when Slurm is asked to the block's end."""
    line = output.Progress()

    def submitter_of(entry: JobEntry) -> Submitter:
        if not entry.job_id.startswith(_LOCAL_PREFIX):
            line.show(ASKING)
        return tools.submitter_of(entry)

    try:
        yield replace(tools, submitter_of=submitter_of)
    finally:
        line.clear()


def wait_at_terminal(
    entries: Sequence[JobEntry], tools: TrackTools, *, timeout_s: float | None = None
) -> Sequence[JobStatus]:
    """Wait for the jobs' end with a progress line; Ctrl-C ends the waiting, not the jobs."""
    from hpckit.app.track import wait_for

    line = output.Progress()

    def progress(statuses: Sequence[JobStatus], waited_s: float) -> None:
        line.show(f"{_progress(statuses)} · waiting {format_duration(waited_s)}")

    sites = [site_of(entry) for entry in entries]
    try:
        return wait_for(
            entries,
            tools,
            poll_interval_s=max(site.poll_interval_s for site in sites),
            back_off=any(site.submitter is SubmitterKind.SLURM for site in sites),
            timeout_s=timeout_s,
            progress=progress,
        )
    except KeyboardInterrupt:
        ids = " ".join(entry.job_id for entry in entries[:1])
        more = "" if len(entries) == 1 else " …"
        raise KeyboardInterrupt(
            f"the job goes on: hpckit wait {ids}{more} · hpckit cancel {ids}{more}"
        ) from None
    finally:
        line.clear()


def say_open(jobs: Sequence[tuple[JobEntry, JobStatus]], timed_out_s: float | None) -> int:
    """Say on stderr why waiting ended before these jobs did; gives the exit code of the command.

    `timed_out_s` is the time limit that ran out, None where none did.
    """
    code = 0 if all(status.state == "COMPLETED" for _, status in jobs) else 1
    for entry, status in jobs:
        if status.state.is_final:
            continue
        if timed_out_s is not None:
            output.talk(f" {entry.job_id} has not ended within {timed_out_s:g} s")
        elif status.is_lost:
            output.talk(f" {not_known(entry, status)}")
        else:
            output.talk(f" {entry.job_id}: Slurm has not answered for an hour: {status.reason}")
            code = SchedulerUnreachable.exit_code
    return code


def not_known(entry: JobEntry, status: JobStatus) -> str:
    """The sentence about a job of which nobody will know more."""
    return f"what became of {entry.job_id} is not known: {status.reason}"


def _progress(statuses: Sequence[JobStatus]) -> str:
    if len(statuses) > 1:
        counts = Counter(str(status.state) for status in statuses)
        return f"{len(statuses)} jobs: " + ", ".join(
            f"{count} {state}" for state, count in counts.most_common()
        )
    status = statuses[0]
    why = status.slurm_reason or (status.reason if status.tasks else None)
    if status.state == "UNKNOWN":
        why = status.reason
    return f"{status.job_id} {status.state}" + (f" · {why}" if why else "")
