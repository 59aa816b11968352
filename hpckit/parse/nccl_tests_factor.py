"""Which collective a table of nccl-tests is of, where the output does not name its program.

Releases before 2.17.4 do not. Bus bandwidth is algorithm bandwidth by a factor that belongs to the
collective, which two of those that reduce have to themselves. Source: nccl-tests,
doc/PERFORMANCE.md, and the columns `redop` and `root` of src/*.cu.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hpckit.model.nccl_run import BusbwFigures, BusbwRow

_FEWEST: Final = 2
_LEAST_TOLD: Final = 1e9
"""Both figures are printed to 0.01 GB/s: from 1 GB/s on their ratio is exact to 2 %."""
_EXACT: Final = 0.03


def collective_of(rows: Sequence[BusbwRow], ranks: int) -> str | None:
    """AllReduce or ReduceScatter, where the factor says so; None for all others, and if unsure."""
    if ranks < _FEWEST or not rows:
        return None
    row = max(rows, key=lambda one: one.size_bytes)
    is_reduced = row.redop not in (None, "none") and row.root in (None, -1)
    figures = [one for one in row.figures if one.algbw_bytes_per_s >= _LEAST_TOLD]
    if not is_reduced or not figures:
        return None
    part = (ranks - 1) / ranks
    for factor, name in ((2 * part, "AllReduce"), (part, "ReduceScatter")):
        if all(_has(one, factor) for one in figures):
            return name
    return None


def _has(one: BusbwFigures, factor: float) -> bool:
    return abs(one.busbw_bytes_per_s / one.algbw_bytes_per_s - factor) <= _EXACT * factor
