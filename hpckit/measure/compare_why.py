"""Why a quantity of two jobs has no interval, and how much more of them would give one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import ceil
from typing import Final

import numpy as np

from hpckit.measure.compare_series import WARM_UP_FRAC
from hpckit.measure.spread import LEAST_INDEPENDENT, LEAST_SAMPLES, Floats, lack_of
from hpckit.model.account import JobReport

_MINUTE_S: Final = 60.0
_HOUR_S: Final = 3600.0
NOT_MEASURED: Final = "not measured in {}"
_FEW: Final = "{} {} sampled for too short a time: {} more"
_SLOW: Final = "{} {} too short for how slowly this changes: about {} more"


def why_unknown(
    matrices: Sequence[Floats | None], bins_s: Sequence[float], absent: str = NOT_MEASURED
) -> str:
    """A sentence on those of two matrices, A's and B's, that tell no variance; empty for none.

    `bins_s` is how long a moment of each is; `absent` is what is said of one without values, with
    `{}` for which.
    """
    found: dict[str, list[tuple[str, float]]] = {}
    for name, matrix, bin_s in zip("AB", matrices, bins_s, strict=True):
        for kind, more_s in _lack(matrix, bin_s, absent):
            found.setdefault(kind, []).append((name, more_s))
    return "; ".join(_sentence(kind, sides) for kind, sides in found.items())


def which(are_absent: Sequence[bool]) -> str:
    """`A`, `B` or `A and B`."""
    return " and ".join(name for name, is_so in zip("AB", are_absent, strict=True) if is_so)


def notes_of_missing(*reports: JobReport) -> Iterator[str]:
    """That a report has less than its job had, of A's and B's each."""
    for name, report in zip("AB", reports, strict=True):
        if report.missing:
            yield f"of {name} something is missing: its own report says what"


def _lack(matrix: Floats | None, bin_s: float, absent: str) -> list[tuple[str, float]]:
    """What is said of a matrix, and how many seconds more it would take; nothing of a good one."""
    if matrix is None or not np.isfinite(matrix).any():
        return [(absent, 0.0)]
    lack = lack_of(matrix)
    if lack is None:
        return []
    if lack.independent is None:
        return [(_FEW, (LEAST_SAMPLES - lack.moments) * bin_s)]
    # What hangs together for as long is worth as many samples more as there is more of it.
    return [(_SLOW, lack.moments * bin_s * (LEAST_INDEPENDENT / lack.independent - 1))]


def _sentence(kind: str, sides: Sequence[tuple[str, float]]) -> str:
    names = " and ".join(name for name, _ in sides)
    if kind not in (_FEW, _SLOW):
        return kind.format(names)
    is_one = len(sides) == 1
    be = {_FEW: ("was", "were"), _SLOW: ("is", "are")}[kind][0 if is_one else 1]
    # A part of what a job has more is left out as its start.
    more_s = max(more_s for _, more_s in sides) / (1 - WARM_UP_FRAC)
    time = f"{ceil(more_s)} s" if kind is _FEW else _rough(more_s)
    return kind.format(names, be, time) + ("" if is_one else " each")


def _rough(seconds: float) -> str:
    """Rounded up: how long samples hang together is an estimate."""
    if seconds <= _MINUTE_S:
        return f"{ceil(seconds / 10) * 10} s"
    if seconds <= 2 * _HOUR_S:
        return f"{ceil(seconds / _MINUTE_S)} min"
    return f"{ceil(seconds / _HOUR_S)} h"
