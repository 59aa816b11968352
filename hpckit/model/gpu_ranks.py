"""Which ranks had which GPU, by a report."""

from __future__ import annotations

from collections.abc import Mapping

from hpckit.model.account import JobReport

GpuPlace = tuple[int, str, str]
"""Restart, node and uuid: two nodes may name one GPU."""


def ranks_by_gpu(report: JobReport) -> Mapping[GpuPlace, tuple[int, ...]]:
    """The ranks that had each GPU, each once, in their order; none of a GPU that no rank had."""
    ranks: dict[GpuPlace, set[int]] = {}
    for rank in report.ranks:
        for uuid in rank.gpus:
            ranks.setdefault((rank.restart, rank.node, uuid), set()).add(rank.rank)
    return {place: tuple(sorted(its)) for place, its in ranks.items()}
