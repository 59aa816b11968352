"""What Slurm's text answers have in common: ids, states, times, exit codes, words of failure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

from hpckit.core.errors import ParseError
from hpckit.core.hostlist import HostListError, expand_hosts
from hpckit.core.late import regex
from hpckit.core.values import maker
from hpckit.slurm.values import (
    JobId,
    JobRecord,
    JobState,
    SlurmVersion,
    submission_in,
)

SEPARATOR: Final = "\x1f"
"""ASCII's unit separator stands between fields: squeue and sacct take any text, and job names,
reasons and paths hold every printable character. Tried with Slurm 22.05.8 and 24.11.5."""

_JOB = regex(
    r"(?P<job>[1-9]\d{0,9})"
    r"(?:_(?P<task>\d{1,9})|_\[(?P<tasks>[^\]]*\]?)|(?P<component>\+\d{1,9}))?",
    re.ASCII,
)
_RANGE = regex(r"(?P<first>\d+)(?:-(?P<last>\d+)(?::(?P<step>[1-9]\d*))?)?", re.ASCII)
_ID_LEN = len("4294967295")
_TIME_LEN = len("2026-11-21T06:49:14")
_parse_time = datetime.fromisoformat  # without a time zone, as Slurm prints times with TZ=UTC
_EPOCH = _parse_time("1970-01-01")
_EXIT = regex(r"(?P<code>\d{1,3}):(?P<signal>\d{1,3})", re.ASCII)
# `scontrol --version` has a name before it, a build has its number or `rc1` after it
_VERSION = regex(
    r"(?:slurm(?:-\w+)? )?(?P<major>\d\d)\.(?P<minor>\d\d)(?:\.(?P<micro>\d{1,3}))?(?:[-~+]\S*)?",
    re.ASCII,
)
# More pending tasks than this in one expression stay one record: 4,000,000 is what Slurm allows.
_MOST_TASKS = 65_536
# Above the system's signals are Slurm's own marks: 125 is an out-of-memory kill, 998 a lost node.
_LAST_SIGNAL = 64
_SHELL_SIGNAL_BASE = 128
_LONGEST_LINE_SHOWN = 300

_NOTHING = frozenset({"", "(null)", "n/a", "none", "none assigned", "unknown"})
# hpckit's own words, which Slurm never prints
_OWN_STATES = frozenset({JobState.UNKNOWN, JobState.NOT_SUBMITTED})

# slurm_errno.c: the controller was being asked
BROKEN_OFF: Final = (
    "Unable to contact slurm controller",
    "Socket timed out on send/recv",
    "Zero Bytes were transmitted or received",
    "Message send failure",
    "Message receive failure",
    "Unexpected message received",
    "Communication connection failure",
    "Communication shutdown failure",
    "Protocol authentication error",
    "Connection timed out",
)
# fetch_config.c: nobody to ask
NO_ADDRESS: Final = (
    "failed to fetch remote config",
    "DNS SRV lookup failed",
    "Unable to resolve",
    "getaddrinfo() failed",
)
# strerror(3) of a socket
BROKEN_SOCKET: Final = (
    "Connection refused",
    "Connection reset by peer",
    "No route to host",
    "Network is unreachable",
    "Broken pipe",
    "Transport endpoint is not connected",
)
_UNANSWERED: Final = (
    *(*BROKEN_OFF, *NO_ADDRESS, *BROKEN_SOCKET),
    # slurm_errno.c, read_config.c, auth_munge.c: nobody to ask, or no way to sign the question
    "Unable to establish control",
    "backup controller in standby mode",
    "Controller is in standby mode",
    "Rate limit exceeded",
    "Could not establish a configuration source",
    "Munge encode failed",
    # slurmdbd: persist_conn.c, dbd_conn.c, sacct/options.c, slurmdb_defs.c
    "Problem talking to database",
    "Problem talking to the database",
    "Unable to connect to database",
    "slurm_persist_conn_open",
    "PersistInit",
    "persist_init",
    "persistent connection",
    "Database connection reference is invalid",
    "DBD_GET_JOBS_COND failure",
)


class Place(NamedTuple):
    """Where a text came from, for the error that shows it."""

    tool: str
    line_no: int
    line: str

    def refuse(self, message: str, expected: str) -> ParseError:
        """The error that says what is wrong with this line; separators are shown as `|`."""
        shown = self.line[:_LONGEST_LINE_SHOWN].replace(SEPARATOR, "|")
        line = "".join(char if char.isprintable() else "?" for char in shown)
        return ParseError(
            message, tool=self.tool, line_no=self.line_no, line=line, expected=expected
        )

    def hosts(self, text: str) -> tuple[str, ...]:
        """Return the names of a list of hosts or switches. Raises ParseError."""
        try:
            return expand_hosts(text)
        except HostListError as error:
            raise self.refuse(error.got, error.expected) from None


class JobWords(NamedTuple):
    """One job, or several tasks of an array, in Slurm's own words; None is not asked or not said.

    `job` is the id with what Slurm adds to it: `4242`, `4242_3`, `4242_[5-19:2%4]`, `4242+1`.
    """

    job: str
    state: str
    reason: str
    start: str
    end: str
    nodelist: str
    command: str
    exit_code: str | None = None


def of_cluster(cluster: str | None) -> tuple[str, ...]:
    """Return the option that names a cluster, nothing for the one that is here."""
    return () if cluster is None else (f"--clusters={cluster}",)


def value(text: str) -> str | None:
    """The text, or None for the words that Slurm prints where it has nothing to say."""
    said = text.strip()
    return None if said.casefold() in _NOTHING else said


def job_state(text: str) -> JobState:
    """The state that a word names; UNKNOWN for one that this version does not know.

    sacct adds to it: `CANCELLED by 1001`. Source: sacct(1), "JOB STATE CODES".
    """
    word = text.split(" ", 1)[0]
    state = JobState.__members__.get(word, JobState.UNKNOWN)
    return JobState.UNKNOWN if state in _OWN_STATES else state


def slurm_version(text: str, place: Place) -> SlurmVersion:
    """The release that `24.11.5`, `slurm-wlm 24.11.5` or `slurm 25.11.0-0rc1` names.

    Slurm's releases are years and months, `22.05`; those before 2013 are not. Raises ParseError.
    """
    match = _VERSION.fullmatch(text.strip())
    if match is None:
        raise place.refuse(f"{text.strip()!r} is not a version", "a version such as 24.11.5")
    return SlurmVersion(int(match["major"]), int(match["minor"]), int(match["micro"] or 0))


def time_s(text: str, place: Place) -> float | None:
    """Seconds since the epoch of a time as `TZ=UTC` prints it, None for "N/A" and the like."""
    said = text.strip()
    if said[4::3] == "--T::" and len(said) == _TIME_LEN and said[0] in "12":
        try:
            return (_parse_time(said) - _EPOCH).total_seconds()
        except ValueError:
            pass
    if value(said) is None:
        return None
    raise place.refuse(f"{said!r} is not a time", "a time such as 2026-11-21T06:49:14, or N/A")


def exit_status(text: str, state: JobState, place: Place) -> tuple[int | None, int | None]:
    """The code and the signal with which a script ended, None where nobody recorded its end.

    The text is "code:signal". 0:0 is what every job without a recorded end has, so it is a zero
    only when the job is COMPLETED. Source: sacct(1), "ExitCode"; slurm.h, SIG_OOM and following.
    """
    status = _exit_status(text, state)
    if status is None:
        raise place.refuse(f"{text!r} is not an exit code", 'a code and a signal such as "7:0"')
    return status


def _exit_status(text: str, state: JobState) -> tuple[int | None, int | None] | None:
    match = _EXIT.fullmatch(text.strip())
    if match is None:
        return None
    code, signal = int(match["code"]), int(match["signal"])
    if not state.is_final or signal > _LAST_SIGNAL:
        return None, None
    if signal:
        return _SHELL_SIGNAL_BASE + signal, signal
    if code == 0 and state is not JobState.COMPLETED:
        return None, None
    return code, None


@lru_cache(maxsize=1024)
def _outcome(
    words: str, exit_code: str | None
) -> tuple[JobState, str, tuple[int | None, int | None] | None]:
    """Return the state, its words, and the exit status, which is None where that is not one."""
    state = job_state(words)
    status = (None, None) if exit_code is None else _exit_status(exit_code, state)
    return state, words.strip(), status


def split_throttle(expression: str) -> tuple[str, str]:
    """The tasks of an expression, and its throttle with the `%`, empty where there is none."""
    tasks, percent, number = expression.partition("%")
    return tasks, percent + number


def array_ranges(expression: str) -> tuple[range, ...]:
    """The tasks that `0-9:2,40%8` names, a range for each of its parts that has any.

    Raises ValueError for what is no such list. Source: sbatch(1), "--array".
    """
    ranges = []
    for part in split_throttle(expression)[0].split(","):
        match = _RANGE.fullmatch(part)
        if match is None:
            raise ValueError(f"{part!r} is not a range of tasks")
        first = int(match["first"])
        ranges.append(range(first, int(match["last"] or first) + 1, int(match["step"] or 1)))
    return tuple(tasks for tasks in ranges if tasks)


def array_tasks(expression: str) -> tuple[int, ...] | None:
    """The indexes in `5,8,11-19:2%4]`, None for a list that is cut short, too long or unclear.

    Slurm ends a long list with `...`, or cuts it off before the bracket (squeue(1),
    SLURM_BITSTR_LEN; print.c); `%4` is the throttle.
    """
    if not expression.endswith("]"):
        return None
    try:
        ranges = array_ranges(expression[:-1])
        count = sum(map(len, ranges))
    except (ValueError, OverflowError):
        return None
    if not 0 < count <= _MOST_TASKS:
        return None
    return tuple(index for indexes in ranges for index in indexes)


def _job_and_tasks(text: str, place: Place) -> tuple[JobId, tuple[int | None, ...]]:
    if text.isdigit() and text.isascii() and len(text) <= _ID_LEN and text[0] != "0":
        return JobId(text), (None,)
    match = _JOB.fullmatch(text.strip())
    if match is None:
        raise place.refuse(
            f"{text!r} is not a job ID", "a job ID such as 4242, 4242_3 or 4242_[5-9]"
        )
    job, task, tasks, component = match.groups()
    if tasks is not None:
        return JobId(job), array_tasks(tasks) or (None,)
    # A component of a heterogeneous job is a job of its own to squeue, sacct and scancel.
    return JobId(job + (component or "")), (None if task is None else int(task),)


def job_records(words: JobWords, place: Place, *, waited_for: bool = False) -> list[JobRecord]:
    """The job in hpckit's terms: one record, or one a task where Slurm listed several as one.

    Slurm prints a start for jobs that never had a node (the expected one while they wait, the
    moment of the end for one that was cancelled), and the time limit as the end of a job that
    runs. So `started_s` is said only of a job with nodes, `ended_s` only of a final state, and no
    exit code of a job that ended without a node. Pending tasks that cannot be told apart are one
    record without an index. With `waited_for` the reason is the last one for which a job waited,
    also when it ran (as sacct(1) has it): it is kept only for one without nodes. Raises ParseError.
    """
    job_id, tasks = _job_and_tasks(words.job, place)
    nodelist = value(words.nodelist)
    start_s, end_s = time_s(words.start, place), time_s(words.end, place)
    submission, offset = submission_in(words.command)
    state, raw, status = _outcome(words.state, words.exit_code)
    exit_code, exit_signal = status or exit_status(words.exit_code or "", state, place)
    records, make = [], maker(JobRecord)
    for task in tasks:
        record = make(
            job_id=job_id,
            task_index=None if task is None else task + offset,
            state=state,
            raw=raw,
            reason=None if waited_for and nodelist else value(words.reason),
            exit_code=exit_code if nodelist else None,
            exit_signal=exit_signal if nodelist else None,
            expected_start_s=start_s if not nodelist and state.is_waiting else None,
            started_s=start_s if nodelist else None,
            ended_s=end_s if state.is_final else None,
            nodelist=nodelist,
            submission=submission,
            array_offset=offset,
        )
        records.append(record)
    return records


def rows(text: str, tool: str, fields: Sequence[str]) -> Iterator[tuple[Place, list[str]]]:
    """Yield the records of a text with `fields` between separators, each with its place.

    The last field is a command: it may hold newlines (then lines that begin no record go on with
    it) and separators. Raises ParseError for a line before the first record.
    """
    place, parts, last = None, [""], len(fields) - 1
    for line_no, line in enumerate(text.split("\n"), start=1):
        begun = line.split(SEPARATOR, last)
        if len(begun) > last:
            if place is not None:
                yield place, parts
            place, parts = Place(tool, line_no, line), begun
        elif place is not None:
            parts[-1] += "\n" + line
        elif line.strip():
            expected = f"{len(fields)} fields: {', '.join(fields)}"
            raise Place(tool, line_no, line).refuse("not a job record", expected)
    if place is not None:
        yield place, parts


def is_unreachable(stderr: str) -> bool:
    """Whether a query got no answer: no controller, no slurmdbd, no key, a time-out, a rate limit.

    The same question may be answered later; any other failure will be the same again. Source:
    slurm_errno.c, persist_conn.c, dbd_conn.c, fetch_config.c of Slurm 22.05 to 26.05.
    """
    words = stderr.casefold()
    return any(sign.casefold() in words for sign in _UNANSWERED)


def accounting_disabled(stderr: str) -> bool:
    """Whether sacct says that this cluster keeps no accounting (sacct/options.c)."""
    return "slurm accounting storage is disabled" in stderr.casefold()
