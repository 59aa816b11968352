"""squeue: the jobs that the controller still knows, and when those that wait are to start."""

from __future__ import annotations

import re
from typing import Final

from hpckit.model.slurm import JobRecord
from hpckit.parse.slurm_text import SEPARATOR, JobWords, job_records, rows

# %i id with the array task, %T state, %r reason, %S start, %e end, %N nodes, %o command.
# `--format` (one letter a field) has no field for the restarts.
_FIELDS: Final = ("%i", "%T", "%r", "%S", "%e", "%N", "%o")
# `-M` puts a heading before each cluster's jobs unless there is --noheader (squeue.c).
_HEADING = re.compile(r"CLUSTER: \S+")


def squeue_argv(cluster: str | None) -> tuple[str, ...]:
    """The question: all of the caller's own jobs. `-M` needs slurmdbd.

    The answer is read with `TZ=UTC`, `LC_ALL=C` and `SLURM_BITSTR_LEN=0` in squeue's environment,
    and without the caller's SLURM_TIME_FORMAT and SQUEUE_*, which filter. The tasks of an array
    that wait stay folded: --array loses the last one of a stepped range (22.05.8). Source:
    squeue(1), "OPTIONS", "OUTPUT FORMAT SPECIFICATION", "INPUT ENVIRONMENT VARIABLES".
    """
    clusters = () if cluster is None else (f"--clusters={cluster}",)
    return (
        "squeue",
        "--me",
        "--noheader",
        "--states=all",
        *clusters,
        f"--format={SEPARATOR.join(_FIELDS)}",
    )


def parse_squeue(text: str) -> tuple[JobRecord, ...]:
    """The answer to `squeue_argv`, in its order; jobs that ended stay for MinJobAge (300 s).

    It has no exit codes. 22.05 adds the script's arguments to its path, later versions do not.
    Raises ParseError for a line that is not understood.
    """
    lines = ("" if _HEADING.fullmatch(line) else line for line in text.split("\n"))
    return tuple(
        record
        for place, (job, state, reason, start, end, nodelist, command) in rows(
            "\n".join(lines), "squeue", _FIELDS
        )
        for record in job_records(
            JobWords(
                job=job,
                state=state,
                reason=reason,
                start=start,
                end=end,
                nodelist=nodelist,
                command=command,
            ),
            place,
        )
    )
