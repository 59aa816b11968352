"""What is regular in how switches of one level are cabled to those above, and what departs from it.

Switches that lead to much the same ones above are a bundle; within it each leads to each that at
least half lead to, by the number of cables that most pairs have, or by a number shared out evenly.
Switches of a kind with other cables by design are a bundle of their own.
"""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from hpckit.core.values import dataclass
from hpckit.fabric.ends import name_shape
from hpckit.fabric.rails import RailGrid
from hpckit.fabric.topology import Cable, ClusterTopology, EndKind, SwitchLink, steps_from
from hpckit.node.rules.rule import most_common


# --- What kind a switch is, by what hangs on it or below it: the rail, and the names of its nodes.
# A leaf for storage or for CPU nodes has the cables upwards that its plan gave it.
class LeafKind(NamedTuple):
    """The rail that a leaf carries, None where it is on none, and what its nodes are called."""

    rail: int | None
    nodes: str


Kinds = frozenset[LeafKind]
"""Of a leaf one kind, of a switch above all that are below it; of one that nothing tells, none."""


def switch_kinds(topology: ClusterTopology, grid: RailGrid) -> dict[str, Kinds]:
    """The kinds of all switches. A leaf's nodes are those that most on it are called like."""
    called = _called(topology)
    level = {switch.name: switch.level for switch in topology.switches}
    found = {
        name: frozenset({LeafKind(grid.rail_of.get(name), called[name])})
        if name in called and not at
        else Kinds()
        for name, at in level.items()
    }
    for _, link in sorted(upward_links(topology), key=lambda pair: pair[0]):
        found[link.upper] |= found[link.lower]
    return found


def upward_links(topology: ClusterTopology) -> Iterator[tuple[int, SwitchLink]]:
    """Yield the links between switches of two known levels, each with the lower level."""
    level = {switch.name: switch.level for switch in topology.switches}
    for link in topology.links:
        lower, upper = level.get(link.lower), level.get(link.upper)
        if lower is not None and upper is not None and lower < upper:
            yield lower, link


def _called(topology: ClusterTopology) -> Mapping[str, str]:
    """Switch → how most hosts on it are called, the compute nodes where there are any."""
    seen: dict[EndKind, defaultdict[str, Counter[str]]] = {
        EndKind.OTHER: defaultdict(Counter),
        EndKind.COMPUTE: defaultdict(Counter),
    }
    for port in topology.ports:
        if port.kind in seen and port.node is not None:
            seen[port.kind][port.switch][name_shape(port.node)] += 1
    return {
        switch: max(shapes, key=lambda shape: (shapes[shape], shape))
        for by_switch in seen.values()
        for switch, shapes in by_switch.items()
    }


class SwitchLevels:
    """What is on each level; only those are gone through that exist.

    `numbers` are the levels, ascending. `joined` are the links whose higher end is on a level, with
    the second those of the lowest too; `outwards` are the lower switches and the cables of links
    from a level or below it to above it. `above` are switches from which cables lead to a lower
    level.
    """

    def __init__(self, topology: ClusterTopology) -> None:
        self.of = switch_levels(topology)
        self.names: defaultdict[int, list[str]] = defaultdict(list)
        for name, level in self.of.items():
            self.names[level].append(name)
        self.numbers = sorted(self.names)
        self.joined: defaultdict[int, list[SwitchLink]] = defaultdict(list)
        self.outwards: defaultdict[int, list[tuple[str, Sequence[Cable] | None]]] = defaultdict(
            list
        )
        self.above: set[str] = set()
        for link in topology.links:
            self._add(link)
        for second in self.numbers[1:2]:
            self.joined[second] = [*self.joined[self.numbers[0]], *self.joined[second]]

    def _add(self, link: SwitchLink) -> None:
        low, high = sorted((link.lower, link.upper), key=self.of.__getitem__)
        first, last = self.of[low], self.of[high]
        self.joined[last].append(link)
        for at in range(bisect_left(self.numbers, first), bisect_left(self.numbers, last)):
            self.outwards[self.numbers[at]].append((low, link.cables))
        if first < last:
            self.above.add(high)


def switch_levels(topology: ClusterTopology) -> Mapping[str, int]:
    """The level of each switch: as told, else 0 where nodes hang, and one more with each cable."""
    told = {switch.name: switch.level for switch in topology.switches}
    found = {name: level for name, level in told.items() if level is not None}
    if len(found) == len(told):
        return found
    found |= {port.switch: 0 for port in topology.ports if port.kind is EndKind.COMPUTE}
    found = steps_from(found, topology.beside)
    return {name: found.get(name, 0) for name in told}


# --- A kind has other cables by design where none of its switches is cabled as most of the others
# are, and they agree with each other; one that differs from its own kind is judged with the rest.
Counts = Mapping[str, Counter[str]]
"""Lower switch → upper switch → cables."""


class _Design(NamedTuple):
    """How many cables a switch has upwards as planned, and to how many switches."""

    cables: int
    uppers: int


def usual_uppers(lowers: Sequence[str], counts: Counts) -> tuple[str, ...]:
    """The switches to which at least half of the lower ones lead."""
    reached = Counter(upper for lower in lowers for upper in +counts[lower])
    return tuple(upper for upper, by in reached.items() if 2 * by >= len(lowers))


def by_design(lowers: Sequence[str], counts: Counts, kinds: Mapping[str, Kinds]) -> list[list[str]]:
    """The lower switches in sets that are judged each for itself, that of most kinds first."""
    of_kind: defaultdict[Kinds, list[str]] = defaultdict(list)
    for lower in lowers:
        of_kind[kinds.get(lower, Kinds())].append(lower)
    uppers = usual_uppers(lowers, counts)
    designs = {kind: _design(group, uppers, counts) for kind, group in of_kind.items()}
    weight: Counter[_Design] = Counter()
    for kind, design in designs.items():
        if design is not None:
            weight[design] += len(of_kind[kind])
    if len(weight) <= 1:
        return [list(lowers)]
    main = max(weight, key=lambda one: (weight[one], one))
    usual = [one for kind, design in designs.items() if design == main for one in of_kind[kind]]
    total = most_common(counts[lower].total() for lower in usual)
    apart = [
        group
        for kind, group in of_kind.items()
        if kind
        and designs[kind] not in (None, main)
        and all(counts[one].total() != total for one in group)
        and (len(group) > 1 or _is_alone(kind, of_kind) or _is_even(group[0], uppers, counts, main))
    ]
    gone = {one for group in apart for one in group}
    return [[one for one in lowers if one not in gone], *apart]


def _design(group: Sequence[str], uppers: Sequence[str], counts: Counts) -> _Design | None:
    """What most pairs of a group have, else what most of its switches have in all."""
    reached = [upper for upper in uppers if any(counts[lower][upper] for lower in group)]
    usual = most_common(counts[lower][upper] for lower in group for upper in reached)
    total = most_common(counts[lower].total() for lower in group)
    if usual:
        return _Design(usual * len(reached), len(reached))
    return None if total is None else _Design(total, len(reached))


def _is_alone(kind: Kinds, of_kind: Mapping[Kinds, Sequence[str]]) -> bool:
    """Whether no other switch has nodes that are called like those of a kind."""
    own = {one.nodes for one in kind}
    return all(other == kind or own.isdisjoint(one.nodes for one in other) for other in of_kind)


def _is_even(lower: str, uppers: Sequence[str], counts: Counts, main: _Design) -> bool:
    """Whether one switch leads to all by equally many, or to all by half as many in all or less."""
    pairs = [counts[lower][upper] for upper in uppers]
    spread = max(pairs) - min(pairs)
    return min(pairs) > 0 and (
        spread == 0 or (spread == 1 and 2 * counts[lower].total() <= main.cables)
    )


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
    by_level: defaultdict[int, defaultdict[str, Counter[str]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    for level, link in upward_links(topology):
        if link.cables is not None:
            active = sum(cable.is_active for cable in link.cables)
            by_level[level][link.lower][link.upper] += active
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
    if len(lowers) == 1 or not pairs or not is_dense:
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
            # Where a cable may be missing that no pair misses by the rule.
            upper = min(plain.uppers, key=lambda name: counts[lower][name])
            cables = counts[lower][upper]
            few = [Pair(lower, upper, cables, cables + usual - total)]
        (uneven if many else missing).extend([*few, *many])
        full = sum(low.values()) if usual is None else usual
        expected += total if many else max(total, full)
    return dataclasses.replace(
        plain, expected=expected, missing=tuple(missing), uneven=tuple(uneven)
    )
