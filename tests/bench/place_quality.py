"""How good orders are: beside greedy, by-leaf, long annealing, and the optimum of few nodes.

Made-up trees with leaves of which others have a part, meshes of one to three axes, and meshes with
any pattern; the same cases in every run. The best known is the least of all orders here; annealing
has four times the budget of `hpckit place`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import prod
from statistics import mean
from time import process_time
from typing import NamedTuple

from hpckit.placement.compare import place
from hpckit.placement.instance import Instance, Loads
from hpckit.placement.order import PlacementRequest, instance_of, order_named
from hpckit.placement.order_plan import Pattern
from hpckit.placement.packing import grown
from hpckit.placement.request import TIME
from hpckit.placement.swaps import Swaps
from tests.fakes.fabrics import mesh, request, tree
from tests.property.test_placement_optimum import instance as few_nodes
from tests.property.test_placement_optimum import least_s

NAMES = ("context", "pipeline", "data")
PATTERNS = {"context": Pattern.RING, "pipeline": Pattern.CHAIN, "data": Pattern.RING}
SENT = {"context": 1e9, "pipeline": 2e8, "data": 4e9}
LEAF, LEAVES_OF_POD, GPUS = 32, 8, 8
GOALS_PCT = {"mean": 0.5, "worst": 2.0}
BOUND_GOALS_PCT = {"mean": 2.0, "worst": 15.0}
_WORK = 6_000_000


class Case(NamedTuple):
    """What each order of a case takes, by how it was made, and the seconds that placing took."""

    times_s: Mapping[str, float]
    took_s: float


class Quality(NamedTuple):
    """A figure, and what it may be at most; None is anything."""

    name: str
    value: float
    goal: float | None = None
    unit: str = "%"

    @property
    def is_reached(self) -> bool:
        """Return whether it is within its goal."""
        return self.goal is None or self.value <= self.goal


def figures(cases: int) -> Iterator[Quality]:
    """Yield every figure of so many cases a kind."""
    for kind in KINDS:
        yield from of_kind(kind, cases)
    yield from of_few_nodes(cases)


def of_kind(kind: str, cases: int) -> Iterator[Quality]:
    """Yield how far each way of ordering is over the best known, the mean and the worst case."""
    found = [_case(KINDS[kind](random.Random(seed))) for seed in range(cases)]  # noqa: S311
    yield Quality(f"{kind}, a placement", mean(one.took_s for one in found), unit="s")
    for which in found[0].times_s:
        over = [one.times_s[which] / min(one.times_s.values()) - 1 for one in found]
        goals = GOALS_PCT if which == "hpckit" and kind == "3 axes" else {}
        yield from _mean_and_worst(f"{kind}, {which} over the best known", over, goals)


def of_few_nodes(cases: int) -> Iterator[Quality]:
    """Yield how at most 12 nodes do beside an enumeration that shares no code with the product."""
    dice = random.Random(25)  # noqa: S311  draws that can be repeated
    over, above = [], []
    for _ in range(cases):
        one = few_nodes(dice)
        locality = tree(
            one.pods, leaf_uplinks=one.leaf_uplinks, pod_uplinks=one.pod_uplinks, seed=one.seed
        )
        found = place(request(locality, one.mesh, per_node=one.per_node)).objectives[TIME]
        optimum_s = least_s(one)
        over.append(found.placed / optimum_s - 1)
        above.append(optimum_s / (found.lower_bound or optimum_s) - 1)
    yield from _mean_and_worst("up to 12 nodes, hpckit over the optimum", over, {})
    yield from _mean_and_worst("up to 12 nodes, optimum over the bound", above, BOUND_GOALS_PCT)


def _mean_and_worst(
    name: str, values: Sequence[float], goals_pct: Mapping[str, float]
) -> Iterator[Quality]:
    for which, value in (("mean", mean(values)), ("worst", max(values))):
        yield Quality(f"{name}, {which}", 100 * value, goals_pct.get(which))


def _case(wanted: PlacementRequest) -> Case:
    begun_s = process_time()
    placed = place(wanted).orders.placed
    took_s = process_time() - begun_s
    instance = instance_of(wanted)
    by_leaf = sorted(range(len(instance.nodes)), key=lambda node: instance.levels[0][node])
    orders = {
        "hpckit": order_named(instance, placed),
        "greedy": grown(instance),
        "by leaf": by_leaf,
        "annealing": _annealed(instance, by_leaf),
    }
    return Case({name: Loads(instance, order).total_s() for name, order in orders.items()}, took_s)


def _annealed(instance: Instance, order: list[int]) -> list[int]:
    swaps = Swaps(instance, order, 0, seed=1)
    if swaps.can_move:
        swaps.run(_WORK, 0.0)
    return swaps.best


def _tree_request(dice: random.Random, axes: int, *, any_pattern: bool = False) -> PlacementRequest:
    """A job on leaves that it has a part of, several nodes along each of so many axes."""
    nodes = dice.choice((32, 48, 64, 96, 128, 192, 256, 384, 512))
    left, leaves = nodes, []
    while left:
        leaves.append(min(left, dice.randint(LEAF // 4, LEAF)))
        left -= leaves[-1]
    pods = [leaves[at : at + LEAVES_OF_POD] for at in range(0, len(leaves), LEAVES_OF_POD)]
    sides = _sides(dice, nodes, axes)
    own = [("tensor", GPUS, Pattern.RING, 0.0)]
    for name, side in zip(NAMES[-axes:], sides, strict=True):
        is_small = any_pattern and side <= LEAF // 2
        pattern = dice.choice(list(Pattern)) if is_small else PATTERNS[name]
        sent = SENT[name] * dice.choice((0.5, 1.0, 2.0))
        own.append((name, side, pattern, sent if axes > 1 or name == "data" else 0.0))
    if prod(sides) < nodes:
        own.append(("replica", nodes // prod(sides), Pattern.CHAIN, 0.0))
    return request(tree(pods, seed=dice.randrange(1000)), mesh(*own), per_node=GPUS)


def _sides(dice: random.Random, nodes: int, axes: int) -> list[int]:
    """How many nodes each axis takes; of one axis, the groups of a few nodes."""
    if axes == 1:
        return [dice.choice([side for side in range(3, 33) if nodes % side == 0])]
    sides = [1] * axes
    while prod(sides) < nodes:
        left = nodes // prod(sides)
        prime = next(prime for prime in (2, 3) if left % prime == 0)
        at = sides.index(1) if 1 in sides else dice.randrange(axes)
        sides[at] *= prime
    return dice.sample(sides, axes)


KINDS: Mapping[str, Callable[[random.Random], PlacementRequest]] = {
    "1 axis": lambda dice: _tree_request(dice, 1),
    "2 axes": lambda dice: _tree_request(dice, 2),
    "3 axes": lambda dice: _tree_request(dice, 3),
    "any mesh": lambda dice: _tree_request(dice, dice.randint(2, 3), any_pattern=True),
}
"""Trees of 32 to 512 nodes."""
