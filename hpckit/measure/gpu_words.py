"""How findings name GPUs."""

from __future__ import annotations

from collections.abc import Iterable

from hpckit.model.account import GpuAccount
from hpckit.model.index_list import index_list
from hpckit.model.report_finding import Subject


def gpu_name(gpu: GpuAccount) -> str:
    """`GPU3`; a GPU that only a ledger names goes by its uuid."""
    return gpu.uuid if gpu.index is None else f"GPU{gpu.index}"


def of_gpu(gpu: GpuAccount, ranks: tuple[int, ...] = ()) -> Subject:
    """`GPU3 on n013`."""
    return Subject(what=gpu_name(gpu), nodes=(gpu.node,), restart=gpu.restart, ranks=ranks)


def of_gpus(gpus: Iterable[GpuAccount]) -> Subject:
    """GPUs of one node and run: `GPU0-3,7 on n013`."""
    ordered = list(gpus)
    indices = [gpu.index for gpu in ordered if gpu.index is not None]
    named = sorted(gpu.uuid for gpu in ordered if gpu.index is None)
    words = ([f"GPU{index_list(indices)}"] if indices else []) + named
    first = ordered[0]
    return Subject(what=", ".join(words), nodes=(first.node,), restart=first.restart)
