"""The best order that was found: candidates, then swaps of two nodes, then shaken and again.

Deterministic: the budget counts steps, not seconds, and the random numbers are seeded. Pure Python:
the order is computed inside a job too.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hpckit.core.values import dataclass
from hpckit.placement.bounds import least_straddling, least_time_s
from hpckit.placement.instance import Instance, Loads, sending_axes, straddling
from hpckit.placement.order_plan import MeshAxis, Pattern
from hpckit.placement.packing import Grid, packed_orders


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


_POLISHED: Final = 3
_TOLERANCE: Final = 1e-9
"""Times that differ by less, as a part, are the same."""
_STALE: Final = 150
"""Swaps in vain, for each node up to this many, before the order is shaken."""


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


@dataclass(frozen=True, slots=True)
class _Tried:
    """An order with what it is compared by. `carried` is what all links are busy, together."""

    order: list[int]
    time_s: float
    split: int
    carried: float
    is_given: bool


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
        self._least_s = sum(map(least_time_s, traffic, [instance] * len(traffic), instance.floor_s))
        self._least_split = sum(least_straddling(traffic[i], instance) for i in self._axes)
        self._tried: dict[tuple[int, ...], _Tried] = {}
        for order in given:
            self._try(order, is_given=True)

    def free(self) -> Found:
        """The best order; never worse than any given one."""
        for order in packed_orders(self._instance, self._grid):
            self._try(order)
        ranked = self._ranked(self._tried.values())
        best = self._best(ranked)
        if best.time_s > self._least_s * (1 + _TOLERANCE) or best.split > self._least_split:
            for order in self._swaps([one.order for one in ranked[:_POLISHED]]):
                self._try(order)
        return self._found(list(self._tried.values()))

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
            or least.split > best.split
        ):
            firsts = self._ranked(self._tried.values())[:_POLISHED]
            for one in (best, *firsts):
                self._add(pool, swapped(one.order, first))
                for order in renumbered(self._instance, self._grid, one.order, first):
                    self._add(pool, order)
            starts = [one.order for one in self._ranked(pool.values())[:_POLISHED]]
            for order in self._swaps(starts, kept=1):
                self._add(pool, order)
        return self._found(list(pool.values()))

    def _add(self, pool: dict[int, _Tried], order: Sequence[int]) -> None:
        one = self._try(order)
        pool[id(one)] = one

    def _try(self, order: Sequence[int], *, is_given: bool = False) -> _Tried:
        key = tuple(order)
        if key not in self._tried:
            time_s, carried = Loads(self._instance, order).worth()
            split = sum(straddling(self._instance, order, axis) for axis in self._axes)
            self._tried[key] = _Tried(list(order), time_s, split, carried, is_given)
        return self._tried[key]

    def _ranked(self, tried: Iterable[_Tried]) -> list[_Tried]:
        """The likely best first, as those that are worth being improved."""

        def key(one: _Tried) -> tuple[float, float, float]:
            time_s = float(f"{one.time_s:.9e}")
            if self._groups_first:
                return one.split, time_s, one.carried
            return time_s, one.split, one.carried

        return sorted(tried, key=key)

    def _best(self, tried: Sequence[_Tried]) -> _Tried:
        left = tried
        if self._groups_first:
            given_s = [one.time_s for one in tried if one.is_given]
            limit_s = min(given_s, default=float("inf")) * (1 + _TOLERANCE)
            left = [one for one in left if one.time_s <= limit_s]
            fewest = min(one.split for one in left)
            left = [one for one in left if one.split == fewest]
        left = _least(left, [one.time_s for one in left])
        left = _least(left, [one.split for one in left])
        if len(left) > 1:
            left = _least(left, [Loads(self._instance, one.order).hop_bytes() for one in left])
        return next((one for one in left if one.is_given), left[0])

    def _found(self, tried: Sequence[_Tried]) -> Found:
        best = self._best(tried)
        hop_bytes = Loads(self._instance, best.order).hop_bytes()
        least_s = min(one.time_s for one in tried)
        return Found(best.order, best.time_s, best.split, hop_bytes, least_s)

    def _swaps(self, firsts: Sequence[list[int]], kept: int = 0) -> Iterator[list[int]]:
        """What swaps make of some orders, each with its part of the budget."""
        movable = len(self._instance.nodes) - self._instance.fixed
        steps = max(1_500, min(8_000, 400_000 // max(1, movable)))
        for order in firsts:
            search = _Swaps(Loads(self._instance, order), movable, kept)
            if not search.can_move:
                return
            search.run(steps // len(firsts))
            yield search.best


def _least(tried: Sequence[_Tried], values: Sequence[float]) -> list[_Tried]:
    """Those whose value is the least, but for rounding."""
    most = min(values) * (1 + _TOLERANCE)
    return [one for one, value in zip(tried, values, strict=True) if value <= most]


def _is_less(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether the time is less, or the same and less is carried in all."""
    margin = _TOLERANCE * max(abs(one[0]), abs(other[0]))
    if abs(one[0] - other[0]) > margin:
        return one[0] < other[0]
    return one[1] < other[1] * (1 - _TOLERANCE)


class _Swaps:
    """Swaps of two nodes on different leaves, kept where they make the order better.

    The first `kept` positions stay as they are.
    """

    def __init__(self, loads: Loads, movable: int, kept: int = 0) -> None:
        self._loads = loads
        self._random = random.Random(20_000)  # noqa: S311  a search, not a secret
        self._movable = movable
        self._kept = kept
        self._touching = loads.touching()
        self._leaf = loads.instance.levels[0] if loads.instance.levels else ()
        self.best = list(loads.order)
        self.best_worth = loads.worth()
        is_mixed = len(set(self._leaf[:movable])) > 1 or not loads.instance.is_uniform
        has_traffic = any(axis.groups for axis in loads.instance.traffic)
        self.can_move = has_traffic and movable > 2 and is_mixed  # noqa: PLR2004

    def run(self, steps: int) -> None:
        """Try so many swaps."""
        current, stale = self.best_worth, 0
        patience = min(self._movable, _STALE) * 8
        for _ in range(steps):
            pair = self._pair()
            if pair is None:
                continue
            self._loads.swap(self._touching, *pair)
            worth = self._loads.worth()
            if _is_less(worth, current):
                current, stale = worth, 0
                if _is_less(worth, self.best_worth):
                    self.best, self.best_worth = list(self._loads.order), worth
                continue
            self._loads.swap(self._touching, *pair)
            stale += 1
            if stale > patience:
                current, stale = self._shaken(), 0

    def _shaken(self) -> tuple[float, float]:
        if self._loads.order != self.best:
            self._loads = Loads(self._loads.instance, self.best)
        for _ in range(2 + self._random.randrange(3)):
            pair = self._pair()
            if pair is not None:
                self._loads.swap(self._touching, *pair)
        return self._loads.worth()

    def _pair(self) -> tuple[int, int] | None:
        one = self._random.randrange(self._kept, self._movable)
        other = self._random.randrange(self._kept, self._movable)
        order, nic = self._loads.order, self._loads.instance.nic_s
        a, b = order[one], order[other]
        if one == other or (self._leaf[a] == self._leaf[b] and nic[a] == nic[b]):
            return None
        return one, other
