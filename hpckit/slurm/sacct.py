"""sacct: what became of jobs, from Slurm's accounting."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from hpckit.core.errors import ParseError
from hpckit.slurm.text import (
    SEPARATOR,
    JobWords,
    Place,
    exit_status,
    job_records,
    job_state,
    of_cluster,
    rows,
    value,
)
from hpckit.slurm.values import JobDetail, JobId, JobRecord, JobState, StepRecord

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
    cluster: str | None, *selection: str, fields: Iterable[str] = _FIELDS
) -> tuple[str, ...]:
    return (
        "sacct",
        "--allocations",
        # a requeue or a reset counter gives an id again; without this only the newest is listed
        "--duplicates",
        "--noheader",
        "--parsable2",
        f"--delimiter={SEPARATOR}",
        *of_cluster(cluster),
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
    for place, (job, state, code, start, end, nodes, reason, command) in rows(
        text, "sacct", _FIELDS
    ):
        words = JobWords(job, state, reason, start, end, nodes, command, code)
        records += job_records(words, place, waited_for=True)
    return tuple(records)


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
            raise place.refuse(f"{said!r} is not an energy", "joules such as 5600")
        joules += 0 if int(said) >= _NO_ENERGY else int(said)
    return joules or None


_TOOL: Final = "sacct --json"
# slurm.h: NO_VAL and INFINITE are the last two numbers of 32 bits, and of 64.
_NO_VALUE = 0xFFFFFFFE
_MIB = frozenset({"mem", "vmem"})


Tree = Mapping[str, Any]
"""A table of the answer; a name that is missing in it is nothing said."""


def sacct_json_argv(job_id: JobId, cluster: str | None) -> tuple[str, ...]:
    """The question for one job; the answer has all that the accounts hold of it.

    Measured of a job with five steps on two nodes: 27 KB in 0.32 s with 22.05.8, 32 KB in 0.02 s
    with 24.11.5, 28 KB in 0.02 s with 26.05.5; so it is for one job, and a list is asked for as
    text. The shape is the release's own: none can be asked for that all releases have (24.11 has
    the data_parsers v0.0.40 to 42, 26.05 v0.0.42 to 45), and 22.05 takes no `--json=`. Source:
    sacct(1), "--json".
    """
    return ("sacct", "--json", "--duplicates", *of_cluster(cluster), f"--jobs={job_id}")


def parse_sacct_json(text: str) -> tuple[JobDetail, ...]:
    """The answer to `sacct_json_argv`: one detail for each record that `parse_sacct` gives.

    The record is the same as from text, but for four things. Who cancelled a job is not in the
    state. A code above 127 is whole, from which 24.11 takes 128 in text. 22.05 does not print the
    submit line; and it prints 0 for every exit code (a job that ended with 7 is FAILED with
    `"status": "SUCCESS", "return_code": 0`), which is None here. Fields that hpckit does not know
    are passed over; states that it does not know are UNKNOWN. Raises ParseError for a text that is
    no JSON, and for fields of another type.
    """
    try:
        jobs = json.loads(text)["jobs"]
        return tuple(detail for job in jobs for detail in _details(job))
    except ParseError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise Place(_TOOL, 1, text.split("\n", 1)[0]).refuse(
            f"not readable: {error!r}", 'JSON such as {"jobs": […]}'
        ) from error


def _in(tree: Tree, *names: str) -> Any:
    """Return what stands below these names, None where one of them is missing or null."""
    found: Any = tree
    for name in names:
        found = None if found is None else found.get(name)
    return found


def _details(job: Tree) -> Iterator[JobDetail]:
    place = Place(_TOOL, 1, f"job {job['job_id']}")
    words = JobWords(
        job=_id(job, place),
        state=_state(job["state"]["current"]),
        reason=_in(job, "state", "reason") or "",
        start=_time(_in(job, "time", "start")),
        end=_time(_in(job, "time", "end")),
        nodelist=_in(job, "nodes") or "",
        command=_in(job, "submit_line") or "",
        exit_code=_exit_words(job),
    )
    for record in job_records(words, place, waited_for=True):
        yield JobDetail(
            record=record,
            partition=value(_in(job, "partition") or ""),
            account=value(_in(job, "account") or ""),
            qos=value(_in(job, "qos") or ""),
            restarts=_number(_in(job, "restart_cnt")),
            tres_allocated=_tres(_in(job, "tres", "allocated") or []),
            steps=tuple(_step(step, place) for step in _in(job, "steps") or []),
        )


def _id(job: Tree, place: Place) -> str:
    """The id as sacct prints it: `4242`, `4242_3`, `4242_[5,8]`, `4242+1`."""
    array, leader = _number(_in(job, "array", "job_id")), _number(_in(job, "het", "job_id"))
    offset, waiting = _number(_in(job, "het", "job_offset")), _in(job, "array", "task")
    if leader and offset is not None:
        return f"{leader}+{offset}"
    if not array:
        return f"{job['job_id']}"
    if waiting:
        return f"{array}_[{waiting_tasks(waiting, place)}]"
    task = _number(_in(job, "array", "task_id"))
    return f"{array}" if task is None else f"{array}_{task}"


def waiting_tasks(text: str, place: Place) -> str:
    """The tasks that wait as a list, from a mask in hex, as slurmdbd keeps it, or a list."""
    if not text.startswith("0x"):
        return text
    try:
        mask = bin(int(text, 16))
    except ValueError as error:
        raise place.refuse(f"{text!r} is not a list of tasks", "a mask such as 0x24920") from error
    return ",".join(str(index) for index, bit in enumerate(reversed(mask)) if bit == "1")


def _number(said: int | Tree | None) -> int | None:
    """A number; from 23.02 on a table with the number and whether it is set."""
    if isinstance(said, Mapping):
        said = said.get("number", 0) if said.get("set", True) else None
    return None if said is None or not 0 <= said < _NO_VALUE else said


def _state(said: str | list[str]) -> str:
    """The state in one word, as sacct prints it, and after it those that are not known.

    A list is the state itself and what is added to it, which is printed in its place: a job that
    was requeued is PENDING, REQUEUED. Source: slurm_protocol_defs.c, `job_state_string`.
    """
    words = said.split() if isinstance(said, str) else said
    known = [word for word in words if job_state(word) is not JobState.UNKNOWN]
    unknown = [word for word in words if word not in known]
    return " ".join([*known[-1:], *unknown])


def _time(said: int | Tree | None) -> str:
    return time_word(_number(said))


def time_word(time_s: float | None) -> str:
    """A time as `TZ=UTC` prints it, empty for none, which is 0 to Slurm."""
    if not time_s:
        return ""
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _exit_words(tree: Tree) -> str:
    """The exit code of a job or a step as sacct prints it; a signal's id was its `signal_id`."""
    signal = _in(tree, "exit_code", "signal") or {}
    number = _number(signal.get("signal_id", signal.get("id")))
    return f"{_number(_in(tree, 'exit_code', 'return_code')) or 0}:{number or 0}"


def _tres(allocated: Sequence[Tree]) -> dict[str, int]:
    found: dict[str, int] = {}
    for tres in allocated:
        count, name = _number(_in(tres, "count")), _in(tres, "name")
        kind = f"{tres['type']}_mib" if tres["type"] in _MIB else tres["type"]
        if count is not None:
            found[f"{kind}/{name}" if name else kind] = count
    return found


def _step(step: Tree, place: Place) -> StepRecord:
    raw = _state(step["state"])
    state = job_state(raw)
    code, signal = exit_status(_exit_words(step), state, place)
    started_s, ended_s = (_number(_in(step, "time", name)) for name in ("start", "end"))
    return StepRecord(
        step_id=f"{step['step']['id']}".rpartition(".")[2],
        name=_in(step, "step", "name") or "",
        state=state,
        raw=raw,
        exit_code=code,
        exit_signal=signal,
        nodelist=value(_in(step, "nodes", "range") or ""),
        started_s=float(started_s) if started_s else None,
        ended_s=float(ended_s) if ended_s and state.is_final else None,
    )
