"""Orders made of whole groups: tiles of the mesh laid into leaves, pods and what is above.

Aligned packing: each domain is filled with as many whole units as it holds, the largest first; what
is left over goes up, and is joined at the lowest domain that holds enough of it. So of groups of
one axis as few as possible straddle on every level at once. Pure Python: computed inside jobs too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, permutations, product
from math import prod

from hpckit.placement.instance import Instance
from hpckit.placement.order_plan import Mesh, MeshAxis, Pattern
from hpckit.placement.traffic import hop_bytes_of

Grid = tuple[tuple[int, MeshAxis], ...]
"""How many nodes each axis takes, innermost first; their product is the number of nodes."""
_Digits = Sequence[tuple[int, int]]
_Rows = list[list[list[int]]]
"""Pieces by kind: the nodes of each piece, which are as many as its kind's unit says."""


def node_grid(mesh: Mesh, ranks_per_node: int) -> Grid:
    """The axes between nodes, those on one node left out; one line where a node cuts across."""
    left, grid = ranks_per_node, []
    nodes = mesh.ranks // ranks_per_node
    for axis in mesh.axes:
        if axis.splits is not None:
            continue
        if left > 1 and left % axis.size and axis.size % left:
            return ((nodes, mesh.axes[-1]),) if nodes > 1 else ()
        on_nodes = max(1, axis.size // left)
        left = max(1, left // axis.size)
        if on_nodes > 1:
            grid.append((on_nodes, axis))
    return tuple(grid)


def packed_orders(instance: Instance, grid: Grid) -> Iterator[list[int]]:
    """Node indices by position: for every order of axes, and for tiles that fit the leaves."""
    for digits in dict.fromkeys(map(tuple, _digit_orders(instance, grid))):
        yield _laid(instance, grid, digits)


def _laid(instance: Instance, grid: Grid, digits: _Digits) -> list[int]:
    """The order that packs units of these digits: (axis, factor), the innermost first."""
    units = [1]
    for _, factor in digits:
        units.append(units[-1] * factor)
    lost = instance.fixed
    free = len(instance.nodes) - lost
    order = [0] * len(instance.nodes)
    nodes = _packed(instance, free, units)
    nodes += range(free, free + lost)
    positions = _positions(grid, digits)
    if lost:
        positions = [at for at in positions if at < free] + list(range(free, len(positions)))
    for node, position in zip(nodes, positions, strict=True):
        order[position] = node
    return order


def _positions(grid: Grid, digits: _Digits) -> list[int]:
    strides, reached = [], 1
    for size, _ in grid:
        strides.append(reached)
        reached *= size
    done = [1] * len(grid)
    found = [0]
    for axis, factor in digits:
        step = strides[axis] * done[axis]
        done[axis] *= factor
        found = [at + step * digit for digit in range(factor) for at in found]
    return found


def _packed(instance: Instance, count: int, units: Sequence[int]) -> list[int]:
    """The first `count` nodes in one line, by whole units as low as can be."""
    pieces: dict[int, _Rows] = {}
    for node in range(count):
        rows = pieces.setdefault(instance.levels[0][node] if instance.levels else 0, [[]])
        rows[0].append([node])
    joined = {domain: _merged(rows, units) for domain, rows in pieces.items()}
    for at in range(len(instance.levels)):
        risen = _risen(instance, joined, at, units)
        joined = {domain: _merged(rows, units) for domain, rows in risen.items()}
    rows = [row for rows in joined.values() for row in reversed(rows)]
    return [node for row in rows for piece in row for node in piece]


def _risen(
    instance: Instance, joined: Mapping[int, _Rows], at: int, units: Sequence[int]
) -> dict[int, _Rows]:
    """The pieces of each domain of the next level, in an order that splits few children."""
    children: dict[int, list[_Rows]] = {}
    for rows in joined.values():
        node = next(piece[0] for row in rows for piece in row)
        above = instance.levels[at + 1][node] if at + 1 < len(instance.levels) else 0
        children.setdefault(above, []).append(rows)
    needed = [after // unit for unit, after in pairwise(units)] + [1]
    return {
        above: [
            _fitted([rows[kind] for rows in parts if rows[kind]], needed[kind])
            for kind in range(len(units))
        ]
        for above, parts in children.items()
    }


def _fitted(rows: list[list[list[int]]], needed: int) -> list[list[int]]:
    """The pieces of all rows in one line; cut every `needed`, few rows are cut through.

    Each row has fewer than `needed`. Best fit: what fills up exactly, else the largest that fits.
    """
    waiting = sorted(rows, key=len)
    line: list[list[int]] = []
    room = needed
    while waiting:
        at = max(0, bisect_right(waiting, room, key=len) - 1)
        # Of rows that are as long as each other the first.
        row = waiting.pop(bisect_left(waiting, len(waiting[at]), key=len))
        if len(row) > room:
            insort(waiting, row[room:], key=len)
            row = row[:room]
        line += row
        room = room - len(row) or needed
    return line


def _merged(rows: _Rows, units: Sequence[int]) -> _Rows:
    """Pieces by kind, as many as possible joined to the next larger kind."""
    rows = [list(row) for row in rows] + [[] for _ in range(len(units) - len(rows))]
    for kind in range(len(units) - 1):
        needed = units[kind + 1] // units[kind]
        whole = len(rows[kind]) // needed
        for i in range(whole):
            parts = rows[kind][i * needed : (i + 1) * needed]
            rows[kind + 1].append([node for part in parts for node in part])
        rows[kind] = rows[kind][whole * needed :]
    return rows


def _digit_orders(instance: Instance, grid: Grid) -> Iterator[_Digits]:
    axes = range(len(grid))
    heavy = sorted(axes, key=lambda i: -hop_bytes_of(grid[i][1]))
    for order in permutations(axes):
        yield [(i, factor) for i in order for factor in _primes(grid[i][0])]
    for capacity in _capacities(instance):
        for tile in _tiles(grid, capacity):
            inside = [(i, factor) for i in heavy for factor in _primes(tile[i])]
            yield [
                *inside,
                *((i, factor) for i in heavy for factor in _primes(grid[i][0] // tile[i])),
            ]


def _capacities(instance: Instance) -> list[int]:
    """How many nodes domains hold: the usual, the largest and the smallest of each level."""
    found: dict[int, None] = {}
    free = len(instance.nodes) - instance.fixed
    for level in instance.levels:
        sizes = [instance.capacity[domain] for domain in set(level[:free])]
        if not sizes:
            continue
        usual = Counter(sizes).most_common(1)[0][0]
        found.update(dict.fromkeys((usual, max(sizes), min(sizes))))
    return [size for size in found if size > 1]


def _tiles(grid: Grid, capacity: int) -> list[tuple[int, ...]]:
    """Tiles of at most so many nodes, those first that send least outwards for each node."""
    sides = [[side for side in range(1, size + 1) if size % side == 0] for size, _ in grid]
    fitting = [tile for tile in product(*sides) if 1 < prod(tile) <= capacity]
    return sorted(fitting, key=lambda tile: _outwards(grid, tile) / prod(tile))[:6]


def _outwards(grid: Grid, tile: Sequence[int]) -> float:
    """What leads out of a tile, where many lie side by side."""
    found = 0.0
    for (size, axis), side in zip(grid, tile, strict=True):
        lines = prod(tile) // side
        if side == size:
            continue
        if axis.pattern is Pattern.ALL_TO_ALL:
            found += lines * side * (size - side) * axis.bytes_per_rank / axis.size
        else:
            ends = 2 if axis.pattern is Pattern.CHAIN else 1
            found += lines * ends * hop_bytes_of(axis)
    return found


def _primes(number: int) -> list[int]:
    found, factor = [], 2
    while factor * factor <= number:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found + ([number] if number > 1 else [])
