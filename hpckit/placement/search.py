"""The best order that was found: candidates, then swaps of two nodes, then shaken and again.

Deterministic: the budget counts steps, not seconds, and the random numbers are seeded. Pure Python:
the order is computed inside a job too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hpckit.core.values import dataclass
from hpckit.placement.bounds import least_straddling, least_total_s
from hpckit.placement.instance import Instance, Loads, sending_axes, straddling
from hpckit.placement.order_plan import MeshAxis, Pattern
from hpckit.placement.packing import Grid, Lines, grown
from hpckit.placement.swaps import Swaps


# --- Rank 0 on the first node of Slurm's list: JAX, TensorFlow and many scripts take the first host
# of SLURM_JOB_NODELIST for the place to meet, whatever the order of ranks is. Around a ring every
# node can be the first, and a chain can be turned round, so this seldom costs anything.
def turned(instance: Instance, grid: Grid, order: Sequence[int], first: int) -> list[int] | None:
    """The same order, turned so that node `first` is on position 0; None where that cannot be.

    Nodes of one leaf that are alike change places, which costs nothing. Nodes that nobody knows
    go back to the last positions, which may cost something.
    """
    alike = [
        position
        for position, node in enumerate(order)
        if instance.levels[0][node] == instance.levels[0][first]
        and instance.nic_s[node] == instance.nic_s[first]
    ]
    for position in sorted(alike, key=lambda at: order[at] != first):
        moved = _turned_to(instance, grid, position)
        if moved is not None:
            return _fixed_last(instance, swapped([order[at] for at in moved], first))
    return None


def renumbered(
    instance: Instance, grid: Grid, order: Sequence[int], first: int
) -> Iterator[list[int]]:
    """Orders with node `first` on position 0 that have the same groups of nodes as `order`.

    Along each axis coordinates change places, or go around: what is next to what in a group may be
    another, so the time may.
    """
    position = list(order).index(first)
    for goes_around in (False, True):
        moves, left = [], position
        for size, _ in grid:
            at, left = left % size, left // size
            if goes_around:
                moves.append([(at + i) % size for i in range(size)])
            else:
                moves.append(swapped(range(size), at))
        moved = _product(moves)
        if len(moved) == len(order):
            yield _fixed_last(instance, [order[at] for at in moved])


def swapped(order: Sequence[int], first: int) -> list[int]:
    """The order with node `first` on position 0, and what was there in its place."""
    found = list(order)
    there = found.index(first)
    found[0], found[there] = found[there], found[0]
    return found


def _fixed_last(instance: Instance, order: list[int]) -> list[int]:
    """The order with the nodes that nobody knows on the last positions again, but for the first."""
    free = len(order) - instance.fixed
    strayed = [at for at in range(1, free) if order[at] >= free]
    taken = [at for at in range(free, len(order)) if order[at] < free]
    for one, other in zip(strayed, taken, strict=False):
        order[one], order[other] = order[other], order[one]
    return order


def _turned_to(instance: Instance, grid: Grid, position: int) -> list[int] | None:
    """For each position the one whose node comes to it when `position` becomes 0."""
    split = {traffic.axis.splits for traffic in instance.traffic if traffic.axis.bytes_per_rank}
    moves: list[list[int]] = []
    for size, axis in grid:
        move = _move(axis, size, position % size, is_split=axis.name in split)
        if move is None:
            return None
        moves.append(move)
        position //= size
    found = _product(moves)
    return found if len(found) == len(instance.nodes) else None


def _move(axis: MeshAxis, size: int, at: int, *, is_split: bool) -> list[int] | None:
    """Coordinates of one axis in an order that begins with `at` and is worth the same."""
    if not is_split and (axis.pattern is not Pattern.CHAIN or not axis.bytes_per_rank):
        return [(at + i) % size for i in range(size)]
    if at == 0:
        return list(range(size))
    return list(range(size - 1, -1, -1)) if at == size - 1 else None


def _product(moves: Sequence[Sequence[int]]) -> list[int]:
    """Positions by the coordinates of each axis, the innermost first."""
    found, stride = [0], 1
    for move in moves:
        found = [base + stride * at for at in move for base in found]
        stride *= len(move)
    return found


_POLISHED: Final = 2
_TOLERANCE: Final = 1e-9
"""Times that differ by less, as a part, are the same."""
_ENOUGH: Final = 1e-3
"""Swaps end so near to the bound, as a part of it."""
_ORDERS_OF_NODE: Final = 30
_EVALUATED: Final = 400_000
"""So many orders of leaves are tried for each node, of so many nodes together at most; of a large
job a quarter."""
_SMALL: Final = 4_096
"""Of more nodes neither swaps within the budget nor what is greedy gain anything."""
_WORK: Final = 1_500_000
_WORK_OF_NODE: Final = 28_000
_RUN_OF_NODE: Final = 3_500
"""Links that swaps look at: in all, for each node in all, and for each node in one run."""


@dataclass(frozen=True, slots=True)
class Found:
    """An order, what it is worth, and the least time of all orders that it was chosen from."""

    order: Sequence[int]
    time_s: float
    split: int
    hop_bytes: float
    least_s: float

    @property
    def is_least(self) -> bool:
        """Whether none of them is faster; else it was taken for its groups."""
        return self.time_s <= self.least_s * (1 + _TOLERANCE)

    def is_no_worse(self, other: Found) -> bool:
        """Than another order, by nothing that orders are chosen by."""
        return (
            self.time_s <= other.time_s * (1 + _TOLERANCE)
            and self.split <= other.split
            and self.hop_bytes <= other.hop_bytes * (1 + _TOLERANCE)
        )


@dataclass(slots=True)
class _Tried:
    """An order with what it is compared by; `split` is counted where it is asked for."""

    order: tuple[int, ...]
    time_s: float
    hop_bytes: float
    is_given: bool
    split: int | None = None


class Search:
    """Looks for an order; `given` are candidates, the most usual first.

    An order is chosen by its time, then by how few groups straddle a leaf, then by its hop-bytes,
    then a given one. Where one axis alone sends anything and nobody tells what uplinks carry, the
    time rests on an assumption: then of those orders that are no slower than any given one the one
    with the fewest straddling groups is chosen.
    """

    def __init__(self, instance: Instance, grid: Grid, given: Iterable[Sequence[int]]) -> None:
        self._instance = instance
        self._grid = grid
        self._axes = sending_axes(instance)
        traffic = instance.traffic
        self._groups_first = (
            len(self._axes) == 1
            and not instance.is_told
            and bool(traffic[self._axes[0]].axis.bytes_per_rank)
        )
        self._least_split = sum(least_straddling(traffic[i], instance) for i in self._axes)
        self._tried: dict[tuple[int, ...], _Tried] = {}
        for order in given:
            self._try(order, is_given=True)
        self.bound_s = least_total_s(instance, self._least().time_s)

    def free(self) -> Found:
        """The best order; never worse than any given one."""
        count = len(self._instance.nodes)
        if not self._is_proved():
            evaluated = _EVALUATED if count <= _SMALL else _EVALUATED // 4
            if count <= _SMALL:
                self._try(grown(self._instance), is_given=True)
            lines = Lines(self._instance, self._grid, self._worth)
            lines.run(min(_ORDERS_OF_NODE * count, evaluated // count))
        if count <= _SMALL and self._least().time_s > self.bound_s * (1 + _ENOUGH):
            for order in self._swaps(self._ranked(self._tried.values())[0]):
                self._try(order)
        return self._found(list(self._tried.values()))

    def _worth(self, order: Sequence[int]) -> tuple[float, ...]:
        return self._key(self._try(order))

    def _is_proved(self) -> bool:
        """Whether no order is faster, and none as fast has fewer groups that straddle a leaf."""
        best = self._best(list(self._tried.values()))
        return self._is_least() and self._split(best) <= self._least_split

    def _least(self) -> _Tried:
        """The fastest order."""
        return min(self._tried.values(), key=lambda one: one.time_s)

    def _is_least(self) -> bool:
        return self._least().time_s <= self.bound_s * (1 + _TOLERANCE)

    def pinned(self, first: int) -> Found:
        """The best order with node `first` on position 0, after `free`.

        It is never worse than a given one that begins with it.
        """
        best = self._best(list(self._tried.values()))
        known = first < len(self._instance.nodes) - self._instance.fixed
        pool = {id(one): one for one in self._tried.values() if one.order[0] == first}
        same = turned(self._instance, self._grid, best.order, first) if known else None
        if same is not None:
            self._add(pool, same)
        least = self._best(list(pool.values())) if pool else None
        if (
            least is None
            or least.time_s > best.time_s * (1 + _TOLERANCE)
            or self._split(least) > self._split(best)
        ):
            firsts = self._ranked(self._tried.values())[:_POLISHED]
            for one in (best, *firsts):
                self._add(pool, swapped(one.order, first))
                for order in renumbered(self._instance, self._grid, one.order, first):
                    self._add(pool, order)
            for order in self._swaps(self._ranked(pool.values())[0], kept=1):
                self._add(pool, order)
        return self._found(list(pool.values()))

    def _add(self, pool: dict[int, _Tried], order: Sequence[int]) -> None:
        one = self._try(order)
        pool[id(one)] = one

    def _try(self, order: Sequence[int], *, is_given: bool = False) -> _Tried:
        key = tuple(order)
        if key not in self._tried:
            loads = Loads(self._instance, order)
            time_s, hop_bytes = loads.total_s(), loads.hop_bytes()
            self._tried[key] = _Tried(key, time_s, hop_bytes, is_given)
        return self._tried[key]

    def _ranked(self, tried: Iterable[_Tried]) -> list[_Tried]:
        """The likely best first, as those that are worth being improved."""
        return sorted(tried, key=self._key)

    def _key(self, one: _Tried) -> tuple[float, ...]:
        time_s = float(f"{one.time_s:.9e}")
        if self._groups_first:
            return self._split(one), time_s, one.hop_bytes
        if len(self._axes) == 1:
            return time_s, self._split(one), one.hop_bytes
        return time_s, one.hop_bytes

    def _split(self, one: _Tried) -> int:
        """How many groups of the axes that send anything straddle a leaf."""
        if one.split is None:
            one.split = sum(straddling(self._instance, one.order, axis) for axis in self._axes)
        return one.split

    def _best(self, tried: Sequence[_Tried]) -> _Tried:
        left = tried
        if self._groups_first:
            given_s = [one.time_s for one in tried if one.is_given]
            limit_s = min(given_s, default=float("inf")) * (1 + _TOLERANCE)
            left = [one for one in left if one.time_s <= limit_s]
            left = _least(left, [self._split(one) for one in left])
        left = _least(left, [one.time_s for one in left])
        left = _least(left, [self._split(one) for one in left])
        left = _least(left, [one.hop_bytes for one in left])
        return next((one for one in left if one.is_given), left[0])

    def _found(self, tried: Sequence[_Tried]) -> Found:
        best = self._best(tried)
        least_s = min(one.time_s for one in tried)
        return Found(best.order, best.time_s, self._split(best), best.hop_bytes, least_s)

    def _swaps(self, first: _Tried, kept: int = 0) -> Iterator[list[int]]:
        """What swaps make of an order, again and again, as often as the budget is enough for."""
        count, limit_s = len(self._instance.nodes), self.bound_s * (1 + _ENOUGH)
        total = min(_WORK, _WORK_OF_NODE * count) // (1 + kept)
        work = min(total, _RUN_OF_NODE * count)
        for seed in range(total // work):
            swaps = Swaps(self._instance, first.order, kept, seed)
            if not swaps.can_move:
                return
            swaps.run(work, limit_s)
            yield swaps.best
            if swaps.best_s <= limit_s:
                return


def _least(tried: Sequence[_Tried], values: Sequence[float]) -> list[_Tried]:
    """Those whose value is the least, but for rounding."""
    most = min(values) * (1 + _TOLERANCE)
    return [one for one, value in zip(tried, values, strict=True) if value <= most]
