"""The least time of few nodes, by branch and bound over the positions of each leaf.

Sets of positions are bits of a number. What a set sends outwards is looked up; a branch ends where
what is placed so far takes as long as the best order known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpckit.placement.bounds import least_by_nics
from hpckit.placement.instance import Instance

_MOST_NODES: Final = 12
_MOST_WORK: Final = 60_000
"""Sets of positions that are looked at."""
_TOLERANCE: Final = 1e-9
_Row = tuple[tuple[float, ...], tuple[int, ...]]
"""By axis: how long its busiest link is busy so far, and on how many levels an edge differs."""
_Child = tuple[float, int, _Row]


def least_of_few_s(instance: Instance, bound_s: float, best_s: float) -> float:
    """The least time, at most `best_s`; of many nodes, or where some are unknown, `bound_s`."""
    if len(instance.nodes) > _MOST_NODES or instance.fixed or best_s <= bound_s:
        return bound_s
    return max(bound_s, _Exact(instance, best_s).bound_s)


class _Exact:
    """Places leaf after leaf. Nodes of a leaf are taken to be alike, with the fastest NICs of all.

    `bound_s` is what no order takes less than, at most `limit_s`.
    """

    def __init__(self, instance: Instance, limit_s: float) -> None:
        self._instance = instance
        self._axes = [i for i, axis in enumerate(instance.traffic) if axis.lanes]
        self._out = [_bytes_out(instance, axis) for axis in self._axes]
        self._work = _MOST_WORK
        self._seen: dict[tuple[int, int], tuple[float, ...]] = {}
        self._levels = [list(dict.fromkeys(level)) for level in instance.levels]
        leaves = sorted(self._levels[0], key=self._place)
        self._leaves = leaves
        # The domains above that are whole once a leaf is placed, and each one's first leaf.
        self._closed: list[list[tuple[int, int, int]]] = [[] for _ in leaves]
        for at, level in enumerate(instance.levels[1:], start=1):
            above = [level[instance.levels[0].index(leaf)] for leaf in leaves]
            for domain in dict.fromkeys(above):
                last = len(above) - 1 - above[::-1].index(domain)
                self._closed[last].append((domain, at, above.index(domain)))
        self._sets: dict[int, list[int]] = {}
        for positions in range(1 << len(instance.nodes)):
            self._sets.setdefault(positions.bit_count(), []).append(positions)
        self._limit_s = limit_s * (1 - _TOLERANCE)
        self._open_s = float("inf")
        floor = tuple(instance.floor_s[i] for i in self._axes)
        self._place_rest([], (1 << len(instance.nodes)) - 1, (floor, (0,) * len(self._axes)))
        self.bound_s = min(limit_s, self._open_s, self._limit_s / (1 - _TOLERANCE))

    def _place(self, leaf: int) -> tuple[int, ...]:
        node = self._instance.levels[0].index(leaf)
        above = (level[node] for level in reversed(self._instance.levels[1:]))
        return (*above, -self._instance.capacity[leaf], leaf)

    def _place_rest(self, sets: list[int], left: int, row: _Row) -> None:
        """Try every set of positions for the next leaf, those first that take the least time."""
        at = len(sets)
        if at == len(self._leaves):
            self._limit_s = self._time_s(row) * (1 - _TOLERANCE)
            return
        for time_s, positions, after in sorted(self._children(sets, left, row)):
            if time_s >= self._limit_s:
                break
            if self._work < 0:
                self._open_s = min(self._open_s, time_s)
                break
            self._place_rest([*sets, positions], left & ~positions, after)

    def _children(self, sets: list[int], left: int, row: _Row) -> Iterator[_Child]:
        """Yield what may be placed on the next leaf, and what is taken up with it."""
        at = len(sets)
        leaf = self._leaves[at]
        least = self._least_of_twin(sets, leaf)
        for positions in self._sets[self._instance.capacity[leaf]]:
            if positions & ~left or positions & -positions < least:
                continue
            self._work -= 1
            after = self._with(row, leaf, 0, positions)
            for domain, level, first in self._closed[at]:
                after = self._with(after, domain, level, sum(sets[first:]) + positions)
            time_s = self._time_s(after)
            if time_s < self._limit_s:
                yield time_s, positions, after

    def _least_of_twin(self, sets: list[int], leaf: int) -> int:
        """Leaves that are alike can change places: the lowest position of each is above this."""
        instance, at = self._instance, len(sets)
        if not at:
            return 0
        twin = self._leaves[at - 1]
        alike = all(
            of[leaf] == of[twin]
            for of in (instance.capacity, instance.seconds_per_byte, instance.nvlink)
        )
        is_beside = self._place(leaf)[:-2] == self._place(twin)[:-2]
        return sets[-1] & -sets[-1] if alike and is_beside else 0

    def _with(self, row: _Row, domain: int, level: int, positions: int) -> _Row:
        times_s = self._seen.get((domain, positions))
        if times_s is None:
            times_s = self._seen[domain, positions] = tuple(self._times_s(domain, positions))
        out = [axis[positions] for axis in self._out]
        crossed = (level + 1 if sent else at for sent, at in zip(out, row[1], strict=True))
        return tuple(map(max, row[0], times_s)), tuple(map(max, row[1], crossed))

    def _times_s(self, domain: int, positions: int) -> list[float]:
        instance = self._instance
        if not instance.nvlink[domain]:
            return [axis[positions] * instance.seconds_per_byte[domain] for axis in self._out]
        axes = zip(self._axes, self._out, strict=True)
        count = positions.bit_count()
        return [
            least_by_nics(instance, instance.traffic[i], count) if out[positions] else 0.0
            for i, out in axes
        ]

    def _time_s(self, row: _Row) -> float:
        instance = self._instance
        found = sum(row[0])
        for axis, crossed in zip(self._axes, row[1], strict=True):
            worst = crossed + 1 if crossed or not any(instance.nvlink) else 0
            found += instance.traffic[axis].steps * instance.latencies_s[worst]
        return found


def _bytes_out(instance: Instance, axis: int) -> list[float]:
    """What every set of positions sends outwards."""
    count = len(instance.nodes)
    between = [[0.0] * count for _ in range(count)]
    for sent, senders, receivers in instance.traffic[axis].lanes:
        for one, other in zip(senders, receivers, strict=True):
            between[one][other] += sent / 2
            between[other][one] += sent / 2
    found = [0.0] * (1 << count)
    for positions in range(1, 1 << count):
        last = positions.bit_length() - 1
        rest = positions ^ 1 << last
        row = between[last]
        found[positions] = found[rest] + sum(
            -sent if rest >> at & 1 else sent for at, sent in enumerate(row)
        )
    # Sums and differences of the same numbers: what is left of rounding is none.
    least = max(found) * _TOLERANCE
    return [sent if sent > least else 0.0 for sent in found]
