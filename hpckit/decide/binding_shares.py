"""How what cannot be split is dealt to ranks in shares that are as even as can be."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import TypeVar

Thing = TypeVar("Thing")


def apportion(total: int, weights: Sequence[int]) -> list[int]:
    """Shares of `total` in proportion to the weights, at least one each, by largest remainder.

    `total` is no less than there are weights. Of equals the first has more.
    """
    whole = sum(weights)
    shares = [max(1, total * weight // whole) for weight in weights]

    def lacking(at: int) -> int:
        return total * weights[at] - shares[at] * whole

    places = range(len(weights))
    while sum(shares) < total:
        shares[max(places, key=lambda at: (lacking(at), -at))] += 1
    while sum(shares) > total:
        shares[min((at for at in places if shares[at] > 1), key=lambda at: (lacking(at), -at))] -= 1
    return shares


def chunks(things: Sequence[Thing], sizes: Sequence[int]) -> list[Sequence[Thing]]:
    """The things in runs of these sizes."""
    ends = list(accumulate(sizes))
    return [things[end - size : end] for end, size in zip(ends, sizes, strict=True)]


def dealt(count: int, ranks: int) -> list[range]:
    """Which of `count` things each rank has: a run of them each, or a run of ranks on each."""
    if count >= ranks:
        return [range(run[0], run[-1] + 1) for run in _runs(count, ranks)]
    of_rank = [at for at, run in enumerate(_runs(ranks, count)) for _ in run]
    return [range(at, at + 1) for at in of_rank]


def _runs(count: int, parts: int) -> list[Sequence[int]]:
    return chunks(range(count), apportion(count, [1] * parts))


def seats(homes: Sequence[Sequence[int]], room: Sequence[int]) -> list[int | None]:
    """A place for as many as can have one of their own choice, `room` of them in each place.

    Source: augmenting paths of bipartite matching (Kuhn). Who comes first keeps a place.
    """
    taken: list[list[int]] = [[] for _ in room]

    def seat(who: int, seen: set[int]) -> bool:
        for place in homes[who]:
            if place in seen:
                continue
            seen.add(place)
            if len(taken[place]) < room[place]:
                taken[place].append(who)
                return True
            for at in reversed(range(len(taken[place]))):
                if seat(taken[place][at], seen):
                    taken[place][at] = who
                    return True
        return False

    for who in range(len(homes)):
        seat(who, set())
    found: list[int | None] = [None] * len(homes)
    for place, there in enumerate(taken):
        for who in there:
            found[who] = place
    return found
