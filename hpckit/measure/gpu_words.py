"""How findings name GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from hpckit.model.account import GpuAccount
from hpckit.model.index_list import index_list
from hpckit.model.report_finding import Subject


def of_gpu(gpu: GpuAccount) -> Subject:
    """`GPU3 on n013`."""
    return Subject(what=gpu.label, nodes=(gpu.node,), restart=gpu.restart)


def of_gpus(gpus: Iterable[GpuAccount]) -> Subject:
    """GPUs of one node and run: `GPU0-3,7 on n013`."""
    ordered = list(gpus)
    indices = [gpu.index for gpu in ordered if gpu.index is not None]
    named = sorted(gpu.uuid for gpu in ordered if gpu.index is None)
    words = ([f"GPU{index_list(indices)}"] if indices else []) + named
    first = ordered[0]
    return Subject(what=", ".join(words), nodes=(first.node,), restart=first.restart)
