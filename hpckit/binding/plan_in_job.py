"""The plan of a node for its ranks: what the node looks like, bound, as one document."""

from __future__ import annotations

import json
import os
import re
import signal

from hpckit.core.files_in_job import write_whole
from hpckit.core.late import regex

TYPE_CHECKING = False

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from hpckit.binding.bind import NodeBinding
    from hpckit.node.node_file import NodeSettings
    from hpckit.node.topology import NodeTopology


LIMIT_S = 30
"""Then the process that reads the node is killed, whatever it does."""


def plan_here(
    ranks: int,
    allowed: Sequence[int] | None = None,
    *,
    driver_s: float | None = LIMIT_S,
    settings: NodeSettings | None = None,
    step_gpus: str = "",
) -> NodeBinding:
    """The binding of this node's ranks to CPUs that are allowed, those of this process if None.

    The GPU driver is waited for `driver_s` seconds; None asks none, and then GPUs take no part.
    `settings` are in place of the node's own; `step_gpus` is SLURM_STEP_GPUS. Raises HpckitError.
    """
    from hpckit.binding.bind import bind_ranks
    from hpckit.binding.gpus import gpus_of_step

    node = gpus_of_step(_node(driver_s, settings), step_gpus)
    own = sorted(os.sched_getaffinity(0)) if allowed is None else allowed
    return bind_ranks(node, ranks, allowed=own)


def _node(driver_s: float | None, settings: NodeSettings | None) -> NodeTopology:
    from dataclasses import replace
    from pathlib import Path

    from hpckit.node.capture.nvml import NvmlDriver
    from hpckit.node.capture.sysfs import SysfsFiles
    from hpckit.node.merge import inspect_here
    from hpckit.node.node_file import node_settings

    files = SysfsFiles(Path((settings or node_settings()).sysroot))
    if driver_s is None:
        return replace(inspect_here(files, None), gpus=(), paths=None)
    return inspect_here(files, NvmlDriver(driver_s))


def document_of(binding: NodeBinding, allowed: Sequence[int]) -> dict[str, Any]:
    """The document of a binding (`hpckit.binding/1`); `allowed` are the CPUs of all its ranks."""
    from hpckit import __version__
    from hpckit.binding.bind import BINDING_SCHEMA
    from hpckit.core.fields import to_tree
    from hpckit.core.index_list import index_list

    head = {"schema": BINDING_SCHEMA, "hpckit": __version__, "allowed": index_list(allowed)}
    return {**head, **to_tree(binding)}


def cpu_plan(ranks: int, allowed: Sequence[int], because: str) -> dict[str, Any]:
    """The document of a node whose GPUs take no part, with a note of why. Raises HpckitError."""
    document = document_of(plan_here(ranks, allowed, driver_s=None), allowed)
    return {**document, "notes": [f"GPUs ignored: {because}", *document["notes"]]}


def publish(path: str, document: dict[str, Any]) -> None:
    """Write a document unless there is one: the first is everybody's. Raises OSError.

    Its folder is there; where the ranks have removed it already, nobody waits any more.
    """
    data = json.dumps(document, separators=(",", ":")).encode()
    write_whole(path, data, keeps_first=True)


def plan_and_publish(path: str, ranks: int, allowed: Sequence[int], step_gpus: str) -> None:
    """What a process of its own does: it lets go of the rank's files, and ends in LIMIT_S."""
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGALRM,))
    signal.alarm(LIMIT_S)
    quiet = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(quiet, fd)
    os.closerange(3, min(os.sysconf("SC_OPEN_MAX"), 1 << 16))
    publish(path, document_or_less(ranks, allowed, step_gpus))


def document_or_less(ranks: int, allowed: Sequence[int], step_gpus: str = "") -> dict[str, Any]:
    """The document with GPUs, or without and with the reason. Raises HpckitError."""
    try:
        return document_of(plan_here(ranks, allowed, step_gpus=step_gpus), allowed)
    except Exception as error:  # noqa: BLE001  whatever it is, the CPUs alone are better than none
        return cpu_plan(ranks, allowed, f"{type(error).__name__}: {error}")


# --- What Slurm's environment says of a job on this node.
_PER_NODE = regex(r"(\d{1,9})(?:\(x(\d{1,9})\))?", re.ASCII)


def job_cpus(env: Mapping[str, str]) -> int | None:
    """The job's CPUs on this node: SLURM_JOB_CPUS_PER_NODE, such as `72(x2),36`, at SLURM_NODEID.

    A step's own SLURM_CPUS_ON_NODE would be the sampler's.
    """
    index = number_in({"SLURM_NODEID": "0", **env}, "SLURM_NODEID")
    if index is None:
        return None
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
    gpus = number_in(env, "SLURM_GPUS_ON_NODE")
    counts = {"NODE": 1, "CPU": cpus, "GPU": gpus}
    whose = "HPCKIT" if any(env.get(f"HPCKIT_MEM_PER_{of}") for of in counts) else "SLURM"
    for of, count in counts.items():
        each = number_in(env, f"{whose}_MEM_PER_{of}")
        if each is not None and count is not None:
            return each * count * 1024**2 or None
    return None


def number_in(env: Mapping[str, str], name: str) -> int | None:
    """Return the number that a variable has, None for anything else."""
    text = env.get(name, "")
    return int(text) if text.isascii() and text.isdigit() else None
