"""The best order that was found: candidates, then swaps of two nodes, then shaken and again.

Deterministic: the budget counts steps, not seconds, and the random numbers are seeded. Pure Python:
the order is computed inside a job too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import Final

from hpckit.decide.placement_bounds import least_straddling, least_time_s
from hpckit.decide.placement_groups import only_axis, straddling
from hpckit.decide.placement_instance import Instance
from hpckit.decide.placement_loads import Loads
from hpckit.decide.placement_packing import Grid, packed_orders
from hpckit.decide.placement_pin import swapped, turned

_SEED: Final = 20_000
_STEPS: Final = 8_000
_LEAST_STEPS: Final = 1_500
_STEPS_BY_NODES: Final = 400_000
_POLISHED: Final = 3
_TOLERANCE: Final = 1e-9
_STALE: Final = 150
"""Swaps in vain, for each node up to this many, before the order is shaken."""


def pinned_order(
    instance: Instance,
    grid: Grid,
    given: Sequence[Sequence[int]],
    order: Sequence[int],
    first: int,
) -> list[int]:
    """The order with node `first` on position 0, turned where that costs nothing.

    Else it is the best of a swap that others mend, and of the `given` orders that begin with it.
    """
    judge = _Judge(instance)
    best = turned(instance, grid, order, first)
    if best is not None and judge.key(best) <= judge.key(order):
        return best
    search = _Search(Loads(instance, swapped(order, first)), len(order) - instance.fixed, kept=1)
    if search.can_move:
        search.run(_steps(len(order)) // _POLISHED)
    found = [list(one) for one in given if one[0] == first]
    found += [search.best, *([] if best is None else [best])]
    return min(found, key=judge.key)


def best_order(instance: Instance, grid: Grid, given: Sequence[Sequence[int]]) -> list[int]:
    """Node indices by position; never worse than any of the `given` orders in predicted time.

    Where one axis alone sends anything and nobody tells what uplinks carry, the time rests on an
    assumption: then fewer groups that straddle a leaf come before it.
    """
    candidates = [*packed_orders(instance, grid), *map(list, given)]
    judge = _Judge(instance)
    judged = sorted((judge.key(order), i) for i, order in enumerate(candidates))
    firsts = [candidates[i] for _, i in judged[:_POLISHED]]
    best, best_key = firsts[0], judged[0][0]
    if not judge.is_best(best_key):
        for order in _searched(instance, firsts):
            key = judge.key(order)
            if key < best_key:
                best, best_key = order, key
    if not judge.groups_first:
        return best
    least_s = min(Loads(instance, order).total_s() for order in [best, *given])
    if Loads(instance, best).total_s() <= least_s * (1 + _TOLERANCE):
        return best
    return min([best, *map(list, given)], key=lambda order: Loads(instance, order).worth())


def _searched(instance: Instance, firsts: Sequence[list[int]]) -> Iterator[list[int]]:
    """What swaps make of some orders, each with its part of the budget."""
    movable = len(instance.nodes) - instance.fixed
    steps = _steps(movable)
    for order in firsts:
        search = _Search(Loads(instance, order), movable)
        if not search.can_move:
            return
        search.run(steps // len(firsts))
        yield search.best


def _steps(nodes: int) -> int:
    return max(_LEAST_STEPS, min(_STEPS, _STEPS_BY_NODES // max(1, nodes)))


class _Judge:
    """What orders are compared by, less is better: time, groups that straddle, what links carry."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        axis = only_axis(instance)
        self._axes = [axis] if axis is not None else list(range(len(instance.traffic)))
        self.groups_first = axis is not None and not instance.is_told
        traffic = instance.traffic
        self._least_s = sum(
            least_time_s(one, instance, floor_s)
            for one, floor_s in zip(traffic, instance.floor_s, strict=True)
        )
        self._least_groups = sum(least_straddling(traffic[i], instance) for i in self._axes)

    def key(self, order: Sequence[int]) -> tuple[float, float, float]:
        """The order's worth; times that differ by rounding alone are the same."""
        time_s, carried = Loads(self._instance, order).worth()
        split = sum(straddling(self._instance, order, axis) for axis in self._axes)
        time_s = float(f"{time_s:.9e}")
        return (split, time_s, carried) if self.groups_first else (time_s, split, carried)

    def is_best(self, key: tuple[float, float, float]) -> bool:
        """Whether no order can be better."""
        time_s, split = (key[1], key[0]) if self.groups_first else key[:2]
        return time_s <= self._least_s * (1 + _TOLERANCE) and split <= self._least_groups


def _is_less(one: tuple[float, float], other: tuple[float, float]) -> bool:
    """Whether the time is less, or the same and less is carried in all."""
    margin = _TOLERANCE * max(abs(one[0]), abs(other[0]))
    if abs(one[0] - other[0]) > margin:
        return one[0] < other[0]
    return one[1] < other[1] * (1 - _TOLERANCE)


class _Search:
    """Swaps of two nodes on different leaves, kept where they make the order better.

    The first `kept` positions stay as they are.
    """

    def __init__(self, loads: Loads, movable: int, kept: int = 0) -> None:
        self._loads = loads
        self._random = random.Random(_SEED)  # noqa: S311  a search, not a secret
        self._movable = movable
        self._kept = kept
        self._touching = loads.touching()
        self._leaf = loads.instance.levels[0] if loads.instance.levels else ()
        self.best = list(loads.order)
        self.best_worth = loads.worth()
        is_mixed = len(set(self._leaf[:movable])) > 1 or not loads.instance.is_uniform
        has_traffic = any(axis.groups for axis in loads.instance.traffic)
        self.can_move = loads.can_swap and has_traffic and movable > 2 and is_mixed  # noqa: PLR2004

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
        """Go on near the best order."""
        if self._loads.order != self.best:
            self._loads = Loads(self._loads.instance, self.best)
        for _ in range(2 + self._random.randrange(3)):
            pair = self._pair()
            if pair is not None:
                self._loads.swap(self._touching, *pair)
        return self._loads.worth()

    def _pair(self) -> tuple[int, int] | None:
        """Two positions whose nodes are not alike."""
        one = self._random.randrange(self._kept, self._movable)
        other = self._random.randrange(self._kept, self._movable)
        order, nic = self._loads.order, self._loads.instance.nic_s
        a, b = order[one], order[other]
        if one == other or (self._leaf[a] == self._leaf[b] and nic[a] == nic[b]):
            return None
        return one, other
