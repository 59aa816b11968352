"""Why a job waits: Slurm's word, or sentence, explained.

Source: squeue(1) "JOB REASON CODES", `enum job_state_reason` in slurm.h, job_state_reason.c and
acct_policy.c of Slurm 22.05 to 26.05. The words themselves are in `pending_reasons`; those for a
limit of a QOS or an association are taken apart here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.slurm.pending_reasons import TEXTS, WORDS, Entry


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingExplanation:
    """Why a job waits, in words.

    `reason` is Slurm's word or sentence as given; `meaning` is one sentence; `help` is what would
    help, with the option or command (ID stands for the job's id), None when only waiting does.
    `hopeless` is True for a job that never starts as it stands: it, its account, or a limit has to
    change. A job given several partitions shows the reason of the one tried last (squeue(1)), so
    another may still start it. A held job is not hopeless: it starts once it is released.
    """

    reason: str
    meaning: str
    help: str | None
    hopeless: bool


def explain_pending(reason: str) -> PendingExplanation:
    """Explain a reason as squeue's %r prints it; one that is not known is kept and said to be so.

    squeue joins the reasons of an array's waiting tasks with commas (print.c,
    `_merge_job_reason`); each of them is then explained.
    """
    parts = _array_reasons(reason)
    entries = [_of_word(part) or _of_text(part) or _unknown(part) for part in parts]
    if len(parts) == 1:
        (entry,) = entries
    else:
        entry = _joined(parts, entries)
    return PendingExplanation(
        reason=reason, meaning=entry.meaning, help=entry.help, hopeless=entry.hopeless
    )


def explain_limit(word: str) -> str | None:
    """What a word says that names a limit of a QOS or an association; None for any other."""
    entry = _of_limit(word.strip())
    return None if entry is None else entry.meaning


_BY_WORD: Final = {word.lower(): entry for word, entry in WORDS.items()}
_BY_TEXT: Final = tuple((regex(text.begins, re.IGNORECASE), text.entry) for text in TEXTS)


def _of_word(reason: str) -> Entry | None:
    word = reason.strip()
    if not word:
        return WORDS["None"]
    return _BY_WORD.get(word.lower()) or _of_limit(word)


def _of_text(reason: str) -> Entry | None:
    text = reason.strip()
    return next((entry for begins, entry in _BY_TEXT if begins.match(text)), None)


def _unknown(reason: str) -> Entry:
    shown = "".join(char if char.isprintable() else " " for char in reason).strip()
    return Entry(
        f'Slurm gives the reason "{shown}", which is unknown to hpckit',
        "see all about the job: scontrol show job ID",
    )


def _array_reasons(reason: str) -> tuple[str, ...]:
    """Split off the words that squeue appended; a comma inside a sentence stays."""
    head, found = reason, list[str]()
    while "," in head:
        rest, word = head.rsplit(",", 1)
        if not word.strip() or _of_word(word) is None:
            break
        found.append(word.strip())
        head = rest
    return (head, *reversed(found))


def _joined(parts: tuple[str, ...], entries: list[Entry]) -> Entry:
    named = list(zip(parts, entries, strict=True))
    helps = [f"{part}: {entry.help}" for part, entry in named if entry.help is not None]
    return Entry(
        "tasks of the array wait for different reasons: "
        + "; ".join(f"{part} ({entry.meaning})" for part, entry in named),
        "; ".join(helps) or None,
        all(entry.hopeless for entry in entries),
    )


class _Resource(NamedTuple):
    """A trackable resource: its amount, its minutes, the option that asks for it."""

    amount: str
    unit: str
    option: str | None = None


class _Holder(NamedTuple):
    """Whose jobs a limit counts together: its name, its pronoun, which of them must end."""

    who: str
    they: str
    jobs: str


class _Limit(NamedTuple):
    """What is said of a kind of limits, and sacctmgr's column of it (GrpTRES, MaxTRESPU)."""

    meaning: str
    help: str
    column: str
    hopeless: bool = False


_WORD: Final = regex(
    r"(?P<scope>qos|assoc)?(?P<bound>grp|max|min)"
    r"(?P<what>cpu|mem(?:ory)?|node|energy|gres|license|bb|billing|unknown"
    r"|(?:submit)?jobs?|wall(?:duration)?)"
    r"(?:(?P<run>run)?(?P<minutes>min(?:ute)?s))?(?:per(?P<per>job|node|user|account))?"
    r"(?:limit|notsatisfied)?",
    re.IGNORECASE | re.ASCII,
)
_RESOURCES: Final = {
    "cpu": _Resource("how many CPUs", "CPU", "--ntasks-per-node or --cpus-per-task"),
    "mem": _Resource("how much memory", "memory",
                     "--mem, or --set resources.mem_per_cpu=SIZE or resources.mem_per_gpu=SIZE"),
    "node": _Resource("how many nodes", "node", "--nodes"),
    "energy": _Resource("how much energy", "energy"),
    "gres": _Resource("how many GPUs and other GRES", "GPU (or other GRES)",
                      "--gpus-per-node"),
    "license": _Resource("how many licenses", "license", "--set slurm.licenses=NAME:N"),
    "bb": _Resource("how much burst buffer space", "burst buffer",
                    "--set slurm.extra.bb=SPEC"),
    "billing": _Resource("how much billing (weighted TRES)", "billing"),
    "unknown": _Resource("how much of a TRES (Slurm's reason does not name it)", "TRES"),
}  # fmt: skip
_HOLDERS: Final = {
    ("qos", "grp"): _Holder("all jobs under it", "they", "the running jobs under this QOS"),
    ("qos", "user"): _Holder("one user", "you", "your running jobs under this QOS"),
    ("qos", "account"): _Holder(
        "one account", "your account", "the running jobs of your account under this QOS"
    ),
    ("assoc", "grp"): _Holder(
        "all jobs under it", "they", "the running jobs under this association"
    ),
    ("assoc", "max"): _Holder("one user", "you", "your running jobs with this account"),
}
_LIMITERS: Final = {
    "qos": "the QOS (the job's, or its partition's)",
    "assocgrp": "an association (yours, its account, or one above)",
    "assocmax": "your association (you with this account)",
}
_SEE: Final = {
    "qos": "qos format=Name,{column},Flags",
    "assocgrp": "assoc tree format=Account,User,{column}",
    "assocmax": "assoc user=$USER format=Account,Partition,{column}",
}
_SAME: Final = {
    "memory": "mem", "job": "jobs", "submitjob": "submitjobs", "wallduration": "wall",
}  # fmt: skip
_COLUMN_OF_GROUP: Final = {"user": "PU", "account": "PA"}
_LESS: Final = "cancel it (scancel ID) and request less{option}{qos}; {see}"
_BUDGET: Final = (
    "{limiter} limits how many {unit} all jobs under it may use in total, past jobs included; "
    "they are used up, or this job's --time might use them up"
)
_FORGIVEN: Final = (
    "usage goes down only by PriorityDecayHalfLife or PriorityUsageResetPeriod (scontrol show "
    "config), never if both are 0 or NONE; a shorter --time may fit in the rest{qos}; {see}"
)
_ALONE: Final = "if this job alone requests more than the limit, it never starts"
_LIMITS: Final = {
    "least": _Limit(
        "{limiter} sets {amount} every job must request at least, and this job requests less",
        "it never starts: cancel it (scancel ID) and request more{option}{qos}; {see}",
        "MinTRES",
        hopeless=True,
    ),
    "wall of a job": _Limit(
        "{limiter} limits how long one job may run, and this job's --time is longer",
        "it never starts: scontrol update JobId=ID TimeLimit=TIME{qos}; {see}",
        "MaxWall",
        hopeless=True,
    ),
    "minutes of a job": _Limit(
        "{limiter} limits how many {unit} minutes one job may use, and this job requests more",
        "it never starts: set a shorter --time (scontrol update JobId=ID TimeLimit=TIME), or "
        + _LESS,
        "MaxTRESMins",
        hopeless=True,
    ),
    "node": _Limit(
        "{limiter} limits {amount} one job may use per node, averaged over its nodes, and this "
        "job requests more",
        f"it never starts: {_LESS}",
        "MaxTRESPerNode",
        hopeless=True,
    ),
    "job": _Limit(
        "{limiter} limits {amount} one job may use, and this job requests more",
        f"it never starts: {_LESS}",
        "MaxTRES",
        hopeless=True,
    ),
    "use": _Limit(
        "{limiter} limits {amount} {who} may hold at once, and with this job {they} would hold "
        "more",
        "it starts when enough of {jobs} have ended; {see}; or request less{option}{qos}; "
        + _ALONE,
        "{bound}TRES{group}",
    ),
    "run minutes": _Limit(
        "{limiter} limits how many {unit} minutes {jobs} may have left in total (what they hold × "
        "the rest of their --time), and with this job it would be more",
        "it starts as {jobs} come closer to their end; a shorter --time or fewer "
        f"resources{{option}} may start sooner; {{see}}; {_ALONE}",
        "{bound}TRESRunMins{group}",
    ),
    "minutes": _Limit(_BUDGET.replace("{unit}", "{unit} minutes"), _FORGIVEN, "GrpTRESMins"),
    "wall": _Limit(_BUDGET.replace("{unit}", "minutes of wall-clock time"), _FORGIVEN, "GrpWall"),
    "jobs": _Limit(
        "{limiter} limits how many jobs{whose} may run under it at once, and the limit is reached",
        "it starts when enough of {jobs} have ended; {see}",
        "{bound}Jobs{group}",
    ),
    "submitjobs": _Limit(
        "{limiter} limits how many jobs{whose} may wait and run under it at once, and the limit "
        "is reached",
        "it starts when enough waiting jobs or enough of {jobs} have ended; {see}",
        "{bound}Submit{group}",
    ),
}
"""What a limit of a QOS or an association means, by its kind. Source: slurm.h; sacctmgr(1), by
which use (GrpTRESMins, GrpWall) decays as the priority plugin says."""


def _of_limit(word: str) -> Entry | None:
    match = _WORD.fullmatch(word)
    if match is None:
        return None
    said = {name: (value or "").lower() for name, value in match.groupdict().items()}
    said["what"] = _SAME.get(said["what"], said["what"])
    kind = _kind_of_limit(said)
    if kind is None:
        return None
    limit, scope = _LIMITS[kind], said["scope"] or "qos"
    group = said["per"] or said["bound"]
    limiter = scope if scope == "qos" else scope + said["bound"]
    resource = _RESOURCES.get(said["what"], _Resource("", ""))
    holder = _HOLDERS.get((scope, group), _Holder("", "", ""))
    column = limit.column.format(
        bound=said["bound"].capitalize(), group=_COLUMN_OF_GROUP.get(group, "")
    )
    words = {
        **resource._asdict(),
        **holder._asdict(),
        "option": f" ({resource.option})" if resource.option else "",
        "limiter": _LIMITERS[limiter],
        "whose": "" if group == "grp" else f" of {holder.who}",
        "qos": ", or another QOS with --qos" if scope == "qos" else "",
        # -P, as sacctmgr cuts its columns otherwise.
        "see": f"see the limit: sacctmgr -P show {_SEE[limiter].format(column=column)}",
    }
    return Entry(limit.meaning.format(**words), limit.help.format(**words), limit.hopeless)


def _kind_of_limit(said: Mapping[str, str]) -> str | None:
    """Return the kind of a limit's word that was taken apart; None for one that slurm.h lacks."""
    what, per, bound = said["what"], said["per"], said["bound"]
    if (not said["scope"] and per not in ("user", "account")) or (per and bound != "max"):
        return None
    if bound == "min":  # slurm.h has it for a QOS alone
        is_one = what in _RESOURCES and said["scope"] == "qos" and not said["minutes"]
        return "least" if is_one else None
    if per in ("job", "node"):
        if what == "wall":
            return "wall of a job"
        of_one = "minutes of a job" if said["minutes"] else per
        return of_one if what in _RESOURCES else None
    return _kind_of_group(said)


def _kind_of_group(said: Mapping[str, str]) -> str | None:
    """Return the kind of a limit on several jobs together; waiting helps against these."""
    what, group = said["what"], said["per"] or said["bound"]
    if (said["scope"] or "qos", group) not in _HOLDERS:
        return None
    if what in ("jobs", "submitjobs"):
        return what
    if group == "max":
        return None
    if what == "wall" or (said["minutes"] and not said["run"]):
        of_all = "wall" if what == "wall" else "minutes"
        return of_all if group == "grp" else None
    return "run minutes" if said["run"] else "use"
