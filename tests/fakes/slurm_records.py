"""The captures under tests/records, and how a test finds a job in what was read from one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hpckit.slurm.values import JobRecord

RECORDS = Path(__file__).resolve().parents[1] / "records"
UUID = "0123456789abcdef0123456789abcdef"


def record_text(tool: str, case: str) -> str:
    """What a tool printed, as it was captured."""
    return (RECORDS / tool / case / "output.txt").read_text()


def job(records: Sequence[JobRecord], job_id: str, task: int | None = None) -> JobRecord:
    """The one record of a job or task."""
    (found,) = (r for r in records if r.job_id == job_id and r.task_index == task)
    return found


def tasks(records: Sequence[JobRecord], job_id: str) -> list[int | None]:
    """The indexes of a job's records, in their order."""
    return [record.task_index for record in records if record.job_id == job_id]
