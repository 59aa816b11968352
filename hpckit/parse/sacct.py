"""sacct: what became of jobs, from Slurm's accounting."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from hpckit.model.slurm import JobId, JobRecord
from hpckit.parse.slurm_text import SEPARATOR, JobWords, Place, job_records, rows, value

_FIELDS: Final = (
    "JobID",
    "State",
    "ExitCode",
    "Start",
    "End",
    "NodeList",
    "Reason",
    "SubmitLine",
)
# Without --state, a job counts from its eligible time on, and one that was cancelled while it was
# held never had any. Names that 22.05 to 26.05 know.
_STATES: Final = (
    "PENDING",
    "RUNNING",
    "SUSPENDED",
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "REQUEUED",
)


# NO_VAL64 of slurm.h, which some versions print for an energy that nobody told.
_NO_ENERGY: Final = 0xFFFFFFFFFFFFFFFE
_ENERGY: Final = ("JobID", "ConsumedEnergyRaw")


def _sacct(
    cluster: str | None, *selection: str, fields: tuple[str, ...] = _FIELDS
) -> tuple[str, ...]:
    clusters = () if cluster is None else (f"--clusters={cluster}",)
    return (
        "sacct",
        "--allocations",
        # a requeue or a reset counter gives an id again; without this only the newest is listed
        "--duplicates",
        "--noheader",
        "--parsable2",
        f"--delimiter={SEPARATOR}",
        *clusters,
        *selection,
        f"--format={','.join(fields)}",
    )


def sacct_argv(job_ids: Sequence[JobId], cluster: str | None) -> tuple[str, ...]:
    """The question what became of these jobs, whenever they were submitted.

    An array's id asks for all of its tasks; those that wait are listed as one (`--array` would
    split them, but is unknown to 22.05). Source: sacct(1), "OPTIONS", "DEFAULT TIME WINDOW".
    """
    return _sacct(cluster, f"--jobs={','.join(job_ids)}")


def sacct_since_argv(user: str, since_s: float, cluster: str | None) -> tuple[str, ...]:
    """The question for all of a user's jobs that were alive at or after `since_s`.

    Two kinds are not in the answer, and squeue knows them: a job that waits and has never been
    eligible (held, or with a dependency; one with `--begin` more than an hour ahead), and one so
    young that slurmdbd has not heard of it. The window ends after now, as a job that became
    eligible this very second is not before its end. Source: sacct(1), "--state", NOTE on PENDING;
    as_mysql_jobacct_process.c, `_state_time_string`.
    """
    since = datetime.fromtimestamp(since_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return _sacct(
        cluster,
        f"--user={user}",
        f"--starttime={since}",
        "--endtime=now+1hour",
        f"--state={','.join(_STATES)}",
    )


def parse_sacct(text: str) -> tuple[JobRecord, ...]:
    """The answer to either question, in its order; the records of one id are oldest first.

    Raises ParseError for a line that is not understood.
    """
    records: list[JobRecord] = []
    for place, fields in rows(text, "sacct", _FIELDS):
        job, state, exit_code, start, end, nodelist, reason, submit_line = fields
        words = JobWords(
            job=job,
            state=state,
            reason=reason,
            start=start,
            end=end,
            nodelist=nodelist,
            command=submit_line,
            exit_code=exit_code,
        )
        records += accounted(words, place)
    return tuple(records)


def accounted(words: JobWords, place: Place) -> tuple[JobRecord, ...]:
    """The records of what the accounts say of a job. Raises ParseError.

    sacct's reason is the last one for which a job waited, also when it ran (sacct(1), "Reason"):
    it is kept only for one that waits or never ran.
    """
    return tuple(
        record if record.nodelist is None else replace(record, reason=None)
        for record in job_records(words, place)
    )


def sacct_energy_argv(job_id: JobId, cluster: str | None) -> tuple[str, ...]:
    """The question for the energy of a job's nodes, each incarnation a record."""
    return _sacct(cluster, f"--jobs={job_id}", fields=_ENERGY)


def parse_sacct_energy(text: str) -> float | None:
    """Joules of the nodes in all incarnations; None where Slurm gathers none (it then says 0).

    The job's own figure: each of its steps has that of the whole nodes once more. Source: sacct(1),
    "ConsumedEnergyRaw". Raises ParseError.
    """
    joules = 0.0
    for place, (_, word) in rows(text, "sacct", _ENERGY):
        said = value(word)
        if said is None:
            continue
        if not (said.isascii() and said.isdecimal() and len(said) <= len(str(_NO_ENERGY))):
            raise place.refuse(f"{said!r} is no energy", "joules such as 5600")
        joules += 0 if int(said) >= _NO_ENERGY else int(said)
    return joules or None
