"""What is regular in how switches of one level are cabled to those above, and what departs from it.

Switches that lead to much the same ones above are a bundle; within it each leads to each that at
least half lead to, by the number of cables that most pairs have, or by a number shared out evenly.
Switches of a kind with other cables by design are a bundle of their own.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from hpckit.decide.fabric_kinds import Kinds
from hpckit.decide.finding_rule import most_common
from hpckit.decide.uplink_kinds import Counts, by_design, usual_uppers
from hpckit.model.fabric import ClusterTopology

_ALIKE: Final = 0.5
_DENSE: Final = 0.75
"""The share of its pairs that must be cabled for a bundle to have a rule at all."""


class Pair(NamedTuple):
    """A lower and an upper switch, how many cables they have and how many they should."""

    lower: str
    upper: str
    cables: int
    expected: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Lower switches that lead to much the same upper ones, and what departs from the rule.

    `missing` are pairs of switches whose lower one has too few cables there and nowhere too many,
    `uneven` those of lower switches with too many somewhere, `weak` upper switches that all lower
    ones reach by fewer, with their cables beside the usual number. `expected` counts the cables
    that are there and those that are missing. `kinds` are those of the lower switches.
    """

    level: int
    lowers: tuple[str, ...]
    uppers: tuple[str, ...]
    cables: int
    expected: int
    missing: tuple[Pair, ...] = ()
    uneven: tuple[Pair, ...] = ()
    weak: tuple[tuple[str, int, int], ...] = ()
    kinds: Kinds = frozenset()


def bundles(topology: ClusterTopology, kinds: Mapping[str, Kinds]) -> list[Bundle]:
    """The bundles of all levels from the lowest; links whose cables nobody counts are left out.

    `kinds` are those of the switches, by name.
    """
    level = {switch.name: switch.level for switch in topology.switches}
    by_level: defaultdict[int, defaultdict[str, Counter[str]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    for link in topology.links:
        lower, upper = level.get(link.lower), level.get(link.upper)
        if link.cables is not None and lower is not None and upper is not None and lower < upper:
            active = sum(cable.is_active for cable in link.cables)
            by_level[lower][link.lower][link.upper] += active
    return [
        dataclasses.replace(
            _bundle(at, lowers, by_level[at]),
            kinds=Kinds().union(*(kinds.get(lower, ()) for lower in lowers)),
        )
        for at in sorted(by_level)
        for alike in _alike_lowers(by_level[at])
        for lowers in by_design(alike, by_level[at], kinds)
    ]


def _alike_lowers(counts: Counts) -> list[list[str]]:
    """Those that share at least half of what either leads to, the commonest set first."""
    classes: defaultdict[frozenset[str], list[str]] = defaultdict(list)
    for lower, uppers in counts.items():
        classes[frozenset(upper for upper, cables in uppers.items() if cables)].append(lower)
    ordered = sorted(classes.items(), key=lambda one: (-len(one[1]), -len(one[0]), one[1]))
    found: list[tuple[frozenset[str], list[str]]] = []
    for reached, lowers in ordered:
        best = max(found, key=lambda one: _likeness(one[0], reached), default=None)
        if best is not None and _likeness(best[0], reached) >= _ALIKE:
            best[1].extend(lowers)
        else:
            found.append((reached, list(lowers)))
    return [lowers for _, lowers in found]


def _likeness(one: frozenset[object], other: frozenset[object]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0


def are_of_one_kind(one: Bundle, other: Bundle) -> bool:
    """Whether at least half of the kinds of switches in either are in both, or neither has any."""
    return one.kinds == other.kinds or _likeness(one.kinds, other.kinds) >= _ALIKE


def _bundle(level: int, lowers: list[str], counts: Counts) -> Bundle:
    uppers = usual_uppers(lowers, counts)
    pairs = [counts[lower][upper] for lower in lowers for upper in uppers]
    cables = sum(counts[lower].total() for lower in lowers)
    plain = Bundle(level=level, lowers=tuple(lowers), uppers=uppers, cables=cables, expected=cables)
    is_dense = sum(map(bool, pairs)) >= _DENSE * len(pairs)
    if len(lowers) == 1 or not is_dense:
        return plain
    usual = most_common(counts[lower].total() for lower in lowers)
    through = {upper: sum(counts[lower][upper] for lower in lowers) for upper in uppers}
    if usual is not None and usual % len(uppers):
        return _shared_out(plain, counts, usual, through)
    per_pair = most_common(pairs)
    if per_pair is None:
        return plain if usual is None else _shared_out(plain, counts, usual, through)
    low = dict.fromkeys(uppers, per_pair)
    return _judged(plain, counts, low, low)


def _shared_out(plain: Bundle, counts: Counts, usual: int, through: Mapping[str, int]) -> Bundle:
    """Judge cables that do not divide evenly: some pairs have one more than others.

    Where that one falls on different upper switches it is a way to share them out; where all lower
    ones lack it at the same upper switch, that one is weak.
    """
    least, rest = divmod(usual, len(plain.uppers))
    weak: tuple[tuple[str, int, int], ...] = ()
    if max(through.values()) - min(through.values()) >= len(plain.lowers):
        most = most_common(through.values())
        if most is not None:
            below = [one for one in through if through[one] <= most - len(plain.lowers)]
            weak = tuple((upper, through[upper], most) for upper in below)
    low = dict.fromkeys(plain.uppers, least)
    high = dict.fromkeys(plain.uppers, least + bool(rest))
    if weak:  # the rest have what most pairs have
        strong = [upper for upper in plain.uppers if upper not in {one for one, *_ in weak}]
        per_pair = most_common(counts[lower][upper] for lower in plain.lowers for upper in strong)
        low.update(dict.fromkeys(strong, per_pair or least))
        for upper, _, _ in weak:
            each = most_common(counts[lower][upper] for lower in plain.lowers)
            low[upper] = each or 0
            high[upper] = each or 0
    return dataclasses.replace(_judged(plain, counts, low, high, usual), weak=weak)


def _judged(
    plain: Bundle,
    counts: Counts,
    low: Mapping[str, int],
    high: Mapping[str, int],
    usual: int | None = None,
) -> Bundle:
    missing: list[Pair] = []
    uneven: list[Pair] = []
    expected = 0
    for lower in plain.lowers:
        few = [
            Pair(lower, upper, counts[lower][upper], low[upper])
            for upper in plain.uppers
            if counts[lower][upper] < low[upper]
        ]
        many = [
            Pair(lower, upper, cables, high.get(upper, 0))
            for upper, cables in counts[lower].items()
            if cables > high.get(upper, 0)
        ]
        total = counts[lower].total()
        if usual is not None and not many and total < usual and not few:
            few = [_fewest(lower, plain.uppers, counts, usual)]
        (uneven if many else missing).extend([*few, *many])
        full = sum(low.values()) if usual is None else usual
        expected += total if many else max(total, full)
    return dataclasses.replace(
        plain, expected=expected, missing=tuple(missing), uneven=tuple(uneven)
    )


def _fewest(lower: str, uppers: Iterable[str], counts: Counts, usual: int) -> Pair:
    """Where a cable may be missing that no pair misses by the rule."""
    total = counts[lower].total()
    upper = min(uppers, key=lambda one: counts[lower][one])
    cables = counts[lower][upper]
    return Pair(lower, upper, cables, cables + usual - total)
