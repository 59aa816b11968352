"""Attempts and ranks over time: when each began and ended, how, and who is behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec import Struct

from hpckit.account.page.figures import NOT_COMPARED, clean, duration, percent
from hpckit.account.page.plots import TimeAxis
from hpckit.account.page.unusual import BEHIND_FRAC
from hpckit.account.values import GpuPlace, Incarnation, JobReport, RankAccount, Window

_MOST: Final = 32
_SIGNALLED: Final = 128
_LEAST_SCALE: Final = 0.1
"""What is behind by so much has a whole bar, however little the others are."""


class Stretch(Struct, frozen=True, kw_only=True):
    """From `first` for `width`, in percent of the axis; `look` is how it is drawn."""

    look: str
    first: str
    width: str
    about: str


class Row(Struct, frozen=True, kw_only=True):
    """One attempt or rank; `bar` is how far it is behind, in percent of the farthest."""

    name: str
    node: str
    stretches: tuple[Stretch, ...]
    end: str = ""
    is_bad: bool = False
    busy: str = ""
    behind: str = ""
    bar: str = ""
    is_behind: bool = False


class Timeline(Struct, frozen=True, kw_only=True):
    """Attempts, where there are several, and ranks; `note` says which ranks are not shown."""

    attempts: tuple[Row, ...]
    ranks: tuple[Row, ...]
    note: str
    looks: frozenset[str]


_Ran = Mapping[int, list[RankAccount]]
"""Each rank's accounts in the order of attempts; several steps may each have a rank 0."""


def timeline(report: JobReport, axis: TimeAxis) -> Timeline:
    """The attempts and at most 32 ranks: those that failed and are farthest behind of more."""
    lives = sorted(report.incarnations, key=lambda one: one.restart)
    attempts = tuple(
        Row(
            name=f"attempt {at}",
            node=_attempt(one),
            stretches=(
                _stretch(
                    report, axis, "lost" if one.is_lost else "ran", one.started_s, one.ended_s
                ),
            ),
            is_bad=one.is_lost,
        )
        for at, one in enumerate(lives, 1)
    )
    ran = _ran(report.ranks)
    shown = _shown(ran)
    scale = max([_LEAST_SCALE, *(one.behind_frac or 0.0 for one in report.ranks)])
    first = _first_failed(report.ranks)
    windows = {gpu.place: gpu.windows for gpu in report.gpus}
    rows = tuple(
        _rank_row(report, axis, its, windows, (scale, first))
        for its in (ran[rank] for rank in shown)
    )
    attempts = attempts if len(attempts) > 1 else ()
    more = f"{len(rows)} of {len(ran):,} ranks: those that failed first or are farthest behind"
    return Timeline(
        attempts=attempts,
        ranks=rows,
        note=more if len(rows) < len(ran) else "",
        looks=frozenset(one.look for row in chain(attempts, rows) for one in row.stretches),
    )


def _attempt(one: Incarnation) -> str:
    """`restart 1 · 15:00, lost`: how findings call it, and how long it took."""
    called = f"restart {one.restart} · " if one.restart else ""
    lost = ", lost" if one.is_lost else ""
    return f"{called}{duration(one.ended_s - one.started_s)}{lost}"


def _ran(ranks: Sequence[RankAccount]) -> _Ran:
    found: defaultdict[int, list[RankAccount]] = defaultdict(list)
    for one in sorted(ranks, key=lambda one: (one.restart, one.started_s)):
        found[one.rank].append(one)
    return found


def _shown(ran: _Ran) -> list[int]:
    if len(ran) <= _MOST:
        return sorted(ran)

    def interest(rank: int) -> tuple[bool, float, float]:
        own = [one for one in ran[rank] if _failed_by_itself(one)]
        ended_s = min((one.ended_s or one.started_s for one in own), default=0.0)
        return not own, ended_s, -max(one.behind_frac or 0.0 for one in ran[rank])

    return sorted(sorted(ran, key=interest)[:_MOST])


def _failed_by_itself(one: RankAccount) -> bool:
    """Whether it ended with a code of its own; a signal is mostly somebody else's doing."""
    return one.exit_code is not None and 0 < one.exit_code <= _SIGNALLED


def _first_failed(ranks: Sequence[RankAccount]) -> Mapping[int, RankAccount]:
    """Of each attempt the rank that failed first, where others ended badly after it."""
    found: dict[int, RankAccount] = {}
    bad = [one for one in ranks if one.exit_code]
    for one in sorted(bad, key=lambda one: (one.ended_s or one.started_s, one.rank)):
        if _failed_by_itself(one) and sum(other.restart == one.restart for other in bad) > 1:
            found.setdefault(one.restart, one)
    return found


def _rank_row(
    report: JobReport,
    axis: TimeAxis,
    its: Sequence[RankAccount],
    windows: Mapping[GpuPlace, tuple[Window, ...]],
    all_ranks: tuple[float, Mapping[int, RankAccount]],
) -> Row:
    scale, first = all_ranks
    behind = max((one.behind_frac for one in its if one.behind_frac is not None), default=None)
    nodes = list(dict.fromkeys(clean(one.node) for one in its))
    ends = list(dict.fromkeys(_end(one, first) for one in its))
    return Row(
        name=f"rank {its[0].rank}",
        node=" → ".join([nodes[0], *nodes[-1:]]) if len(nodes) > 1 else nodes[0],
        stretches=tuple(chain.from_iterable(_stretches(report, axis, one, windows) for one in its)),
        end=" → ".join([*ends[:1], *ends[-1:]] if len(ends) > 1 else ends),
        is_bad=bool(its[-1].exit_code),
        busy=NOT_COMPARED if its[-1].busy_frac is None else percent(its[-1].busy_frac),
        behind=NOT_COMPARED if behind is None else percent(behind),
        bar=f"{min(max(behind, 0.0) / scale, 1.0) * 100:.1f}" if behind else "",
        is_behind=(behind or 0.0) >= BEHIND_FRAC,
    )


def _end(one: RankAccount, first: Mapping[int, RankAccount]) -> str:
    if one.ended_by == "running":
        return "running"
    if one.exit_code is None:
        return "unknown"
    if one.exit_code > _SIGNALLED:
        return f"signal {one.exit_code - _SIGNALLED}"
    return f"{one.exit_code}, first" if first.get(one.restart) is one else str(one.exit_code)


def _stretches(
    report: JobReport,
    axis: TimeAxis,
    one: RankAccount,
    windows: Mapping[GpuPlace, tuple[Window, ...]],
) -> Iterator[Stretch]:
    """How long it ran, and over that when its GPUs did nothing."""
    ended_s = report.ended_s if one.ended_s is None else one.ended_s
    look = "failed" if one.exit_code else "ran"
    yield _stretch(report, axis, look, one.started_s, ended_s)
    for uuid in one.gpus:
        for window in windows.get((one.restart, one.node, uuid), ()):
            begun_s, done_s = max(window.started_s, one.started_s), min(window.ended_s, ended_s)
            if begun_s < done_s:
                yield _stretch(report, axis, window.kind, begun_s, done_s)


def _stretch(
    report: JobReport, axis: TimeAxis, look: str, begun_s: float, ended_s: float
) -> Stretch:
    first, last = (axis.share(at_s - report.started_s) for at_s in (begun_s, ended_s))
    when = f"{duration(begun_s - report.started_s)} to {duration(ended_s - report.started_s)}"
    return Stretch(
        look=clean(look),
        first=f"{first:.2f}%",
        width=f"{max(last - first, 0.15):.2f}%",
        about=f"{_LOOKS.get(look, clean(look))}, {when}",
    )


_LOOKS: Final = {
    "ran": "ran",
    "failed": "ended with an error",
    "lost": "lost to a requeue",
    "no-process": "GPU without a process",
    "idle": "GPU idle",
}
