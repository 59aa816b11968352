"""How good orders are: beside greedy, by-leaf, long annealing, and the optimum of few nodes.

Made-up trees with leaves of which others have a part, meshes of one to three axes, and meshes with
any pattern; the same cases in every run. The best known is the least of all orders here; annealing
has four times the budget of `hpckit place`. Prints a line for each figure and returns those over
their goal.
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
GOALS_PCT = {("3 axes", "mean"): 0.5, ("3 axes", "worst"): 2.0}
BOUND_GOALS_PCT = {"mean": 2.0, "worst": 15.0}
_WORK = 6_000_000


class Case(NamedTuple):
    """What each order of a case takes, by how it was made, and the seconds that placing took."""

    times_s: Mapping[str, float]
    took_s: float


def figures(cases: int) -> Iterator[str]:
    """Print every figure of so many cases a kind; yield what is over its goal."""
    kinds: Mapping[str, Callable[[random.Random], PlacementRequest]] = {
        "1 axis": lambda dice: _tree_request(dice, 1),
        "2 axes": lambda dice: _tree_request(dice, 2),
        "3 axes": lambda dice: _tree_request(dice, 3),
        "any mesh": lambda dice: _tree_request(dice, dice.randint(2, 3), any_pattern=True),
    }
    for kind, made in kinds.items():
        found = [_case(made(random.Random(seed))) for seed in range(cases)]  # noqa: S311
        print(f"{kind}, seconds of a placement, mean: {mean(one.took_s for one in found):.2f}")
        for which in found[0].times_s:
            over = [one.times_s[which] / min(one.times_s.values()) - 1 for one in found]
            goals = GOALS_PCT if which == "hpckit" else {}
            name = f"{kind}, 32-512 nodes, {which} over the best known"
            yield from _told(name, over, {key[1]: goals[key] for key in goals if key[0] == kind})
    yield from _few(cases)


def _few(cases: int) -> Iterator[str]:
    """Of at most 12 nodes, beside an enumeration that shares no code with the product."""
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
    yield from _told("up to 12 nodes, hpckit over the optimum", over, {})
    yield from _told("up to 12 nodes, the optimum over the bound", above, BOUND_GOALS_PCT)


def _told(name: str, values: Sequence[float], goals_pct: Mapping[str, float]) -> Iterator[str]:
    for which, value in (("mean", mean(values)), ("worst", max(values))):
        goal = goals_pct.get(which)
        print(f"{name}, {which}: {value:.2%}" + ("" if goal is None else f" (goal {goal:g} %)"))
        if goal is not None and 100 * value > goal:
            yield f"{name}, {which}: {value:.2%}, over {goal:g} %"


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
