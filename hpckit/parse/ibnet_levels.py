"""How far each switch of a fabric is from nodes: 0 where they hang, one more a cable upwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from statistics import median
from typing import Final

from hpckit.model.fabric import HIGHEST_LEVEL

_ALIKE: Final = 0.5
"""The share of its neighbours by which a switch is told for a leaf with no or few nodes."""

_FEWER: Final = 2
_BESIDE: Final = 2
_FEW: Final = 4
_EMPTY_FRAC: Final = 0.25
_HIGHEST: Final = 3
"""The top of four tiers; what is further away is a leaf of its own."""

Neighbours = Mapping[str, frozenset[str]]


def switch_levels(neighbours: Neighbours, hosts: Mapping[str, int]) -> dict[str, int | None]:
    """The level of each switch by name, None where no cable leads to one with nodes.

    So too for one that is more than HIGHEST_LEVEL cables away from those. `hosts` counts the ports
    of nodes on each. A spine on which a manager hangs stays a spine, and a leaf whose nodes are all
    away a leaf.
    """
    leaves, doubtful = _with_nodes(neighbours, hosts)
    levels = _distances(neighbours, leaves)
    shapes = {neighbours[name] for name in leaves}
    alike = [
        name
        for name, level in levels.items()
        if level == _BESIDE and _is_alike(neighbours[name], shapes)
    ]
    more = [name for name in doubtful if levels[name] is None or (levels[name] or 0) > _HIGHEST]
    if len(alike) < _EMPTY_FRAC * len(leaves):  # as many as that are a tier of their own
        more += alike
    else:
        more += [name for name in alike if name in doubtful]
    return _distances(neighbours, [*leaves, *more]) if more else levels


def _with_nodes(neighbours: Neighbours, hosts: Mapping[str, int]) -> tuple[list[str], list[str]]:
    """The switches that are leaves by their nodes, and those with so few that they may be above."""
    usual = median([hosts[name] for name in neighbours if hosts.get(name)] or [0])
    leaves: list[str] = []
    doubtful: list[str] = []
    for name in neighbours:
        count = hosts.get(name, 0)
        if count and not _is_above(neighbours[name], count, hosts):
            is_beside = any(hosts.get(one) for one in neighbours[name])
            are_few = not is_beside and count <= _FEW and count * _FEWER <= usual
            (doubtful if are_few else leaves).append(name)
    return leaves, doubtful


def _distances(neighbours: Neighbours, leaves: Iterable[str]) -> dict[str, int | None]:
    """One more than the switches below; one cable that skips a level does not count as one."""
    levels: dict[str, int | None] = dict.fromkeys(neighbours)
    edge = list(leaves)
    level = 0
    while edge and level <= HIGHEST_LEVEL:
        levels.update(dict.fromkeys(edge, level))
        below = Counter(
            other for name in edge for other in neighbours[name] if levels[other] is None
        )
        edge = [name for name in below if not _is_above(neighbours[name], below[name], below)]
        level += 1
    return levels


def _is_above(mine: frozenset[str], count: int, below: Mapping[str, int]) -> bool:
    """Whether it is beside several that have more than twice as many below them."""
    beside = [below[one] for one in mine if below.get(one)]
    return len(beside) >= _BESIDE and count * _FEWER < median(beside)


def _is_alike(mine: frozenset[str], shapes: Iterable[frozenset[str]]) -> bool:
    return any(len(mine & other) > _ALIKE * len(mine | other) for other in shapes)
