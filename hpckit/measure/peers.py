"""A GPU against the others of its job: robust statistics, so that one odd GPU moves nothing."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Mapping
from typing import Final, TypeVar

import numpy as np

MAD_SIGMAS: Final = 5.0
"""So many standard deviations from the median of the others are odd: of normal scatter it is one
value in 1.7 million."""

SIGMA_OF_MAD: Final = 1.4826
"""The standard deviation of a normal distribution, by its median absolute deviation."""

Key = TypeVar("Key", bound=Hashable)


class Ordered:
    """Values in their order: medians of all but one, without sorting again for each."""

    def __init__(self, values: Iterable[float]) -> None:
        self._values = sorted(values)
        self._array = np.array(self._values, np.float64)

    def median_without(self, value: float | None) -> float | None:
        """The median without one such value, if there is one; None where none is left."""
        place, left = self._place(value)
        if left <= 0:
            return None
        middle = [self._values[at + (at >= place)] for at in ((left - 1) // 2, left // 2)]
        return sum(middle) / len(middle)

    def scatter_without(self, value: float, middle: float) -> float:
        """The standard deviation that the middle half of the others suggests, about `middle`."""
        others = np.delete(self._array, self._place(value)[0])
        return SIGMA_OF_MAD * float(np.median(np.abs(others - middle)))

    def _place(self, value: float | None) -> tuple[int, int]:
        """Where the value is, and how many are left without it."""
        count = len(self._values)
        place = count if value is None else bisect_left(self._values, value)
        is_there = place < count and self._values[place] == value
        return (place, count - 1) if is_there else (count, count)


def above(values: Mapping[Key, float], floor: float) -> dict[Key, float]:
    """Those that are odd upwards, and by how much they are above the median of the others.

    Odd is more than `floor`, and more than MAD_SIGMAS × the scatter of the others. Half of all may
    be odd, as the GPUs of a slow node beside those of a fast one; of most of them none is.
    """
    found: dict[Key, float] = {}
    ordered = Ordered(values.values())
    for key, value in values.items():
        middle = ordered.median_without(value)
        if middle is None or value - middle <= floor:
            continue
        if value - middle > MAD_SIGMAS * ordered.scatter_without(value, middle):
            found[key] = value - middle
    return found
