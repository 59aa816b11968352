"""Ranks of several GPUs as plots: what their GPUs did together.

A rank of one GPU has that GPU's plot, which names it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from hpckit.model.account import GpuAccount, JobReport, RankAccount
from hpckit.model.gpu_ranks import GpuPlace
from hpckit.report.page_words import clean
from hpckit.report.plot_panels import Numbers, Panel, PlotGroup, gpu_panels, group_of, rounded_up

_MOST: Final = 8
_ADDED: Final = ("Power", "Memory")
_SEVERAL: Final = 2


def rank_groups(report: JobReport) -> list[PlotGroup]:
    """The ranks that used several GPUs, at most 8, the farthest behind before the others.

    One that was started anew on its GPUs is drawn once: their curves are of the whole time.
    """
    gpus = {(one.restart, one.node, one.uuid): one for one in report.gpus if one.curves}
    found = {
        (one.restart, one.node, one.rank, one.gpus): one
        for one in report.ranks
        if len(_gpus_of(one, gpus)) >= _SEVERAL
    }
    many = list(found.values())
    if len(many) > _MOST:
        worst = sorted(many, key=lambda one: -(one.behind_frac or 0.0))[:_MOST]
        many = [one for one in many if one in worst]
    return [_group(one, _gpus_of(one, gpus), at) for at, one in enumerate(many)]


def _gpus_of(rank: RankAccount, gpus: Mapping[GpuPlace, GpuAccount]) -> tuple[GpuAccount, ...]:
    keys = ((rank.restart, rank.node, uuid) for uuid in rank.gpus)
    return tuple(gpus[key] for key in keys if key in gpus)


def _group(rank: RankAccount, gpus: Sequence[GpuAccount], at: int) -> PlotGroup:
    panels: dict[str, list[Panel]] = {}
    for gpu in gpus:
        for panel in gpu_panels(gpu):
            panels.setdefault(panel.title, []).append(panel)
    together = tuple(_together(one) for one in panels.values() if len(one) == len(gpus))
    about = f"{len(gpus)} GPUs of {clean(rank.node)}: power and memory in sum, the rest in mean"
    return group_of(f"rank-{at}", (f"rank {rank.rank}", about), together, ())


def _together(panels: Sequence[Panel]) -> Panel:
    first = panels[0]
    is_added = first.title in _ADDED
    values, lows, highs = (
        _joined([(one.at_s, side(one)) for one in panels], first.at_s, is_added=is_added)
        for side in (_values, _lows, _highs)
    )
    limits = [one.limit for one in panels if one.limit is not None]
    has_limit = is_added and len(limits) == len(panels)
    return Panel(
        title=first.title,
        unit=first.unit,
        look=first.look,
        at_s=first.at_s,
        values=values,
        lows=lows,
        highs=highs,
        top=rounded_up(sum(one.top for one in panels)) if is_added else _highest(panels),
        limit=sum(limits) if has_limit else None,
    )


def _values(panel: Panel) -> Numbers:
    return panel.values


def _lows(panel: Panel) -> Numbers:
    return panel.lows


def _highs(panel: Panel) -> Numbers:
    return panel.highs


def _highest(panels: Iterable[Panel]) -> float:
    return max(one.top for one in panels)


def _joined(curves: Sequence[tuple[Numbers, Numbers]], at_s: Numbers, *, is_added: bool) -> Numbers:
    """The sum or mean at the times of the first; a gap of one is a gap of all."""
    if not at_s.size:
        return at_s
    same = [
        values if np.array_equal(times, at_s) else np.interp(at_s, times, values)
        for times, values in curves
        if times.size
    ]
    total: Numbers = np.sum(same, axis=0)
    return total if is_added else total / len(same)
