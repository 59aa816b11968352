"""Why a job waits: Slurm's word, or sentence, explained.

Source: squeue(1) "JOB REASON CODES", `enum job_state_reason` in slurm.h, job_state_reason.c and
acct_policy.c of Slurm 22.05 to 26.05. The words themselves are in `pending_reasons`; those for a
limit of a QOS or an association are taken apart here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, NamedTuple

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
    entries = [_entry(part) for part in parts]
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
_BY_TEXT: Final = tuple((re.compile(text.begins, re.IGNORECASE), text.entry) for text in TEXTS)


def _entry(reason: str) -> Entry:
    return _of_word(reason) or _of_text(reason) or _unknown(reason)


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
        f'Slurm gives the reason "{shown}", which hpckit does not know',
        "all that Slurm says of the job: scontrol show job ID",
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


_QOS: Final = "the QOS (the job's, or its partition's)"
_WORD: Final = re.compile(
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
    "billing": _Resource("how much billing (its TRES, weighted)", "billing"),
    "unknown": _Resource("how much of a TRES (the word does not say which)", "TRES"),
}  # fmt: skip
_HOLDERS: Final = {
    ("qos", "grp"): _Holder("all jobs under it", "they", "running jobs under this QOS"),
    ("qos", "user"): _Holder("one user", "you", "running jobs that you have under this QOS"),
    ("qos", "account"): _Holder(
        "one account", "your account", "running jobs of your account under this QOS"
    ),
    ("assoc", "grp"): _Holder("all jobs under it", "they", "running jobs under this association"),
    ("assoc", "max"): _Holder("one user", "you", "running jobs that you have with this account"),
}
_LIMITERS: Final = {
    ("qos", "grp"): _QOS,
    ("qos", "max"): _QOS,
    ("qos", "min"): _QOS,
    ("assoc", "grp"): "an association (yours, its account, or one above)",
    ("assoc", "max"): "your association (you with this account)",
}
_SAME: Final = {
    "memory": "mem", "job": "jobs", "submitjob": "submitjobs", "wallduration": "wall",
}  # fmt: skip
_JOB_COUNTS: Final = {"jobs": "Jobs", "submitjobs": "Submit"}
_COLUMN_OF_GROUP: Final = {"grp": "", "max": "", "user": "PU", "account": "PA"}
_ALONE: Final = "if this job alone asks for more than the limit, it never starts"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Limit:
    """A limit's word taken apart: `what` is a resource, wall, jobs or submitjobs."""

    scope: str
    bound: str
    what: str
    run: bool
    minutes: bool
    per: str | None

    @property
    def limiter(self) -> str:
        """Who limits."""
        return _LIMITERS[self.scope, self.bound]

    @property
    def group(self) -> str:
        """Whose jobs are counted together: grp, user, account, or max for a user's association."""
        return self.per or self.bound

    @property
    def other_qos(self) -> str:
        """The advice that ends those on a QOS."""
        return ", or another QOS with --qos" if self.scope == "qos" else ""

    def see(self, column: str) -> str:
        """The command that shows the limit; -P, as sacctmgr cuts its columns otherwise."""
        if self.scope == "qos":
            what = f"qos format=Name,{column},Flags"
        elif self.bound == "grp":
            what = f"assoc tree format=Account,User,{column}"
        else:
            what = f"assoc user=$USER format=Account,Partition,{column}"
        return f"see the limit with: sacctmgr -P show {what}"


def _of_limit(word: str) -> Entry | None:
    match = _WORD.fullmatch(word)
    if match is None:
        return None
    found = {name: (value or "").lower() for name, value in match.groupdict().items()}
    limit = _Limit(
        scope=found["scope"] or "qos",  # MaxCpuPerAccount and its kind, by slurm.h
        bound=found["bound"],
        what=_SAME.get(found["what"], found["what"]),
        run=bool(found["run"]),
        minutes=bool(found["minutes"]),
        per=found["per"] or None,
    )
    alone = not found["scope"] and limit.per not in ("user", "account")
    if alone or (limit.per and limit.bound != "max"):
        return None  # slurm.h has no such limit
    if limit.bound == "min":
        return _of_least(limit)
    if limit.per in ("job", "node"):
        return _of_one_job(limit)
    return _of_group(limit)


def _of_least(limit: _Limit) -> Entry | None:
    """MinTRESPerJob: slurm.h has it for a QOS alone."""
    resource = _RESOURCES.get(limit.what)
    if resource is None or (limit.scope, limit.minutes) != ("qos", False):
        return None
    return Entry(
        f"{limit.limiter} sets {resource.amount} every job has to ask for at least, "
        "and this job asks for less",
        f"waiting does not help: cancel it (scancel ID) and ask for more{_with(resource)}"
        f"{limit.other_qos}; {limit.see('MinTRES')}",
        hopeless=True,
    )


def _of_one_job(limit: _Limit) -> Entry | None:
    """MaxTRESPerJob, MaxTRESPerNode, MaxTRESMinsPerJob and MaxWallDurationPerJob."""
    if limit.what == "wall":
        return Entry(
            f"{limit.limiter} limits how long one job may run, and this job's --time is longer",
            "waiting does not help: scontrol update JobId=ID TimeLimit=TIME"
            f"{limit.other_qos}; {limit.see('MaxWall')}",
            hopeless=True,
        )
    resource = _RESOURCES.get(limit.what)
    if resource is None:
        return None
    less = f"cancel it (scancel ID) and ask for less{_with(resource)}"
    if limit.minutes:
        column, amount = "MaxTRESMins", f"how many {resource.unit} minutes one job may use"
        less = f"a shorter --time (scontrol update JobId=ID TimeLimit=TIME), or {less}"
    elif limit.per == "node":
        column = "MaxTRESPerNode"
        amount = f"{resource.amount} one job may use on a node, averaged over its nodes"
    else:
        column, amount = "MaxTRES", f"{resource.amount} one job may use"
    return Entry(
        f"{limit.limiter} limits {amount}, and this job asks for more",
        f"waiting does not help: {less}{limit.other_qos}; {limit.see(column)}",
        hopeless=True,
    )


def _of_group(limit: _Limit) -> Entry | None:
    """The limits on several jobs together; waiting helps against them."""
    holder = _HOLDERS.get((limit.scope, limit.group))
    if holder is None:
        return None
    if limit.what in _JOB_COUNTS:
        return _of_job_count(limit, holder)
    if limit.group == "max":
        return None
    if limit.what == "wall":
        return _of_budget(limit, "minutes of wall-clock time", "GrpWall")
    resource = _RESOURCES[limit.what]
    if limit.run:
        return _of_run_minutes(limit, holder, resource)
    if limit.minutes:
        return _of_budget(limit, f"{resource.unit} minutes", "GrpTRESMins")
    return _of_use(limit, holder, resource)


def _of_use(limit: _Limit, holder: _Holder, resource: _Resource) -> Entry:
    """GrpTRES, MaxTRESPerUser and MaxTRESPerAccount."""
    return Entry(
        f"{limit.limiter} limits {resource.amount} {holder.who} may hold at once, "
        f"and with this job {holder.they} would hold more than that",
        f"it starts when enough of the {holder.jobs} have ended; "
        f"{limit.see(_column(limit, 'TRES'))}; or ask for less{_with(resource)}"
        f"{limit.other_qos}; {_ALONE}",
    )


def _of_run_minutes(limit: _Limit, holder: _Holder, resource: _Resource) -> Entry:
    """GrpTRESRunMins, MaxTRESRunMinsPerUser and MaxTRESRunMinsPerAccount."""
    return Entry(
        f"{limit.limiter} limits how many {resource.unit} minutes the {holder.jobs} may have "
        "left together (what they hold × the rest of their --time), and with this job it would be "
        "more",
        f"it starts as the {holder.jobs} come nearer to their end; a shorter --time or asking "
        f"for less{_with(resource)} starts sooner; "
        f"{limit.see(_column(limit, 'TRESRunMins'))}; {_ALONE}",
    )


def _of_budget(limit: _Limit, unit: str, column: str) -> Entry | None:
    """GrpTRESMins and GrpWall: sacctmgr(1) says that use decays by the priority plugin."""
    if limit.bound != "grp":
        return None
    return Entry(
        f"{limit.limiter} limits how many {unit} all jobs under it may use in all, ended ones "
        "included, and they are used up, or this job's --time might use them up",
        "use is forgiven only as PriorityDecayHalfLife or PriorityUsageResetPeriod says (scontrol "
        "show config), with neither never; a shorter --time may fit into what is left"
        f"{limit.other_qos}; {limit.see(column)}",
    )


def _of_job_count(limit: _Limit, holder: _Holder) -> Entry:
    """GrpJobs, MaxJobs, MaxJobsPerUser and -PerAccount, and the same of submitted jobs."""
    whose = "" if limit.group == "grp" else f" of {holder.who}"
    jobs, may = holder.jobs, "run"
    if limit.what == "submitjobs":
        jobs, may = jobs.replace("running", "waiting or running"), "wait and run"
    return Entry(
        f"{limit.limiter} limits how many jobs{whose} may {may} under it at once, "
        "and there are that many",
        f"it starts when enough of the {jobs} have ended; "
        f"{limit.see(_column(limit, _JOB_COUNTS[limit.what]))}",
    )


def _with(resource: _Resource) -> str:
    return f" ({resource.option})" if resource.option else ""


def _column(limit: _Limit, what: str) -> str:
    """The column of sacctmgr: GrpTRES, MaxTRESPU, MaxJobsPA, MaxJobs."""
    return f"{limit.bound.capitalize()}{what}{_COLUMN_OF_GROUP[limit.group]}"
