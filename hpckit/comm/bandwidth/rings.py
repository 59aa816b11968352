"""How many of the links between GPUs rings through all of them can use at the same time.

Links without a switch belong to two GPUs. A ring takes one link between each two neighbours, in
both directions: so many rings that share no link are as much as a mesh can carry.

Where every two of n GPUs share one link, each direction of all of them falls into n - 1 rings,
but for n of 4 and 6. Source: T. W. Tillson, A Hamiltonian decomposition of K*2m, 1980.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

Counts = Mapping[tuple[int, int], int]
_PAIR: Final = 2
_WITHOUT: Final = frozenset({4, 6})
_MOST_STEPS: Final = 20_000


def links_in_rings(gpus: Sequence[int], counts: Counts) -> int | None:
    """The links of a GPU that rings through all of `gpus` use, in each direction.

    `counts` are links by pair, the smaller index first. Between two GPUs every link is a ring of
    each direction. None where no ring passes all of them by these links. Rings are looked for
    in a bounded number of steps, widest first, as NCCL looks for them: what is found can be had.
    """
    if len(gpus) == _PAIR:
        return counts.get((min(gpus), max(gpus)))
    size, alike = len(gpus), set(counts.values())
    if len(counts) == size * (size - 1) // 2 and len(alike) == 1 and size not in _WITHOUT:
        return (size - 1) * alike.pop()
    left = dict(counts)
    rings, steps = 0, [_MOST_STEPS]
    while (ring := _ring(gpus, left, [gpus[0]], steps)) is not None:
        for one, other in zip(ring, [*ring[1:], ring[0]], strict=True):
            left[min(one, other), max(one, other)] -= 1
        rings += 1
    return 2 * rings or None


def _ring(
    gpus: Sequence[int], left: Counts, passed: list[int], steps: list[int]
) -> list[int] | None:
    """A ring on the links that are left, over pairs with the most of them first."""
    at = passed[-1]
    if len(passed) == len(gpus):
        return passed if _left(left, at, passed[0]) else None
    ahead = [one for one in gpus if one not in passed and _left(left, at, one)]
    for one in sorted(ahead, key=lambda other: -_left(left, at, other)):
        steps[0] -= 1
        if steps[0] < 0:
            return None
        found = _ring(gpus, left, [*passed, one], steps)
        if found is not None:
            return found
    return None


def _left(left: Counts, one: int, other: int) -> int:
    return left.get((min(one, other), max(one, other)), 0)
