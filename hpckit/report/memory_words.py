"""Memory of GPUs, nodes and processes as a row of a job's report."""

from __future__ import annotations

from collections.abc import Iterator

from hpckit.model.account import JobReport
from hpckit.report.quantities import memory

_Least = tuple[int, str]


def memory_parts(report: JobReport) -> list[str]:
    """The most memory of a GPU, and what a node had at least, beside what there was."""
    parts = []
    used = [one for one in report.gpus if one.mem_peak_bytes is not None]
    if used:
        top = max(used, key=lambda one: one.mem_peak_bytes or 0)
        which = top.label
        of = _of(top.mem_peak_bytes or 0, top.mem_bytes)
        parts.append(f"GPU {of} ({which} on {top.node})")
    known = [*_sampled(report), *_processes(report)]
    if known:
        parts.append(max(known, key=lambda one: one[0])[1])
    kills = sum(one.oom_kills or 0 for one in report.nodes)
    if kills:
        parts.append(f"{'1 process' if kills == 1 else f'{kills:,} processes'} killed for memory")
    return [part if not at else f"· {part}" for at, part in enumerate(parts)]


def _sampled(report: JobReport) -> Iterator[_Least]:
    """Of each node what samples saw: what comes and goes between two of them is not in it."""
    for one in report.nodes:
        if one.mem_peak_bytes is not None:
            of = _of(one.mem_peak_bytes, one.mem_limit_bytes)
            yield one.mem_peak_bytes, f"node at least {of} ({one.node})"


def _processes(report: JobReport) -> Iterator[_Least]:
    """Of each rank its largest process by the kernel: its node had as much at some moment."""
    limits = {(one.node, one.restart): one.mem_limit_bytes for one in report.nodes}
    for one in report.ranks:
        if one.max_rss_bytes is None:
            continue
        limit_bytes = limits.get((one.node, one.restart))
        size = _of(one.max_rss_bytes, limit_bytes)
        if limit_bytes:
            text = f"node at least {size} (a process of rank {one.rank}, {one.node})"
        else:
            text = f"largest process {size} (rank {one.rank})"
        yield one.max_rss_bytes, text


def _of(used_bytes: int, all_bytes: int | None) -> str:
    """`57 of 75 GiB`, `445 MiB of 64 GiB`."""
    used = memory(used_bytes)
    if not all_bytes:
        return used
    of_all = memory(all_bytes)
    return f"{used.removesuffix(of_all[-4:])} of {of_all}"
