"""Which switches, cabled upwards to the same ones, are of a kind that has other cables by design.

A kind is by design another where none of its switches is cabled as most of the rest are, and they
agree with each other; one that differs from its own kind is none, and is judged with the rest.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from hpckit.decide.fabric_kinds import Kinds
from hpckit.decide.finding_rule import most_common

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
    total = _total([one for k, d in designs.items() if d == main for one in of_kind[k]], counts)
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


def _total(group: Sequence[str], counts: Counts) -> int | None:
    return most_common(counts[lower].total() for lower in group)


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
