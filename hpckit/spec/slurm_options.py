"""`[slurm]` of a job file: sbatch's options that say who pays, where and when."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from hpckit.core.fields import (
    MAX_COUNT,
    Checked,
    between,
    both,
    key,
    listed,
    mapping,
    matching,
    one_line,
    optional,
    table,
)
from hpckit.core.late import regex
from hpckit.core.values import dataclass


class Requeue(StrEnum):
    """How Slurm requeues a job, beside whether it does: sbatch(1), --requeue."""

    EXPEDITE = "expedite"


_OPTION_NAME = matching(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", "a long option name without its dashes")
MPI_PLUGIN = matching(r"[a-z][a-z0-9_]*", "an MPI plugin such as pmix")
_TASKS = r"\d{1,9}(-\d{1,9}(:[1-9]\d{0,8})?)?"
_THROTTLED = regex(rf"(?P<tasks>{_TASKS}(,{_TASKS})*)(%[1-9]\d{{0,8}})?", re.ASCII)
_SWITCHES = matching(
    r"[1-9]\d{0,8}(@[0-9][0-9:-]*)?",
    "a number of switches, with an optional time, such as 1@2:00:00",
)
_SIGNAL_NAMES = "HUP|INT|QUIT|ABRT|KILL|ALRM|TERM|USR1|USR2|URG|CONT|STOP|TSTP|TTIN|TTOU"
_MAX_SIGNAL_TIME_S = 65535


def _array(value: str) -> str | None:
    match = _THROTTLED.fullmatch(value)
    if match is None:
        return 'an array such as "0-31%8", with task numbers of at most 9 digits'
    for part in match["tasks"].split(","):
        first, _, last = part.partition(":")[0].partition("-")
        if last and int(last) < int(first):
            return f"ranges that go up, not {part}"
    return None


def _signal(value: str) -> str | None:
    expected = (
        f"a signal such as USR2@120 or B:USR2@120, at most {_MAX_SIGNAL_TIME_S} s before the time "
        "limit"
    )
    match = re.fullmatch(
        rf"((B|R|BR|RB):)?(SIG)?({_SIGNAL_NAMES})(@(?P<time>\d{{1,5}}))?", value, re.ASCII
    )
    if match is None or int(match["time"] or 0) > _MAX_SIGNAL_TIME_S:
        return expected
    return None


_DEPENDENCY: Final = matching(
    r"(?:(?:singleton|\d+|(?:after|afterany|afterburstbuffer|aftercorr|afternotok|afterok)"
    r"(?::\d+(?:_(?:\d+|\*))?(?:\+\d+)?)+)(?:[,?](?!$)|$))+",
    "jobs to wait for, such as afterok:4242, afterany:4242:4243 or singleton",
)
"""Source: sbatch(1), --dependency; `+` is after's time in minutes. A bare ID is its old form."""

_BEGIN_WORDS: Final = frozenset(
    ("now", "today", "tomorrow", "midnight", "noon", "elevenses", "fika", "teatime", "am", "pm",
     "uts")
)  # fmt: skip
_BEGIN_UNITS: Final = ("seconds", "minutes", "hours", "days", "weeks", "t")
"""Source: sbatch(1), --begin; parse_time.c, which takes the beginning of a unit for the unit."""


def _begin(value: str) -> str | None:
    words = re.findall(r"[a-z]+", value.lower())
    if all(word in _BEGIN_WORDS or any(unit.startswith(word) for unit in _BEGIN_UNITS)
           for word in words):  # fmt: skip
        return None
    return 'a start such as "tomorrow", "now+2hours" or "2026-12-01T08:00"'


def _option_value(value: object) -> str | None:
    return one_line(value) if isinstance(value, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions(Checked):
    """`[slurm]`: account, partition and other sbatch options. `extra` takes any other."""

    account: str | None = optional("Account to charge (`--account`).", one_line)
    partition: str | None = optional("Partition (`--partition`).", one_line)
    qos: str | None = optional("Quality of service (`--qos`).", one_line)
    constraint: str | None = optional("Node features (`--constraint`).", one_line)
    reservation: str | None = optional("Reservation (`--reservation`).", one_line)
    nodelist: str | None = optional("Nodes to include (`--nodelist`).", one_line)
    exclude: str | None = optional("Nodes to avoid (`--exclude`).", one_line)
    dependency: str | None = optional("Jobs to wait for (`--dependency`).", _DEPENDENCY)
    licenses: str | None = optional("Licenses (`--licenses`).", one_line)
    array: str | None = optional("Job array (`--array`), such as `0-31%8`.", _array)
    begin: str | None = optional("Earliest start (`--begin`).", both(one_line, _begin))
    switches: str | None = optional(
        "Maximum number of leaf switches (`--switches`), and how long to wait for it, such as "
        "`1@2:00:00`. For topology/tree.",
        _SWITCHES,
    )
    segment: int | None = optional(
        "Nodes that must be in the same block (`--segment`); `nodes` must be a multiple of it. "
        "For topology/block, from Slurm 24.05 on. Default at such a site: what the tensor and "
        "expert axes of `[parallel]` need.",
        between(1, MAX_COUNT),
    )
    signal: str | None = optional(
        "Signal before the time limit (`--signal`), such as `B:USR2@120`.", _signal
    )
    requeue: bool | Requeue = key(
        "Let Slurm requeue the job after a node failure or preemption (`--requeue`, else "
        "`--no-requeue`). `expedite`, from Slurm 25.11 on: ahead of all other jobs, with its nodes "
        "kept free (`--requeue=expedite`).",
        default=False,
    )
    comment: str | None = optional("Comment (`--comment`).", one_line)
    mail_user: str | None = optional("Mail recipient (`--mail-user`).", one_line)
    mail_type: tuple[str, ...] = listed(
        "Events to mail about (`--mail-type`), such as `END` and `FAIL`.",
        matching(
            r"NONE|BEGIN|END|FAIL|REQUEUE|ALL|INVALID_DEPEND|STAGE_OUT|TIME_LIMIT(_[589]0)?"
            r"|ARRAY_TASKS",
            "an event: BEGIN, END, FAIL, REQUEUE, ALL, INVALID_DEPEND, STAGE_OUT, TIME_LIMIT, "
            "TIME_LIMIT_80 or ARRAY_TASKS",
        ),
    )
    extra: Mapping[str, str | int | bool] = table(
        "Any other sbatch option by its long name. `true` gives the option without a value, "
        "`false` omits it.",
        mapping(_OPTION_NAME, _option_value),
    )
    srun_extra: Mapping[str, str | int | bool] = table(
        "Any other srun option by its long name.", mapping(_OPTION_NAME, _option_value)
    )


_RESOURCES = {
    "nodes": "resources.nodes",
    "ntasks": "resources.nodes and resources.ntasks_per_node",
    "ntasks-per-node": "resources.ntasks_per_node",
    "cpus-per-task": "resources.cpus_per_task",
    "gpus-per-node": "resources.gpus_per_node",
    "gpus": "resources.gpus_per_node",
    "gpus-per-task": "resources.gpus_per_node (--gpus-per-task hides the peers' GPUs)",
    "ntasks-per-gpu": "resources.ntasks_per_node",
    "mem": "resources.mem",
    "mem-per-cpu": "resources.mem_per_cpu",
    "mem-per-gpu": "resources.mem_per_gpu",
    "time": "resources.time_limit",
    "exclusive": "resources.exclusive",
}
TEXT_OPTIONS: Final = (
    "account",
    "partition",
    "qos",
    "constraint",
    "reservation",
    "nodelist",
    "exclude",
    "dependency",
    "licenses",
    "array",
    "begin",
    "switches",
    "signal",
    "comment",
    "mail_user",
)
"""Keys of `[slurm]` whose text is the value of the option of that name."""

_SLURM = {
    name.replace("_", "-"): f"slurm.{name}"
    for name in (*TEXT_OPTIONS, "segment", "requeue", "mail_type")
}
_SUBMISSION = {
    "job-name": "name",
    "chdir": "chdir",
    "no-requeue": "slurm.requeue",
    "cpus-per-gpu": "resources.cpus_per_task",
    "tasks": "resources.ntasks_per_node",
    "tasks-per-node": "resources.ntasks_per_node",
    "tres-per-task": "resources.gpus_per_node",
    "oversubscribe": "resources.exclusive (the two are mutually exclusive)",
    "share": "resources.exclusive (the two are mutually exclusive)",
    "workdir": "chdir",
    "output": "hpckit logs (each rank has a log in the job folder)",
    "error": "hpckit logs (each rank has a log in the job folder)",
    "open-mode": "nothing: hpckit always appends to logs",
    "export": "environment.inherit and environment.pass",
    "export-file": "environment.set",
    "get-user-env": "environment.inherit",
    "wrap": "command",
    "parsable": "hpckit submit",
    "test-only": "hpckit submit --test-only",
    "wait": "hpckit submit --wait",
    "quiet": "hpckit submit --quiet",
    "clusters": "--site NAME (one site file per cluster)",
    "help": "hpckit submit --help",
    "usage": "hpckit submit --help",
    "version": "hpckit doctor",
}
_STEP = {
    "mpi": "launch.mpi",
    "distribution": "launch.distribution",
    "kill-on-bad-exit": "launch.kill_on_bad_exit",
    "wait": "launch.wait_s",
}

OWNED_BY_SBATCH: Final[Mapping[str, str]] = {**_RESOURCES, **_SLURM, **_SUBMISSION}
"""Option of sbatch → the key that says it."""

OWNED_BY_SRUN: Final[Mapping[str, str]] = {
    **_RESOURCES,
    **{name: key for name, key in _SUBMISSION.items() if name not in ("parsable", "wrap", "wait")},
    **_STEP,
    "multi-prog": "command",
    "relative": "nothing: rank 0 must run on the first node (MASTER_ADDR)",
    "pty": "command (a batch job has no terminal)",
}
"""Option of srun → the key that says it."""


def instead(says: str) -> str:
    """Return what to do with an option: the key that says it, or that none has to."""
    kind, _, why = says.partition(": ")
    return f"remove it: {why}" if kind == "nothing" else f"remove it; instead: {says}"


HABITS: Final = {
    **dict.fromkeys(("gpu", "num-gpus", "ngpus", "n-gpus"), "gpus-per-node"),
    **dict.fromkeys(("node", "num-nodes", "nnodes", "n-nodes"), "nodes"),
    **dict.fromkeys(("tasks", "nproc-per-node", "ranks", "num-processes"), "ntasks-per-node"),
    **dict.fromkeys(("cpus", "cpu", "ncpus", "cores"), "cpus-per-task"),
    **dict.fromkeys(("memory", "ram", "mem-per-node"), "mem"),
    **dict.fromkeys(("walltime", "time-limit", "timeout", "timeout-min", "limit"), "time"),
    **dict.fromkeys(("queue", "part"), "partition"),
    **dict.fromkeys(("project", "charge"), "account"),
    **dict.fromkeys(("jobname", "job"), "name"),
    **dict.fromkeys(("type", "gputype", "gpu-model"), "gpu-type"),
    **dict.fromkeys(("after", "depends", "depend"), "dependency"),
    **dict.fromkeys(("workdir", "cwd", "directory"), "chdir"),
    **dict.fromkeys(("environment", "export-var"), "env"),
    **dict.fromkeys(("follow", "watch"), "wait"),
    **dict.fromkeys(("dryrun", "simulate", "test"), "dry-run"),
    **dict.fromkeys(("launcher", "kind"), "launch"),
    **dict.fromkeys(("features", "feature"), "constraint"),
    **dict.fromkeys(("hosts", "hostlist"), "nodelist"),
    "script": "from",
    **dict.fromkeys(("email", "mail", "notify"), "mail-user"),
    **dict.fromkeys(("gpu-count", "gpus-per-host", "accelerators"), "gpus-per-node"),
    **dict.fromkeys(("duration", "max-time", "runtime-limit"), "time"),
    **dict.fromkeys(("dir", "working-dir", "workdirectory"), "chdir"),
    **dict.fromkeys(("stdout", "stderr", "log", "logs", "logfile", "log-file", "out"), "output"),
    **dict.fromkeys(("nproc", "nprocs", "np", "num-tasks", "world-size"), "ntasks"),
    **dict.fromkeys(("retry", "retries", "restart"), "requeue"),
    **dict.fromkeys(("depends-on", "deps", "wait-for"), "dependency"),
    **dict.fromkeys(("cluster", "machine"), "site"),
    **dict.fromkeys(("format", "output-format"), "json"),
}
"""What people write for an option → the option."""
