"""`[slurm]` of a job file: sbatch's options that say who pays, where and when."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from hpckit.core.fields import (
    MAX_COUNT,
    Checked,
    between,
    every,
    key,
    mapping,
    matching,
    one_line,
)

_OPTION_NAME = matching(r"[a-z][a-z0-9]*(-[a-z0-9]+)*", "a long option name without its dashes")
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

    account: str | None = key("Account to charge (`--account`).", default=None, check=one_line)
    partition: str | None = key("Partition (`--partition`).", default=None, check=one_line)
    qos: str | None = key("Quality of service (`--qos`).", default=None, check=one_line)
    constraint: str | None = key("Node features (`--constraint`).", default=None, check=one_line)
    reservation: str | None = key("Reservation (`--reservation`).", default=None, check=one_line)
    nodelist: str | None = key("Nodes to include (`--nodelist`).", default=None, check=one_line)
    exclude: str | None = key("Nodes to avoid (`--exclude`).", default=None, check=one_line)
    dependency: str | None = key("Jobs to wait for (`--dependency`).", default=None, check=one_line)
    licenses: str | None = key("Licenses (`--licenses`).", default=None, check=one_line)
    array: str | None = key("Job array (`--array`), such as `0-31%8`.", default=None, check=_array)
    begin: str | None = key("Earliest start (`--begin`).", default=None, check=one_line)
    switches: str | None = key(
        "Leaf switches at most (`--switches`), and how long to wait for so few, such as "
        "`1@2:00:00`; of clusters with topology/tree.",
        default=None,
        check=_SWITCHES,
    )
    segment: int | None = key(
        "Nodes that must lie in one block together (`--segment`), of which `nodes` is a multiple; "
        "of clusters with topology/block, from Slurm 24.05 on.",
        default=None,
        check=between(1, MAX_COUNT),
    )
    signal: str | None = key(
        "Signal before the time limit (`--signal`), such as `B:USR2@120`.",
        default=None,
        check=_signal,
    )
    requeue: bool = key(
        "May Slurm start the job again after a node failure or preemption (`--requeue`, else "
        "`--no-requeue`).",
        default=False,
    )
    comment: str | None = key("Comment (`--comment`).", default=None, check=one_line)
    mail_user: str | None = key("Whom to write (`--mail-user`).", default=None, check=one_line)
    mail_type: tuple[str, ...] = key(
        "On which events (`--mail-type`), such as `END` and `FAIL`.",
        default=(),
        check=every(matching(r"[A-Z]+(_[A-Z0-9]+)*", "an event such as END or TIME_LIMIT_80")),
    )
    extra: Mapping[str, str | int | bool] = key(
        "Any other option of sbatch by its long name; `true` is the bare option, `false` leaves "
        "it out.",
        factory=dict,
        check=mapping(_OPTION_NAME, _option_value),
    )
    srun_extra: Mapping[str, str | int | bool] = key(
        "Any other option of srun by its long name.",
        factory=dict,
        check=mapping(_OPTION_NAME, _option_value),
    )
