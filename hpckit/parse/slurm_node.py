"""What Slurm's environment says of a job on this node."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_PER_NODE = re.compile(r"(\d{1,9})(?:\(x(\d{1,9})\))?", re.ASCII)
_MIB = 1024**2


def job_cpus(env: Mapping[str, str]) -> int | None:
    """The job's CPUs on this node: SLURM_JOB_CPUS_PER_NODE, such as `72(x2),36`, at SLURM_NODEID.

    A step's own SLURM_CPUS_ON_NODE would be the sampler's.
    """
    node = env.get("SLURM_NODEID", "0")
    if not (node.isascii() and node.isdigit()):
        return None
    index = int(node)
    for part in env.get("SLURM_JOB_CPUS_PER_NODE", "").split(","):
        match = _PER_NODE.fullmatch(part.strip())
        if match is None:
            return None
        index -= int(match[2] or "1")
        if index < 0:
            return int(match[1])
    return None


def job_memory_bytes(env: Mapping[str, str], cpus: int | None) -> int | None:
    """The job's memory on this node: SLURM_MEM_PER_NODE, or that of a CPU or GPU times these.

    The sampler's step is one without limits: the script gives it the job's own as HPCKIT_MEM_PER_…,
    and where one of these is set Slurm's are not looked at. None where the job has all of the
    node's, which Slurm writes as 0.
    """
    gpus = _number(env.get("SLURM_GPUS_ON_NODE", ""))
    counts = {"NODE": 1, "CPU": cpus, "GPU": gpus}
    whose = "HPCKIT" if any(env.get(f"HPCKIT_MEM_PER_{of}") for of in counts) else "SLURM"
    for of, count in counts.items():
        each = _number(env.get(f"{whose}_MEM_PER_{of}", ""))
        if each is not None and count is not None:
            return each * count * _MIB or None
    return None


def _number(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
