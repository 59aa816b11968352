"""The CPUs that the ranks of a node may have together, as Linux and Slurm tell."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

SEEN_S: Final = 0.3
"""How long the others of a node may take to be seen."""
_POLL_S = 0.05
_SYS_CPU = "/sys/devices/system/cpu"


def allowed_together(
    env: Mapping[str, str], ranks: int, proc: str = "/proc", sys_cpu: str = _SYS_CPU
) -> tuple[list[int], str]:
    """The CPUs that the ranks of this node have together, and why none of them is to be bound.

    Nothing is bound where other jobs may be on those CPUs: the node lets this one use more than
    Slurm gave it, counted in cores where the job asked for one CPU of each. Nor is it where only
    some of them can be seen, as under /proc with hidepid: the ranks would all be moved onto those.
    """
    from time import monotonic, sleep

    text = env.get("SLURM_CPUS_ON_NODE", "")
    given = int(text) if text.isascii() and text.isdigit() else 0
    whole, until = min(given, os.cpu_count() or 1), monotonic() + SEEN_S
    while True:
        allowed, seen = allowed_here(proc)
        if len(allowed) >= whole or seen >= ranks:
            break
        if monotonic() > until:
            why = f"{len(allowed)} of the {given} CPUs that Slurm gave this job can be seen"
            return sorted(allowed), f"{why}: those of its other ranks are hidden"
        sleep(_POLL_S)
    if 0 < given < len(allowed) and not (_takes_cores(env) and _cores(allowed, sys_cpu) <= given):
        why = f"it lets this job use {len(allowed)} CPUs, and Slurm gave it {given}"
        return sorted(allowed), f"{why}: other jobs may be on any of them"
    return sorted(allowed), ""


def _takes_cores(env: Mapping[str, str]) -> bool:
    """Whether the job asked for whole cores, of which Slurm counts one CPU each (sbatch(1))."""
    has_hint = "nomultithread" in env.get("SLURM_HINT", "").split(",")
    return has_hint or env.get("SLURM_THREADS_PER_CORE") == "1"


def _cores(cpus: set[int], sys_cpu: str) -> int:
    """How many cores CPUs are of; of a CPU without siblings in sysfs it is one of its own."""
    found = set()
    for cpu in cpus:
        try:
            with open(f"{sys_cpu}/cpu{cpu}/topology/thread_siblings_list", encoding="ascii") as one:
                found.add(one.read())
        except (OSError, ValueError):
            found.add(str(cpu))
    return len(found)


def allowed_here(proc: str = "/proc") -> tuple[set[int], int]:
    """The CPUs of the ranks of this node, and how many ranks were seen.

    A launcher may have bound each already: they are this process's and those of its parent's other
    children of the same user.
    """
    found, seen = os.sched_getaffinity(0), 0
    parent, own = os.getppid(), os.getuid()
    try:
        with open(f"{proc}/{parent}/task/{parent}/children", encoding="ascii") as stream:
            children = stream.read().split()
    except (OSError, ValueError):
        return found, seen
    for pid in children:
        try:
            if os.stat(f"{proc}/{pid}").st_uid == own:
                found |= os.sched_getaffinity(int(pid))
                seen += 1
        except (OSError, ValueError):
            continue
    return found, seen
