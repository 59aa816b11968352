"""How findings name GPUs and write shares."""

from __future__ import annotations

from collections.abc import Iterable

from hpckit.model.account import GpuAccount
from hpckit.model.index_list import index_list

_PERCENT = 100


def place(node: str, restart: int) -> str:
    """A node's name; `n013 (restart 1)` in a run after a requeue, which may have it again."""
    return f"{node} (restart {restart})" if restart else node


def gpu_name(gpu: GpuAccount) -> str:
    """`GPU3 on n013`; a GPU that only a ledger names goes by its uuid."""
    name = gpu.uuid if gpu.index is None else f"GPU{gpu.index}"
    return f"{name} on {place(gpu.node, gpu.restart)}"


def gpu_names(gpus: Iterable[GpuAccount]) -> str:
    """GPUs of one node and run: `GPU0-3,7 on n013`."""
    ordered = list(gpus)
    indices = [gpu.index for gpu in ordered if gpu.index is not None]
    named = sorted(gpu.uuid for gpu in ordered if gpu.index is None)
    words = ([f"GPU{index_list(indices)}"] if indices else []) + named
    return f"{', '.join(words)} on {place(ordered[0].node, ordered[0].restart)}"


def percent(frac: float) -> str:
    """`9 %`; a small share that is not 0 does not read 0."""
    shown = frac * _PERCENT
    return f"{shown:.0f} %" if shown == 0 or shown >= 1 else f"{shown:.1f} %"
