"""The parallel mesh of a job with what each axis sends, as placement sees it.

Pure Python: it is read inside a job too.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import prod


class Pattern(StrEnum):
    """Who talks to whom in a group of ranks."""

    RING = "ring"  # all-reduce, all-gather, reduce-scatter: each to the next, and around
    CHAIN = "chain"  # pipeline stages: each to the next and back, and not around
    ALL_TO_ALL = "all-to-all"  # experts: each to each


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshAxis:
    """One axis: `bytes_per_rank` is the size of what each rank gives to the collective in a step.

    Of a ring all-reduce of v bytes among s ranks each sends 2(s−1)/s·v, in a chain v forward and
    as much back, in an all-to-all v/s to each other. An axis that `splits` another takes no ranks
    of its own: its groups are runs of `size` along that axis, as experts are along data.
    """

    name: str
    size: int
    pattern: Pattern
    bytes_per_rank: float
    splits: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """The axes, innermost first: rank r has the coordinate r mod size on the first."""

    axes: tuple[MeshAxis, ...]

    @property
    def ranks(self) -> int:
        """The product of the sizes, less those that split another axis."""
        return prod(axis.size for axis in self.axes if axis.splits is None)

    def stride(self, name: str) -> int:
        """How far apart the ranks of a group of this axis are."""
        found = 1
        for axis in self.axes:
            if axis.name == name:
                return found if axis.splits is None else self.stride(axis.splits)
            found *= axis.size if axis.splits is None else 1
        raise KeyError(name)
