"""What the ranks of a job used, as a comparison has it: all of them, or it is not known."""

from __future__ import annotations

from math import fsum
from typing import Final

from msgspec import Struct

from hpckit.measure.compare_why import NOT_MEASURED, which
from hpckit.model.account import JobReport

RANKS_ALONE: Final = "neither job has a GPU that was measured: what its ranks used is compared"
_NO_LEDGER: Final = "{:,} of {:,} ranks {} no ledger in {}"


class Used(Struct, frozen=True, kw_only=True):
    """CPU time and the largest process of the last incarnation; None where a rank tells none.

    `absent` of its `world_size` ranks left no ledger.
    """

    cpu_s: float | None
    max_rss_bytes: float | None
    absent: int
    world_size: int


def last_restart(report: JobReport) -> int:
    """The incarnation that a comparison is of."""
    runs, gpus = report.incarnations, report.gpus
    return max((*(one.restart for one in runs), *(one.restart for one in gpus)), default=0)


def used_by(report: JobReport, world_size: int | None) -> Used:
    """What is known of a job of which the ranks say that they were `world_size` (None: do not)."""
    last = last_restart(report)
    ranks = [rank for rank in report.ranks if rank.restart == last]
    known = len({rank.rank for rank in ranks})
    cpu_s = [rank.cpu_s for rank in ranks if rank.cpu_s is not None]
    rss_bytes = [rank.max_rss_bytes for rank in ranks if rank.max_rss_bytes is not None]
    absent = max(0, (world_size or 0) - known)
    is_whole = bool(ranks) and not absent
    return Used(
        cpu_s=fsum(cpu_s) if is_whole and len(cpu_s) == len(ranks) else None,
        max_rss_bytes=max(rss_bytes) if is_whole and len(rss_bytes) == len(ranks) else None,
        absent=absent,
        world_size=world_size or 0,
    )


def why_not_used(a: Used, b: Used, values: tuple[float | None, float | None]) -> str:
    """Why one of two values, A's and B's, is not known; empty where both are."""
    words = [
        _NO_LEDGER.format(one.absent, one.world_size, "has" if one.absent == 1 else "have", name)
        for name, one in zip("AB", (a, b), strict=True)
        if one.absent
    ]
    absent = [value is None and not one.absent for value, one in zip(values, (a, b), strict=True)]
    return "; ".join([*words, NOT_MEASURED.format(which(absent))] if any(absent) else words)
