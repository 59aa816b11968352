"""Waiting for jobs at a terminal: a progress line, and an interrupt that loses nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hpckit.cli import output
from hpckit.cli.job_argument import site_of
from hpckit.model.site import SubmitterKind
from hpckit.units import format_duration

if TYPE_CHECKING:
    from hpckit.app.track import TrackTools
    from hpckit.model.slurm import JobEntry, JobStatus


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
