"""A GPU against the others of its job: robust statistics, so that one odd GPU moves nothing."""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

MAD_SIGMAS: Final = 5.0
"""So many standard deviations from the median of the others are odd: of normal scatter it is one
value in 1.7 million."""

SIGMA_OF_MAD: Final = 1.4826
"""The standard deviation of a normal distribution, by its median absolute deviation."""

_LEAST_GROUP: Final = 2

Key = TypeVar("Key", bound=Hashable)


def median_of_others(values: Mapping[Key, float], key: Key) -> float | None:
    """The median of all values but one; None without others."""
    others = [value for one, value in values.items() if one != key]
    return statistics.median(others) if others else None


def scatter(values: Sequence[float]) -> float:
    """The standard deviation that the middle half of the values suggests; some value at least."""
    middle = statistics.median(values)
    return SIGMA_OF_MAD * statistics.median(abs(value - middle) for value in values)


def above(values: Mapping[Key, float], floor: float) -> dict[Key, float]:
    """Those that are odd upwards, and by how much they are above the median of the others.

    Odd is more than `floor`, and more than MAD_SIGMAS × the scatter of the others. Half of all may
    be odd, as the GPUs of a slow node beside those of a fast one; of most of them none is.
    """
    found: dict[Key, float] = {}
    if len(values) < _LEAST_GROUP:
        return found
    least = sorted(values.values())[len(values) // 2 - 1]  # no median of others is below this
    for key, value in values.items():
        if value - least <= floor:
            continue
        others = [other for one, other in values.items() if one != key]
        excess = value - statistics.median(others)
        if excess > max(floor, MAD_SIGMAS * scatter(others)):
            found[key] = excess
    return found
