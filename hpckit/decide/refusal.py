"""What would help when sbatch refuses a job: which command shows what there is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from hpckit.decide.pending import explain_limit

_ASSOCIATIONS: Final = (
    "your accounts, partitions and QOS: "
    "sacctmgr -P show assoc user=$USER format=Account,Partition,QOS"
)
_PARTITIONS: Final = "the partitions and their limits: sinfo --summarize"
_HELP: Final[Mapping[str, str]] = {
    "invalid partition specified": _PARTITIONS,
    "invalid account": _ASSOCIATIONS,
    "invalid qos": _ASSOCIATIONS,
    "requested node configuration is not available": (
        "what the nodes have: sinfo --format='%P %D %c %m %G %f'"
    ),
    "requested reservation is invalid": "the reservations: scontrol show reservation",
    "access denied to requested reservation": "the reservations: scontrol show reservation",
    "job dependency problem": "a dependency such as afterok:4242, of a job that Slurm still knows",
    "invalid job array specification": (
        "indices below MaxArraySize (hpckit doctor looks at it afresh): scontrol show config"
    ),
    "requested time limit is invalid": _PARTITIONS,
    "invalid feature specification": "the nodes' features: sinfo --format='%N %f'",
    "invalid generic resource": "what the nodes have: sinfo --format='%N %G'",
    "invalid license specification": "the licenses: scontrol show licenses",
    "node count specification invalid": _PARTITIONS,
    "more processors requested than permitted": _PARTITIONS,
    "memory specification can not be satisfied": "what the nodes have: sinfo --format='%N %m'",
}
"""The beginning of Slurm's sentence, small letters → what to look at. Source: slurm_errno.c."""


def explain_refusal(words: str) -> str | None:
    """What would help against a refusal in Slurm's words; None where only they tell."""
    for line in words.split("\n"):
        limit = explain_limit(line)
        if limit is not None:
            return f"ask for less, or another QOS or account: {limit}"
    lower = words.lower()
    return next((told for begins, told in _HELP.items() if begins in lower), None)
