"""Swaps of nodes that make an order better: annealing whose steps bring neighbours together.

A step swaps two nodes, or the parts of two groups that two leaves hold: what talks much stays
together. What is made small is, axis by axis, a norm of all links: the busiest link alone says
nothing of most swaps, so the power of the norm grows as the order cools. As much enters a domain as
leaves it, so a swap changes the loads of the two domains it is between, and no others. Pure Python:
computed inside a job too.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from itertools import repeat
from math import exp
from operator import mul
from typing import Final

from hpckit.placement.bounds import is_regular
from hpckit.placement.instance import Instance, Loads

_POWERS: Final = (2, 3, 5, 8, 12, 18, 27, 40, 60, 90)
"""Of the norm, one after the other: a high one sees little beside the busiest link."""
_RUNS: Final = ((0.5, 0.02), (2.0, 0.005))
"""The temperature at first, times nodes, as a part of what is made small, and what is left of it in
the end: in the first run, and in others, which forget the order that they begin with."""
_ANYWHERE: Final = 0.1
"""The share of steps that no neighbour asks for."""
_PARTS: Final = 0.9
"""The share of steps that swap parts of groups, half of those the whole parts."""
_OF_STEP: Final = 4
"""What a step takes beside the links that it looks at, in these."""
_RESCALED: Final = 256
"""Steps kept after which sums are added up anew."""
_Near = list[tuple[int, float]]
_Change = tuple[int, int, float, float]
"""An axis, a domain, what leads out of it then, and its term in the sum of powers."""
_Pair = tuple[int, int]
_Places = Sequence[int]
_OURS, _THEIRS = -2, -3
"""Stand for the domain of what is about to change places."""


class Swaps:
    """Swaps from one order on; the first `kept` positions and the last, fixed ones stay.

    Loads are counted in units of an axis, so that sums and differences are exact.
    """

    def __init__(self, instance: Instance, order: Sequence[int], kept: int, seed: int) -> None:
        self._instance = instance
        self._random = random.Random(seed)  # noqa: S311  a search, not a secret
        self._heat, self._cooled = _RUNS[min(seed, 1)]
        self._order = list(order)
        self._end = len(order) - instance.fixed
        self._kept = kept
        self._position = [0] * len(order)
        for position, node in enumerate(order):
            self._position[node] = position
        self._domains = [[level[node] for node in order] for level in instance.levels]
        self._members: dict[int, list[int]] = {}
        for node in range(self._end):
            self._members.setdefault(instance.levels[0][node], []).append(node)
        self._axes = [i for i, axis in enumerate(instance.traffic) if axis.lanes]
        units = self._units = [
            min(sent for sent, _, _ in instance.traffic[i].lanes) for i in self._axes
        ]
        self._near = [_neighbours(instance, i, u) for i, u in zip(self._axes, units, strict=True)]
        self._sent = [
            [sum(weight for _, weight in near) / 2 for near in rows] for rows in self._near
        ]
        self._groups = [_groups(instance, i) for i in self._axes]
        loads = Loads(instance, order)
        self._out = [
            [sent / u for sent in loads.out_bytes[i]]
            for i, u in zip(self._axes, units, strict=True)
        ]
        self._per_unit_s = [[per_byte * u for per_byte in _guide(instance)] for u in units]
        self._is_mixed = len(set(instance.nic_s)) > 1
        self.best, self.best_s = list(order), loads.total_s()
        self._best_guess_s = sum(self._times_s())
        self._links = sum(sum(map(len, rows)) for rows in self._near) / len(order)
        self._done = 0.0
        self._sums: list[float] = []
        self._energy = 0.0

    @property
    def can_move(self) -> bool:
        """Whether there is anything to be made better."""
        is_one = len(self._members) < 2 and not self._is_mixed  # noqa: PLR2004
        return bool(self._axes) and self._end - self._kept > 1 and not is_one

    def run(self, work: int, least_s: float) -> None:
        """Try swaps until so many links were looked at, or the time is the least there can be."""
        first, kept = self._heat / len(self._order), 0
        for at, power in enumerate(_POWERS, start=1):
            self._scale(power)
            while self._done < work * at / len(_POWERS):
                heat = first * self._cooled ** (self._done / work)
                if not self._step(heat * self._energy):
                    continue
                kept += 1
                if self._is_better() and self.best_s <= least_s:
                    return
                if kept % _RESCALED == 0:
                    self._scale(power)

    def _step(self, heat: float) -> bool:
        """Try a swap of two nodes or of parts of two groups; return whether it was kept."""
        pair = self._pair()
        self._done += _OF_STEP
        if pair is None:
            return False
        dice = self._random.random
        ours, theirs = self._parts(*pair) if dice() < _PARTS else ((pair[0],), (pair[1],))
        self._done += len(ours) * self._links
        changes, sums, energy = self._after(ours, theirs)
        more = energy - self._energy
        if more > 0 and dice() >= exp(-more / heat):
            return False
        for one, other in zip(ours, theirs, strict=True):
            self._swap(one, other)
        for axis, domain, units, term in changes:
            self._out[axis][domain], self._terms[axis][domain] = units, term
        self._sums, self._energy = sums, energy
        return True

    def _pair(self) -> _Pair | None:
        """Two positions: one, and one beside a neighbour of it."""
        dice = self._random.random
        one = self._kept + int(dice() * (self._end - self._kept))
        leaf = self._domains[0]
        if dice() < _ANYWHERE:
            other = self._kept + int(dice() * (self._end - self._kept))
        else:
            near = self._near[int(dice() * len(self._near))][one]
            if not near:
                return None
            beside = leaf[near[int(dice() * len(near))][0]]
            there = self._members.get(beside)
            if there is None or beside == leaf[one]:
                return None
            other = self._position[there[int(dice() * len(there))]]
        nic_s, order = self._instance.nic_s, self._order
        is_same = leaf[one] == leaf[other] and nic_s[order[one]] == nic_s[order[other]]
        is_free = self._kept <= other < self._end
        return (one, other) if is_free and not is_same else None

    def _parts(self, one: int, other: int) -> tuple[_Places, _Places]:
        """The positions of their groups along some axis on their leaves, as many of each."""
        dice, leaf = self._random.random, self._domains[0]
        groups = self._groups[int(dice() * len(self._groups))]
        ours, theirs = groups.get(one, ()), groups.get(other, ())
        here, there = leaf[one], leaf[other]
        if not ours or ours is theirs or here == there:
            return (one,), (other,)
        kept, end = self._kept, self._end
        mine = [at for at in ours if leaf[at] == here and kept <= at < end]
        yours = [at for at in theirs if leaf[at] == there and kept <= at < end]
        most = min(len(mine), len(yours), 1 + int(2 * dice() * len(ours)))
        return mine[:most], yours[:most]

    def _after(self, ours: _Places, theirs: _Places) -> tuple[list[_Change], list[float], float]:
        """What a swap would make of domains, of the sum of powers of each axis, and of all."""
        changes: list[_Change] = []
        sums, energy, power = [], 0.0, self._power
        levels = self._marked(ours, theirs)
        for axis, (near, sent, out, terms, rates, scale) in enumerate(self._rows):
            found, get = self._sums[axis], sent.__getitem__
            more = sum(map(get, theirs)) - sum(map(get, ours))
            for domain_of, a, b in levels:
                of_a, of_b = _moved(near, domain_of, (ours, theirs), (a, b))
                for domain, change in ((a, of_a + more), (b, of_b - more)):
                    if change:
                        units = out[domain] + change
                        term = (units * rates[domain]) ** power
                        changes.append((axis, domain, units, term))
                        found += term - terms[domain]
            if self._is_mixed:
                found += sum(map(self._nics, repeat(axis), ours, theirs))
            found = max(found, 0.0)
            sums.append(found)
            energy += scale * found**self._root
        for domain_of, a, b in levels:
            for one, other in zip(ours, theirs, strict=True):
                domain_of[one], domain_of[other] = a, b
        return changes, sums, energy

    def _marked(self, ours: _Places, theirs: _Places) -> list[tuple[list[int], int, int]]:
        """The levels on which the domains of two parts differ, with the parts taken out of them."""
        levels = []
        for domain_of in self._domains:
            a, b = domain_of[ours[0]], domain_of[theirs[0]]
            if a == b:
                break
            levels.append((domain_of, a, b))
            for one, other in zip(ours, theirs, strict=True):
                domain_of[one], domain_of[other] = _OURS, _THEIRS
        return levels

    def _nics(self, axis: int, one: int, other: int) -> float:
        """How much more the NICs of two nodes add to the sum of powers after a swap."""
        sent, nic_s = self._sent[axis], self._instance.nic_s
        rate = self._units[axis] / self._scales[axis]
        a, b = nic_s[self._order[one]] * rate, nic_s[self._order[other]] * rate
        more = (sent[one] * b) ** self._power + (sent[other] * a) ** self._power
        return more - (sent[one] * a) ** self._power - (sent[other] * b) ** self._power

    def _swap(self, one: int, other: int) -> None:
        order = self._order
        order[one], order[other] = order[other], order[one]
        self._position[order[one]], self._position[order[other]] = one, other
        for domain_of in self._domains:
            domain_of[one], domain_of[other] = domain_of[other], domain_of[one]

    def _is_better(self) -> bool:
        """Whether this is the best order so far; then it is kept."""
        guess_s = sum(self._times_s())
        if guess_s >= self._best_guess_s:
            return False
        self._best_guess_s = guess_s
        time_s = Loads(self._instance, self._order).total_s()
        if time_s >= self.best_s:
            return False
        self.best, self.best_s = list(self._order), time_s
        return True

    def _times_s(self) -> list[float]:
        """How long the busiest link of each axis is busy, where NVLink is a guess."""
        return [max(*links, *nics, floor_s) for links, nics, floor_s in self._busy_s()]

    def _busy_s(self) -> Iterator[tuple[list[float], list[float], float]]:
        """By axis: how long uplinks and NICs are busy, and what NICs take in every order."""
        nic_s = [self._instance.nic_s[node] for node in self._order] if self._is_mixed else []
        for at, axis in enumerate(self._axes):
            links_s = list(map(mul, self._out[at], self._per_unit_s[at]))
            nics_s = [self._units[at] * one for one in map(mul, self._sent[at], nic_s)]
            yield links_s, nics_s, self._instance.floor_s[axis]

    def _scale(self, power: int) -> None:
        """Add the powers of all links up anew, each as a part of the axis's busiest."""
        self._power, self._root = power, 1 / power
        self._scales = [most_s or 1.0 for most_s in self._times_s()]
        rates = [
            [per_s / scale for per_s in per_unit_s]
            for per_unit_s, scale in zip(self._per_unit_s, self._scales, strict=True)
        ]
        self._terms, self._sums = [], []
        for (links_s, nics_s, floor_s), scale in zip(self._busy_s(), self._scales, strict=True):
            terms = [(busy_s / scale) ** power for busy_s in links_s]
            rest = sum((busy_s / scale) ** power for busy_s in (floor_s, *nics_s))
            self._terms.append(terms)
            self._sums.append(sum(terms) + rest)
        self._rows = list(
            zip(self._near, self._sent, self._out, self._terms, rates, self._scales, strict=True)
        )
        parts = zip(self._scales, self._sums, strict=True)
        self._energy = sum(scale * found**self._root for scale, found in parts)


def _moved(
    near: list[_Near], domain_of: list[int], parts: tuple[_Places, _Places], domains: _Pair
) -> tuple[float, float]:
    """How much more leads out of two domains when parts of them that are marked change places.

    As if both parts sent as much.
    """
    change = [0.0, 0.0]
    for own, (part, mark) in enumerate(zip(parts, (_OURS, _THEIRS), strict=True)):
        home, away = domains[own], domains[1 - own]
        for position in part:
            for neighbour, weight in near[position]:
                there = domain_of[neighbour]
                if there == home:
                    change[own] += weight
                elif there == away:
                    change[1 - own] -= weight
                elif there == mark:  # an edge inside of a part is seen from both ends
                    change[own] += weight / 2
                    change[1 - own] -= weight / 2
    return change[0], change[1]


def _neighbours(instance: Instance, axis: int, unit: float) -> list[_Near]:
    """What each position exchanges with which others, both ways together."""
    found: list[dict[int, float]] = [{} for _ in instance.nodes]
    for sent, senders, receivers in instance.traffic[axis].lanes:
        weight = sent / unit
        for one, other in zip(senders, receivers, strict=True):
            found[one][other] = found[one].get(other, 0.0) + weight
            found[other][one] = found[other].get(one, 0.0) + weight
    return [list(near.items()) for near in found]


def _groups(instance: Instance, axis: int) -> dict[int, tuple[int, ...]]:
    """The positions of the group that each position is in, where it is in one alone."""
    traffic = instance.traffic[axis]
    groups = traffic.groups if is_regular(traffic) else ()
    return {position: group.nodes for group in groups for position in group.nodes}


def _guide(instance: Instance) -> list[float]:
    """Seconds per byte out of each domain; out of an NVLink domain lead the NICs of its nodes."""
    least = min(instance.nic_s) / 2
    pairs = zip(instance.seconds_per_byte, instance.nvlink, strict=True)
    return [least if is_nvlink else per_byte for per_byte, is_nvlink in pairs]
