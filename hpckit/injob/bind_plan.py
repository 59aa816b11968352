"""The plan of a node for its ranks: what the node looks like, bound, as one document."""

from __future__ import annotations

import json
import os
import signal

from hpckit.injob.whole_file import write_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from hpckit.model.binding import NodeBinding
    from hpckit.model.hardware import NodeTopology
    from hpckit.parse.node_file import NodeSettings

LIMIT_S = 30
"""Then the process that reads the node is killed, whatever it does."""
_MOST_FILES = 1 << 16


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
    from hpckit.decide.binding import bind_ranks
    from hpckit.decide.binding_gpus import gpus_of_step

    node = gpus_of_step(_node(driver_s, settings), step_gpus)
    own = sorted(os.sched_getaffinity(0)) if allowed is None else allowed
    return bind_ranks(node, ranks, allowed=own)


def _node(driver_s: float | None, settings: NodeSettings | None) -> NodeTopology:
    from dataclasses import replace
    from pathlib import Path

    from hpckit.adapters.node_file import node_settings
    from hpckit.adapters.nvml import NvmlDriver
    from hpckit.adapters.sysfs import SysfsFiles
    from hpckit.app.inspect import inspect_here
    from hpckit.model.nvml_reading import NvmlReading, NvmlRefusal

    class Silent:
        """A driver that is not asked."""

        def read(self) -> NvmlReading:
            return NvmlReading(refused=NvmlRefusal(reason="not asked"))

    files = SysfsFiles(Path((settings or node_settings()).sysroot))
    if driver_s is None:
        return replace(inspect_here(files, Silent()), gpus=(), paths=None)
    return inspect_here(files, NvmlDriver(driver_s))


def document_of(binding: NodeBinding, allowed: Sequence[int]) -> dict[str, Any]:
    """The document of a binding (`hpckit.binding/1`); `allowed` are the CPUs of all its ranks."""
    from hpckit import __version__
    from hpckit.model.binding import BINDING_SCHEMA
    from hpckit.model.index_list import index_list
    from hpckit.model.tree import to_tree

    head = {"schema": BINDING_SCHEMA, "hpckit": __version__, "allowed": index_list(allowed)}
    return {**head, **to_tree(binding)}


def cpu_plan(ranks: int, allowed: Sequence[int], because: str) -> dict[str, Any]:
    """The document of a node whose GPUs take no part, with a note of why. Raises HpckitError."""
    document = document_of(plan_here(ranks, allowed, driver_s=None), allowed)
    return {**document, "notes": [f"GPUs take no part: {because}", *document["notes"]]}


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
    os.closerange(3, min(os.sysconf("SC_OPEN_MAX"), _MOST_FILES))
    publish(path, document_or_less(ranks, allowed, step_gpus))


def document_or_less(ranks: int, allowed: Sequence[int], step_gpus: str = "") -> dict[str, Any]:
    """The document with GPUs, or without and with the reason. Raises HpckitError."""
    try:
        return document_of(plan_here(ranks, allowed, step_gpus=step_gpus), allowed)
    except Exception as error:  # noqa: BLE001  whatever it is, the CPUs alone are better than none
        return cpu_plan(ranks, allowed, f"{type(error).__name__}: {error}")
