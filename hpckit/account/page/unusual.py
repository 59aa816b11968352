"""Which GPUs of a job are unusual: by findings, by ranks that are behind, by their useful time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from statistics import median
from typing import Final

from hpckit.account.page.figures import clean, gpu_words, percent
from hpckit.account.page.plots import Board, Named
from hpckit.account.values import GpuAccount, JobReport, ranks_by_gpu
from hpckit.core.findings import gravest_first
from hpckit.core.units import format_indices

_MOST: Final = 5
"""So many colours can be told apart."""
BEHIND_FRAC: Final = 0.05
_DIFFERS_FRAC: Final = 0.10
_LONGEST: Final = 110


def unusual_gpus(report: JobReport) -> tuple[Mapping[Board, Named], int]:
    """At most five with what is unusual of each, the gravest first; how many more there are.

    What is so of more than half of the GPUs is not unusual. A job's only GPU is named too.
    """
    drawn = {(gpu.node, gpu.uuid): gpu for gpu in report.gpus if gpu.curves}
    ranks = ranks_by_gpu(report)
    found: dict[Board, str] = {}
    for board, because in _candidates(report):
        if board in drawn and (because or board not in found):
            found.setdefault(board, because)
    if len(drawn) == 1:
        found = dict.fromkeys(drawn, next(iter(found.values()), ""))
    one_node = len({node for node, _ in drawn}) == 1
    named = {
        board: Named(
            look=f"n{at}",
            name=clean(drawn[board].label) if one_node else gpu_words(drawn[board]),
            because=_because(drawn[board], ranks.get(drawn[board].place, ()), because),
        )
        for at, (board, because) in enumerate(list(found.items())[:_MOST])
    }
    return named, max(len(found) - _MOST, 0)


def _because(gpu: GpuAccount, ranks: tuple[int, ...], because: str) -> str:
    who = f"rank {format_indices(ranks)}" if ranks else "no rank"
    said = clean(because)
    said = f"{said[:_LONGEST].rstrip()}…" if len(said) > _LONGEST else said
    return " · ".join(part for part in (who, said) if part)


def _candidates(report: JobReport) -> Iterator[tuple[Board, str]]:
    half = max(len({(gpu.node, gpu.uuid) for gpu in report.gpus}) / 2, 1)
    for of_rule in _by_rule(report).values():
        if len(of_rule) <= half:
            yield from of_rule.items()
    behind = {
        (rank.node, uuid): f"{percent(rank.behind_frac)} behind"
        for rank in sorted(report.ranks, key=lambda one: -(one.behind_frac or 0.0))
        if (rank.behind_frac or 0.0) >= BEHIND_FRAC
        for uuid in rank.gpus
    }
    if len(behind) <= half:
        yield from behind.items()
    yield from _differing(report)


def _by_rule(report: JobReport) -> Mapping[str, Mapping[Board, str]]:
    """What findings say of single GPUs, by rule, the gravest first."""
    by_name = {(gpu.label, gpu.node, gpu.restart): (gpu.node, gpu.uuid) for gpu in report.gpus}
    found: defaultdict[str, dict[Board, str]] = defaultdict(dict)
    for finding in gravest_first(report.findings):
        about = finding.about
        for node in about.nodes:
            if board := by_name.get((about.what, node, about.restart)):
                found[finding.rule].setdefault(board, finding.because)
    return found


def _differing(report: JobReport) -> Iterator[tuple[Board, str]]:
    """GPUs of the last attempt whose useful share is far from the median, the farthest first."""
    last = max((gpu.restart for gpu in report.gpus), default=0)
    useful = {
        (gpu.node, gpu.uuid): gpu.waste.useful_gpu_s / gpu.waste.total_gpu_s
        for gpu in report.gpus
        if gpu.restart == last and gpu.waste.is_measured
    }
    if not useful:
        return
    middle = median(useful.values())
    for board, frac in sorted(useful.items(), key=lambda one: -abs(one[1] - middle)):
        if abs(frac - middle) > _DIFFERS_FRAC:
            yield board, f"useful {percent(frac)} (median {percent(middle)})"
