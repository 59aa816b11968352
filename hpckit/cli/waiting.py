"""Waiting for a job at a terminal: a progress line, and an interrupt that loses nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hpckit.cli import output
from hpckit.units import format_duration

if TYPE_CHECKING:
    from hpckit.model.slurm import JobEntry, JobStatus
    from hpckit.ports import JobIndex, Submitter


def wait_at_terminal(
    entry: JobEntry,
    submitter: Submitter,
    index: JobIndex,
    *,
    poll_interval_s: float,
    timeout_s: float | None = None,
) -> JobStatus:
    """Wait for the job's end with a progress line; Ctrl-C ends the waiting, not the job."""
    from hpckit import wiring
    from hpckit.app.track import wait_for

    line = output.Progress()

    def progress(status: JobStatus, waited_s: float) -> None:
        line.show(f"{entry.job_id} {status.state} · waiting {format_duration(waited_s)}")

    try:
        return wait_for(
            entry,
            submitter,
            index,
            wiring.clock(),
            poll_interval_s=poll_interval_s,
            timeout_s=timeout_s,
            progress=progress,
        )
    except KeyboardInterrupt:
        job_id = entry.job_id
        raise KeyboardInterrupt(
            f"the job goes on: hpckit wait {job_id} · hpckit cancel {job_id}"
        ) from None
    finally:
        line.clear()
