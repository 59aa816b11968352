"""sbatch: the id of a new job, or why there is none and whether that is certain."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple

from hpckit.core.late import regex
from hpckit.slurm.pending import explain_limit
from hpckit.slurm.text import BROKEN_OFF, BROKEN_SOCKET, NO_ADDRESS, Place, time_s
from hpckit.slurm.values import JobId

_PARSABLE = regex(r"([1-9]\d{0,9})(?:;([^\s;]+))?", re.ASCII)
_FAILED: Final = "Batch job submission failed: "
_PREFIX = regex(r"^(?:sbatch: (?:error: |fatal: )?|[a-z]+: (?:error|fatal): )")
_USAGE: Final = 'Try "sbatch --help"'


class SbatchFailure(StrEnum):
    """What an sbatch that failed leaves behind.

    REFUSED: Slurm said no. UNREACHABLE: no controller was asked, so there is no job.
    UNCONFIRMED: the request may have arrived, so there may be a job.
    """

    REFUSED = "REFUSED"
    UNREACHABLE = "UNREACHABLE"
    UNCONFIRMED = "UNCONFIRMED"


# Texts of slurm_errno.c, Slurm 22.05 to 26.05, where sbatch gives up before it has sent anything
# (slurm_send_recv_controller_msg), and where a standby controller turned it away.
_NEVER_SENT: Final = (
    "Unable to contact slurm controller (connect failure)",
    "Slurm backup controller in standby mode",
    "Controller is in standby mode",
    "Can't find an address, check slurm.conf",
)
# ... and where it was sending, or waited for the answer, or could not read it.
_MAYBE_SENT: Final = (
    *BROKEN_OFF,
    "Insane message length",
    "Header lengths are longer than data received",
    "Unexpected missing socket error",
    "Unable to process incoming file descriptor",
    "Unable to process outgoing file descriptor",
    "Unable to process incoming and outgoing file descriptors",
    "Connection rejected by handler",
    "Connection forced closed by quiesce timeout",
    "Kernel reported delayed socket error",
    "Process is shutting down",
    "Cannot unpack credential",
)
# ... and what says nothing: sbatch.c prints %m also when the answer held neither an error nor a
# job, and strerror(3) of a socket. These count only as the cause of a failed submission.
_NO_CAUSE: Final = (
    *BROKEN_SOCKET,
    "No error",
    "Unspecified error",
    "Success",
    "Read would block",
    "Write would block",
    "Software caused connection abort",
    "Network is down",
    "Host is down",
    "Interrupted system call",
    "Bad file descriptor",
    "Input/output error",
)
# No address, or no key to sign with, so that nothing was sent whatever errno says then. The
# answer's signature is checked by others (auth_g_unpack, auth_g_verify).
_STOPPED_HERE: Final = ("Unable to establish control", "auth_g_create")
# Said by an sbatch that had nobody to ask, so that it never came to the submission.
_NOBODY_TO_ASK: Final = (
    "Could not establish a configuration source",
    "Unable to process configuration file",
    "Problem talking to database",
    "Problem talking to the database",
    "failed to open persistent connection",
)


_SIGNALLED: Final = range(129, 193)
"""128+N of a signal; sbatch itself ends with 255 where it does not take an option."""
_MOST_LINES: Final = 20
_LONGEST_WORDS: Final = 300
_AN_ID: Final = regex(r"^\s*\d+(;\S+)?\s*$", re.MULTILINE)
# sbatch's own errors, and getopt's in its name.
_OWN_ERROR: Final = regex(
    r"^\S*sbatch\S*: (error|fatal|unrecognized option|invalid option|option |ambiguous option)",
    re.MULTILINE,
)


def parse_sbatch(text: str) -> tuple[JobId, str | None]:
    """The job's id, and its cluster where sbatch names one, in what `sbatch --parsable` printed.

    It is the last line that is not blank; a site may print before it. Raises ParseError.
    Source: sbatch(1), "--parsable".
    """
    lines = text.rstrip().split("\n")
    last = lines[-1].strip()
    match = _PARSABLE.fullmatch(last)
    if sum(bool(_PARSABLE.fullmatch(line.strip())) for line in lines) > 1:
        raise Place("sbatch --parsable", len(lines), last).refuse(
            "several lines look like a job ID", "one line with the job ID"
        )
    if match is None:
        raise Place("sbatch --parsable", len(lines), last).refuse(
            "not a job ID" if last else "no output", "4242, or 4242;cluster"
        )
    return JobId(match[1]), match[2]


_WOULD_START: Final = regex(
    r"Job \d+ to start at ([12]\d{3}-\d\d-\d\dT\d\d:\d\d:\d\d)(?: a)? using (\d+) processors on"
    r"(?: nodes)? (\S+)(?: in partition (\S+))?",
    re.ASCII,
)


class ExpectedStart(NamedTuple):
    """What `sbatch --test-only` says: when, on which nodes, and in which partition if it tells."""

    start_s: float
    nodes: str
    partition: str | None


def parse_test_only(text: str) -> ExpectedStart | None:
    """When a job would start, in what `sbatch --test-only` printed with `TZ=UTC`; None without.

    Source: allocate.c, `slurm_job_will_run`, Slurm 22.05 to 26.05.
    """
    match = _WOULD_START.search(text)
    if match is None:
        return None
    start_s = time_s(match[1], Place("sbatch --test-only", 1, match[0]))
    return None if start_s is None else ExpectedStart(start_s, match[3], match[4])


def sbatch_failure(stderr: str, *, returncode: int = 1, stdout: str = "") -> SbatchFailure:
    """What became of the request of an sbatch that ended with an error.

    "Batch job submission failed: …" is printed after the request was tried, so the cause it names
    decides; without it sbatch gave up earlier, and says so under its name. Where a signal ended
    it (`returncode` 128+N), where it had printed an id, or where the words are another program's,
    there may be a job. Slurm may keep a job that it refused, as FAILED with the reason
    BadConstraints. Source: sbatch.c, slurm_protocol_api.c, slurm_errno.c, fetch_config.c of Slurm
    22.05 to 26.05.
    """
    if returncode in _SIGNALLED or _AN_ID.search(stdout):
        return SbatchFailure.UNCONFIRMED
    _, tried, cause = stderr.rpartition(_FAILED)
    if not tried:
        return _failure_before(stderr)
    cause = cause.split("\n", 1)[0].strip()
    if cause.startswith(_NEVER_SENT):
        return SbatchFailure.UNREACHABLE
    if not cause or cause.startswith((*_MAYBE_SENT, *_NO_CAUSE)):
        stopped_here = _says(stderr, _STOPPED_HERE)
        return SbatchFailure.UNREACHABLE if stopped_here else SbatchFailure.UNCONFIRMED
    return SbatchFailure.REFUSED


def _failure_before(stderr: str) -> SbatchFailure:
    """What sbatch's words mean without the line that ends a submission, which may be cut off."""
    if _says(stderr, (*_NOBODY_TO_ASK, *_STOPPED_HERE, *_NEVER_SENT)):
        return SbatchFailure.UNREACHABLE
    if _says(stderr, _MAYBE_SENT):
        return SbatchFailure.UNCONFIRMED
    if _says(stderr, ("fetch_config", *NO_ADDRESS)):
        return SbatchFailure.UNREACHABLE
    return SbatchFailure.REFUSED if _OWN_ERROR.search(stderr) else SbatchFailure.UNCONFIRMED


def _says(stderr: str, signs: tuple[str, ...]) -> bool:
    return any(sign in stderr for sign in signs)


def refusal_words(stderr: str) -> str:
    """Slurm's own words for people, a line each: no prefix, no repetition, no hint on usage.

    Lines that are not errors stay: a site's submit filter explains itself in them. Empty where
    sbatch said nothing.
    """
    words: list[str] = []
    for line in stderr.split("\n"):
        said = _PREFIX.sub("", line.strip()).strip()
        if said.startswith(_FAILED) and any(word.startswith(_FAILED) for word in words):
            said = said.removeprefix(_FAILED)
        if said and said not in words and not said.startswith(_USAGE):
            words.append(said)
    return "\n".join(word[:_LONGEST_WORDS] for word in words[:_MOST_LINES])


_ASSOCIATIONS: Final = (
    "see your accounts, partitions and QOS: sacctmgr -P show assoc user=$USER "
    "format=Account,Partition,QOS"
)
_PARTITIONS: Final = "see the partitions and their limits: sinfo --summarize"
_HELP: Final[Mapping[str, str]] = {
    "invalid partition specified": _PARTITIONS,
    "invalid account": _ASSOCIATIONS,
    "invalid qos": _ASSOCIATIONS,
    "requested node configuration is not available": (
        "see what the nodes have: sinfo --format='%P %D %c %m %G %f'"
    ),
    "requested reservation is invalid": "see the reservations: scontrol show reservation",
    "access denied to requested reservation": "see the reservations: scontrol show reservation",
    "job dependency problem": "use a dependency such as afterok:4242, on a job known to Slurm",
    "invalid job array specification": (
        "use indices below MaxArraySize: scontrol show config (hpckit doctor reads it again)"
    ),
    "requested time limit is invalid": _PARTITIONS,
    "invalid feature specification": "see the nodes' features: sinfo --format='%N %f'",
    "unrecognized option": "remove it; an option of a SPANK plugin needs the plugin on this host",
    "invalid generic resource": "see what the nodes have: sinfo --format='%N %G'",
    "invalid license specification": "see the licenses: scontrol show licenses",
    "node count specification invalid": _PARTITIONS,
    "more processors requested than permitted": _PARTITIONS,
    "memory specification can not be satisfied": "see what the nodes have: sinfo --format='%N %m'",
}
"""The beginning of Slurm's sentence, small letters → what to look at. Source: slurm_errno.c."""


def explain_refusal(words: str) -> str | None:
    """What would help against a refusal in Slurm's words; None where only they tell."""
    for line in words.split("\n"):
        limit = explain_limit(line)
        if limit is not None:
            return f"request less, or use another QOS or account: {limit}"
    lower = words.lower()
    return next((told for begins, told in _HELP.items() if begins in lower), None)
