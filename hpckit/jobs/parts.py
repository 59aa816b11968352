"""The parts of an array that is larger than the cluster takes: planned, on record, taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any, Protocol

import hpckit
from hpckit.core.errors import AdapterError, HpckitError, PlanError
from hpckit.slurm.values import (
    JobDetail,
    JobEntry,
    JobId,
    JobPart,
    JobStatus,
    StartedJob,
    SubmitRequest,
    is_confirmed,
)
from hpckit.spec.options import ArrayPart, StagePlace, array_parts, is_throttled
from hpckit.spec.slurm_options import SlurmOptions


class Submitter(Protocol):
    """Starts prepared jobs and knows how they are."""

    def submit(self, request: SubmitRequest) -> StartedJob:
        """Start the job, or the part of it that the request names.

        Raises SubmissionUnconfirmed when it may have been started all the same, and any other
        HpckitError when it was not.
        """
        ...

    def test(self, request: SubmitRequest) -> Sequence[str]:
        """What would become of the job, a line each; nothing is queued.

        Raises HpckitError for a job that would not be taken.
        """
        ...

    def statuses(self, jobs: Sequence[JobEntry]) -> Mapping[str, JobStatus]:
        """Submission → status for each job, in as few questions as can be.

        The status holds the job's confirmed id. Never raises for what cannot be told of a job:
        that is UNKNOWN, with the reason.
        """
        ...

    def detail(self, job: JobEntry, task: int | None = None) -> JobDetail | None:
        """What the accounts hold of a job, or of one task of an array, that has ended.

        None where they hold nothing of it or cannot be asked now: it is only an addition.
        """
        ...

    def cancel(self, job: JobEntry, signal_name: str | None, task: int | None = None) -> JobStatus:
        """End the job or one task of an array, or only send it a signal; gives how it was before.

        Raises HpckitError if it has ended already.
        """
        ...


def planned_parts(
    slurm: SlurmOptions, max_array_size: int | None, place: StagePlace | None
) -> tuple[ArrayPart, ...]:
    """The parts of a job's array on a cluster; none where it need not be split.

    Raises PlanError for an array that comes to too many, for what would count within a part, and
    for a dependency of the job's own beside which no other can stand.
    """
    parts: tuple[ArrayPart, ...] = ()
    if slurm.array is not None:
        parts = array_parts(slurm.array, max_array_size)
        parts = parts if any(part.offset for part in parts) else ()
    if parts:
        _refuse_what_counts_within_a_part(slurm)
    one_by_one = bool(parts) and is_throttled(slurm.array or "")
    has_more = one_by_one or (place is not None and not place.is_first)
    if has_more and "?" in (slurm.dependency or ""):
        raise PlanError(
            "Slurm cannot mix , and ? between dependencies",
            have=f"slurm.dependency {slurm.dependency}",
            need="dependencies joined by commas, because hpckit adds one",
            hint="join them with commas, or submit this job alone",
        )
    return parts


def _refuse_what_counts_within_a_part(slurm: SlurmOptions) -> None:
    """Slurm itself knows tasks by their numbers in a part alone."""
    said = {f"slurm.extra.{name}": str(value) for name, value in slurm.extra.items()}
    wrong = [key for key, text in said.items() if "%a" in text]
    if "aftercorr" in (slurm.dependency or ""):
        wrong.append("slurm.dependency")
    if wrong:
        raise PlanError(
            f"{wrong[0]} depends on task numbers, but this array is submitted in parts",
            have="task numbers that start again in each part",
            need="task numbers of the whole array",
            hint="submit arrays within MaxArraySize, or use SLURM_ARRAY_TASK_ID in the command",
        )


def dependency(slurm: SlurmOptions, entry: JobEntry, after: tuple[JobId, ...]) -> str | None:
    """What the next part of a job, or the job, must wait for; None where its script says all.

    `after` are the jobs that must end well. A throttle counts for the whole array, and Slurm keeps
    one for each part: so the parts of a throttled array run one after the other. Raises PlanError
    where the job's own dependency cannot be joined with these.
    """
    waits = [f"afterok:{':'.join(after)}"] if after else []
    before = [part.job_id for part in entry.parts if is_confirmed(part.job_id)]
    if slurm.array is not None and is_throttled(slurm.array) and before:
        waits.append(f"afterany:{before[-1]}")
    if not waits or slurm.dependency is None:
        return ",".join(waits) or None
    return ",".join([slurm.dependency, *waits])


def with_started(entry: JobEntry, number: int, started: StartedJob) -> JobEntry:
    """The entry once Slurm has its numbered part, or the job where it has none."""
    parts = list(entry.parts)
    if parts:
        parts[number] = replace(parts[number], job_id=started.job_id)
    if number:
        return replace(entry, parts=tuple(parts))
    return replace(
        entry,
        job_id=started.job_id,
        cluster=started.cluster,
        state=started.state,
        parts=tuple(parts),
    )


class TakenBack(StrEnum):
    """What cancelling has left of a job: nothing, what it did until then, or the job."""

    WHOLLY = "wholly"
    HAD_BEGUN = "had begun or ended"
    NOT = "not"


def take_back(entry: JobEntry, submitter: Submitter) -> TakenBack:
    """Cancel what Slurm has of a job. Of one that has begun or ended, what it left is kept."""
    begun = tuple(part for part in entry.parts if is_confirmed(part.job_id))
    try:
        before = submitter.cancel(replace(entry, parts=begun), None)
    except AdapterError:
        return TakenBack.NOT
    except HpckitError:
        return TakenBack.HAD_BEGUN
    times = [before.started_s, *(task.started_s for task in before.tasks)]
    return TakenBack.HAD_BEGUN if any(time is not None for time in times) else TakenBack.WHOLLY


def submitted_document(entry: JobEntry, now_s: float) -> dict[str, object]:
    """`submitted.json`: under which id the scheduler has the job, as known since `now_s`."""
    return {
        "schema": "hpckit.submitted/1",
        "job_id": entry.job_id,
        "cluster": entry.cluster,
        "parts": [
            {"offset": part.offset, "job_id": part.job_id}
            for part in entry.parts
            if is_confirmed(part.job_id)
        ],
        "submitted_s": now_s,
        "hpckit": hpckit.__version__,
    }


def recorded_parts(intent: Mapping[str, Any], submitted: Mapping[str, Any]) -> tuple[JobPart, ...]:
    """The parts that a job folder's documents tell. Raises LookupError, TypeError, ValueError."""
    ids = {int(part["offset"]): str(part["job_id"]) for part in submitted.get("parts") or ()}
    unknown = str(intent["job_id"])
    offsets = [int(part["offset"]) for part in intent.get("parts") or ()]
    return tuple(
        JobPart(offset=offset, job_id=JobId(ids.get(offset, unknown))) for offset in offsets
    )
