"""A line of the job index as an entry and back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from hpckit.model.slurm import JobEntry, JobId, JobPart, JobState

COLUMNS: Final = (
    *("submission", "job_id", "cluster", "name", "site", "folder", "created_s", "state"),
    *("exit_code", "parts", "chain", "stage"),
)


def row_of(entry: JobEntry) -> tuple[object, ...]:
    """An entry as the values of COLUMNS."""
    parts = "".join(f"{part.offset}:{part.job_id} " for part in entry.parts)
    written = replace(entry, parts=())
    values = {name: getattr(written, name) for name in COLUMNS}
    return tuple({**values, "state": str(entry.state), "parts": parts}.values())


def entry_of(row: Sequence[Any]) -> JobEntry:
    """Return the entry of a row; a state of a later version is UNKNOWN."""
    values = dict(zip(COLUMNS, row, strict=True))
    known = values["state"] in JobState.__members__.values()
    state = JobState(values["state"]) if known else JobState.UNKNOWN
    return JobEntry(**{**values, "state": state, "parts": _parts(values["parts"])})


def _parts(text: str) -> tuple[JobPart, ...]:
    """The parts of an array, from `0:4242 1000:4243 `."""
    pairs = (word.split(":") for word in text.split())
    return tuple(JobPart(offset=int(offset), job_id=JobId(job_id)) for offset, job_id in pairs)
