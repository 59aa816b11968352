"""`[slurm]` of a job file: sbatch's options that say who pays, where and when."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hpckit.core.fields import (
    MAX_COUNT,
    Checked,
    between,
    key,
    listed,
    mapping,
    matching,
    one_line,
    optional,
    table,
)

_OPTION_NAME = matching(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", "a long option name without its dashes")
MPI_PLUGIN = matching(r"[a-z][a-z0-9_]*", "an MPI plugin such as pmix")
_TASKS = r"\d{1,9}(-\d{1,9}(:[1-9]\d{0,8})?)?"
_THROTTLED = re.compile(rf"(?P<tasks>{_TASKS}(,{_TASKS})*)(%[1-9]\d{{0,8}})?", re.ASCII)
_SWITCHES = matching(
    r"[1-9]\d{0,8}(@[0-9][0-9:-]*)?", "a number of switches, and perhaps a time, such as 1@2:00:00"
)
_SIGNAL_NAMES = "HUP|INT|QUIT|ABRT|KILL|ALRM|TERM|USR1|USR2|URG|CONT|STOP|TSTP|TTIN|TTOU"
_MAX_SIGNAL_TIME_S = 65535


def _array(value: str) -> str | None:
    match = _THROTTLED.fullmatch(value)
    if match is None:
        return 'an array such as "0-31%8", with task numbers of nine digits at most'
    for part in match["tasks"].split(","):
        first, _, last = part.partition(":")[0].partition("-")
        if last and int(last) < int(first):
            return f"ranges from a smaller to a larger number, not {part}"
    return None


def _signal(value: str) -> str | None:
    expected = f"such as USR2@120 or B:USR2@120, at most {_MAX_SIGNAL_TIME_S} s before the end"
    match = re.fullmatch(
        rf"((B|R|BR|RB):)?(SIG)?({_SIGNAL_NAMES})(@(?P<time>\d{{1,5}}))?", value, re.ASCII
    )
    if match is None or int(match["time"] or 0) > _MAX_SIGNAL_TIME_S:
        return expected
    return None


def _option_value(value: object) -> str | None:
    return one_line(value) if isinstance(value, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions(Checked):
    """`[slurm]`: who pays, where and when; every other option through the two open tables."""

    account: str | None = optional("Account to charge (`--account`).", one_line)
    partition: str | None = optional("Partition (`--partition`).", one_line)
    qos: str | None = optional("Quality of service (`--qos`).", one_line)
    constraint: str | None = optional("Node features (`--constraint`).", one_line)
    reservation: str | None = optional("Reservation (`--reservation`).", one_line)
    nodelist: str | None = optional("Nodes to include (`--nodelist`).", one_line)
    exclude: str | None = optional("Nodes to avoid (`--exclude`).", one_line)
    dependency: str | None = optional("Jobs to wait for (`--dependency`).", one_line)
    licenses: str | None = optional("Licenses (`--licenses`).", one_line)
    array: str | None = optional("Job array (`--array`), such as `0-31%8`.", _array)
    begin: str | None = optional("Earliest start (`--begin`).", one_line)
    switches: str | None = optional(
        "Leaf switches at most (`--switches`), and how long to wait for so few, such as "
        "`1@2:00:00`; of clusters with topology/tree.",
        _SWITCHES,
    )
    segment: int | None = optional(
        "Nodes that must lie in one block together (`--segment`), of which `nodes` is a multiple; "
        "of clusters with topology/block, from Slurm 24.05 on. Not said: what the tensor and "
        "expert axes of `[parallel]` need at a site of blocks.",
        between(1, MAX_COUNT),
    )
    signal: str | None = optional(
        "Signal before the time limit (`--signal`), such as `B:USR2@120`.", _signal
    )
    requeue: bool = key(
        "May Slurm start the job again after a node failure or preemption (`--requeue`, else "
        "`--no-requeue`).",
        default=False,
    )
    comment: str | None = optional("Comment (`--comment`).", one_line)
    mail_user: str | None = optional("Whom to write (`--mail-user`).", one_line)
    mail_type: tuple[str, ...] = listed(
        "On which events (`--mail-type`), such as `END` and `FAIL`.",
        matching(r"[A-Z]+(_[A-Z0-9]+)*", "an event such as END or TIME_LIMIT_80"),
    )
    extra: Mapping[str, str | int | bool] = table(
        "Any other option of sbatch by its long name; `true` is the bare option, `false` leaves "
        "it out.",
        mapping(_OPTION_NAME, _option_value),
    )
    srun_extra: Mapping[str, str | int | bool] = table(
        "Any other option of srun by its long name.", mapping(_OPTION_NAME, _option_value)
    )
