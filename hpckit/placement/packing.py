"""Orders made of whole groups: tiles of the mesh laid into leaves, pods and what is above.

Aligned packing: each domain is filled with as many whole units as it holds, the largest first; what
is left over goes up, and is joined at the lowest domain that holds enough of it. So of groups of
one axis as few as possible straddle on every level at once. Pure Python: computed inside jobs too.
"""

from __future__ import annotations

import random
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from heapq import heapify, heappop, heappush
from itertools import chain, islice, permutations, product
from math import prod
from operator import itemgetter
from typing import Final

from hpckit.fabric.locality import ROOT
from hpckit.placement.instance import Instance
from hpckit.placement.order_plan import Mesh, MeshAxis, Pattern
from hpckit.placement.traffic import hop_bytes_of

Grid = tuple[tuple[int, MeshAxis], ...]
"""How many nodes each axis takes, innermost first; their product is the number of nodes."""
Digits = Sequence[tuple[int, int]]
_MOST_PACKED: Final = 12
_MOST_TILES: Final = 12
_FEWEST_CURVES: Final = 8
_Rows = list[list[int]]
"""The nodes by kind of piece, piece after piece: each is as many as its kind's unit says."""


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
    for digits in islice(digit_orders(instance, grid), _MOST_PACKED):
        yield packed(instance, grid, digits)


def packed(instance: Instance, grid: Grid, digits: Digits) -> list[int]:
    """The order that packs units of these digits as low as can be."""
    units = [1]
    for _, factor in digits:
        units.append(units[-1] * factor)
    line = _packed(instance, _free(instance), units)
    return _laid(instance, _curve(instance, grid, digits), line)


def _laid(instance: Instance, curve: Sequence[int], line: Sequence[int]) -> list[int]:
    """The order with the nodes of a line along a curve of positions; the others stay last."""
    order = list(range(len(instance.nodes)))
    for node, position in zip(line, curve, strict=True):
        order[position] = node
    return order


def _curve(instance: Instance, grid: Grid, digits: Digits) -> list[int]:
    """The positions that nodes may take, as these digits count through the mesh."""
    positions, free = _positions(grid, digits), _free(instance)
    return positions if free == len(positions) else [at for at in positions if at < free]


def line_of(instance: Instance, places: Mapping[int, float] | Sequence[float]) -> list[int]:
    """The nodes that somebody knows in one line, domain by domain, as `places` puts domains."""
    line = list(range(_free(instance)))
    for level in instance.levels:
        line.sort(key=[places[domain] for domain in level[: len(line)]].__getitem__)
    return line


def _free(instance: Instance) -> int:
    return len(instance.nodes) - instance.fixed


def grown(instance: Instance) -> list[int]:
    """The order that fills leaf after leaf with what talks most to the nodes that it has.

    What others call greedy: bottom-up grouping by traffic.
    """
    talk = _talk(instance)
    free = dict.fromkeys(range(_free(instance)))
    order = list(range(len(instance.nodes)))
    near: dict[int, float] = {}
    heap: list[tuple[float, int]] = []
    leaf = ROOT
    for node in line_of(instance, range(len(instance.capacity))):
        if instance.levels[0][node] != leaf:
            leaf = instance.levels[0][node]
            heap = [(-weight, at) for at, weight in near.items() if at in free]
            heapify(heap)
            near = {}
        at = _next(heap, free)
        order[at] = node
        del free[at]
        for other, sent in talk[at].items():
            if other in free:
                near[other] = near.get(other, 0.0) + sent
                heappush(heap, (-near[other], other))
    return order


def _talk(instance: Instance) -> list[dict[int, float]]:
    """What each position exchanges with which others."""
    talk: list[dict[int, float]] = [{} for _ in instance.nodes]
    for axis in instance.traffic:
        for sent, senders, receivers in axis.lanes:
            for one, other in zip(senders, receivers, strict=True):
                talk[one][other] = talk[one].get(other, 0.0) + sent
                talk[other][one] = talk[other].get(one, 0.0) + sent
    return talk


def _next(heap: list[tuple[float, int]], free: Mapping[int, None]) -> int:
    while heap:
        _, at = heappop(heap)
        if at in free:
            return at
    return next(iter(free))


def _positions(grid: Grid, digits: Digits) -> list[int]:
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
    for node, domain in enumerate(instance.levels[0][:count]):
        if domain not in pieces:
            pieces[domain] = [[]]
        pieces[domain][0].append(node)
    joined = {domain: _merged(rows, units) for domain, rows in pieces.items()}
    for at in range(len(instance.levels)):
        risen = _risen(instance, joined, at, units)
        joined = {domain: _merged(rows, units) for domain, rows in risen.items()}
    return [node for rows in joined.values() for row in reversed(rows) for node in row]


def _risen(
    instance: Instance, joined: Mapping[int, _Rows], at: int, units: Sequence[int]
) -> dict[int, _Rows]:
    """The pieces of each domain of the next level, in an order that splits few children."""
    children: dict[int, list[_Rows]] = {}
    for rows in joined.values():
        node = next(row[0] for row in rows if row)
        above = instance.levels[at + 1][node] if at + 1 < len(instance.levels) else 0
        children.setdefault(above, []).append(rows)
    needed = [*units[1:], 0]
    return {
        above: [
            _fitted([rows[kind] for rows in parts if rows[kind]], needed[kind])
            for kind in range(len(units))
        ]
        for above, parts in children.items()
    }


def _fitted(rows: list[list[int]], needed: int) -> list[int]:
    """The pieces of all rows in one line; cut every `needed` nodes, few rows are cut through.

    Each row has fewer than `needed`. Best fit: what fills up exactly, else the largest that fits.
    """
    waiting = sorted(rows, key=len)
    line: list[int] = []
    if not needed:
        return list(chain.from_iterable(waiting))
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
    for kind, unit in enumerate(units[1:]):
        whole = len(rows[kind]) // unit * unit
        rows[kind + 1] += rows[kind][:whole]
        rows[kind] = rows[kind][whole:]
    return rows


def digit_orders(instance: Instance, grid: Grid) -> Iterator[Digits]:
    """Orders of the factors of axes, each as (axis, factor), the innermost first.

    Those come first that are likely good; each is there once.
    """
    return iter(dict.fromkeys(map(tuple, _digit_orders(instance, grid))))


def _digit_orders(instance: Instance, grid: Grid) -> Iterator[Digits]:
    axes = range(len(grid))
    heavy = sorted(axes, key=lambda i: -hop_bytes_of(grid[i][1]))
    whole = tuple(size for size, _ in grid)
    orders = list(permutations(axes))
    yield from (_digits(order, whole) for order in orders)
    tiles = [tile for capacity in _capacities(instance) for tile in _tiles(grid, capacity)]
    rests = [tuple(size // side for size, side in zip(whole, tile, strict=True)) for tile in tiles]
    for tile, rest in zip(tiles, rests, strict=True):
        yield [*_digits(heavy, tile), *_digits(heavy, rest)]
    for tile, rest in zip(tiles, rests, strict=True):
        for inside, outside in product(orders, orders):
            yield [*_digits(inside, tile), *_digits(outside, rest)]


def _digits(order: Sequence[int], sides: Sequence[int]) -> list[tuple[int, int]]:
    return [(axis, factor) for axis in order for factor in _primes(sides[axis])]


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
    return sorted(fitting, key=lambda tile: _outwards(grid, tile) / prod(tile))[:_MOST_TILES]


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


Worth = Callable[[Sequence[int]], tuple[float, ...]]


class Lines:
    """Tries curves first, then on the best of them lines in which leaves or pods change places."""

    def __init__(self, instance: Instance, grid: Grid, worth: Worth) -> None:
        self._instance = instance
        self._grid = grid
        self._worth = worth
        self._random = random.Random(7)  # noqa: S311  a search, not a secret
        free = len(instance.nodes) - instance.fixed
        self._levels = [list(dict.fromkeys(level[:free])) for level in instance.levels]

    def run(self, count: int) -> None:
        """Try about so many orders, half of them on curves of their own, eight at least."""
        one_by_one = {d: float(i) for level in self._levels for i, d in enumerate(level)}
        largest = {d: float(-self._instance.capacity[d]) for level in self._levels for d in level}
        curves = max(_FEWEST_CURVES, 2 * count // 5)
        found = []
        for digits in islice(digit_orders(self._instance, self._grid), curves):
            curve = _curve(self._instance, self._grid, digits)
            found.append((self._worth(self._along(curve, one_by_one)), curve, digits, one_by_one))
        found.sort(key=itemgetter(0))
        for _, curve, digits, _ in found[: max(1, curves // _FEWEST_CURVES)]:
            self._worth(packed(self._instance, self._grid, digits))
            if count > curves:
                worth = self._worth(self._along(curve, largest))
                found.append((worth, curve, digits, largest))
        for worth, curve, _, places in sorted(found, key=itemgetter(0))[:3]:
            self._climb(curve, places, worth, count // 6)

    def _climb(
        self, curve: list[int], places: dict[int, float], worth: tuple[float, ...], count: int
    ) -> None:
        """Let leaves or pods of a line change places, where that makes nothing worse."""
        levels = [level for level in self._levels if len(level) > 1]
        for _ in range(count if levels else 0):
            one, other = self._random.sample(self._random.choice(levels), 2)
            moved = {**places, one: places[other], other: places[one]}
            found = self._worth(self._along(curve, moved))
            if found <= worth:
                places, worth = moved, found

    def _along(self, curve: list[int], places: dict[int, float]) -> list[int]:
        return _laid(self._instance, curve, line_of(self._instance, places))
