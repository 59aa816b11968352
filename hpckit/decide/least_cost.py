"""The assignment of least total cost: each row to a column that has room for it."""

from __future__ import annotations

from collections.abc import Sequence


def assign(costs: Sequence[Sequence[int]], room: int) -> list[int]:
    """The column of each row, at most `room` rows to a column, with the least sum of costs.

    There is room for all rows. Source: the successive shortest path algorithm with node potentials
    (Ahuja, Magnanti and Orlin, Network Flows, 9.7 and 12.4), each path found as by Dijkstra, up to
    the first column with room.
    """
    columns = len(costs[0]) if costs else 0
    rows_of: list[list[int]] = [[] for _ in range(columns)]
    chosen = [-1] * len(costs)
    potential = [0] * columns
    for row in range(len(costs)):
        to, moved = _path(costs, rows_of, potential, row, room)
        while True:
            mover, source = moved[to], chosen[moved[to]]
            rows_of[to].append(mover)
            chosen[mover] = to
            if source < 0:
                break
            rows_of[source].remove(mover)
            to = source
    return chosen


def _path(
    costs: Sequence[Sequence[int]],
    rows_of: Sequence[Sequence[int]],
    potential: list[int],
    row: int,
    room: int,
) -> tuple[int, list[int]]:
    """The column with room that adds the least, and who moves to each column on the way there."""
    length = [cost - held for cost, held in zip(costs[row], potential, strict=True)]
    moved = [row] * len(length)
    left = set(range(len(length)))
    settled: list[int] = []
    while True:
        at = min(left, key=lambda column: (length[column], column))
        if len(rows_of[at]) < room:
            break
        left.discard(at)
        settled.append(at)
        for other in rows_of[at]:
            line = costs[other]
            base = length[at] - line[at] + potential[at]
            for to in left:
                if (new := base + line[to] - potential[to]) < length[to]:
                    length[to], moved[to] = new, other
    for column in settled:
        potential[column] += length[column] - length[at]
    return at, moved
