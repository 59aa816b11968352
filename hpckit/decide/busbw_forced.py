"""Which algorithms a job's own variables turn off.

Source: NCCL user guide, Environment Variables: NCCL_ALGO (a list, or one behind `^` that is left
out; since 2.24 also by function, behind a colon), NCCL_NVLS_ENABLE.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hpckit.model.busbw import Algorithm
from hpckit.model.comm import NcclVersion

RING_STAYS_OFF: Final = NcclVersion(2, 24)
"""Before it Ring steps in where NCCL_ALGO leaves a collective none; from it on NCCL fails.

Source: NCCL user guide, Environment Variables: NCCL_ALGO; NCCL src/enqueue.cc.
"""

_OF_NCCL: Final = frozenset(Algorithm) - {Algorithm.PAIRS}
_BY_SWITCH: Final = frozenset({Algorithm.NVLS, Algorithm.NVLS_TREE})


def forced_off(settings: Iterable[tuple[str, str]]) -> frozenset[Algorithm]:
    """The algorithms that (variable, value) turn off; none for a list by function."""
    found: frozenset[Algorithm] = frozenset()
    for name, value in settings:
        if name == "NCCL_NVLS_ENABLE" and value == "0":
            found |= _BY_SWITCH
        if name == "NCCL_ALGO" and ":" not in value:
            found |= _off_by_list(value)
    return found


def _off_by_list(value: str) -> frozenset[Algorithm]:
    words = {word.strip().lower() for word in value.removeprefix("^").split(",")}
    named = {one for one in _OF_NCCL if one.lower() in words}
    return frozenset(named if value.startswith("^") else _OF_NCCL - named)
