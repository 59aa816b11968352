"""What a person should know of a placement: what got worse, and what nobody knows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from hpckit.decide.placement_busiest import busiest
from hpckit.decide.placement_instance import Instance
from hpckit.model.domain_words import short_names
from hpckit.model.node_words import visible
from hpckit.model.placement import ORDER_WORDS, STEP_TIME_WORDS, Compared
from hpckit.model.words import counted
from hpckit.units import short_time

_SAME: Final = 1e-3
"""Times that differ by less than this part are the same to a person."""
_LONGEST: Final = 200
_FEW: Final = 3

Row = tuple[str, Compared, Callable[[float], str]]
"""A row of the table: its name, its figures, and how one of them is written."""


def unknown_note(instance: Instance) -> Iterator[str]:
    """Which nodes the fabric does not know, and where they are put."""
    lost = instance.nodes[len(instance.nodes) - instance.fixed :]
    if not lost:
        return
    names = ", ".join(map(visible, lost)) if len(lost) <= _FEW else short_names(lost, _LONGEST)
    verb = "is" if len(lost) == 1 else "are"
    yield (
        f"{len(lost)} of {counted(len(instance.nodes), 'node')} {verb} placed last, in every order"
        f" shown: the fabric does not know {names}"
    )


def order_notes(
    instance: Instance, order: Sequence[int], time: Compared, rows: Iterable[Row]
) -> Iterator[str]:
    """Why the order does not matter; else which figures are better in another order, and its time.

    Each figure is told once, of the order that is best by it.
    """
    if _is_alike(time):
        yield _no_difference(instance, order, time)
        return
    better: dict[str, list[str]] = {}
    for name, figures, words in rows:
        others = {which: value for which in ORDER_WORDS if (value := getattr(figures, which))
                  is not None}  # fmt: skip
        best = min(others, key=lambda which: (others[which], getattr(time, which)))
        if figures.placed > others[best] * (1 + 1e-9):
            told = f"{name} {words(others[best])} (here {words(figures.placed)})"
            better.setdefault(best, []).append(told)
    for which, found in better.items():
        its, here = getattr(time, which), time.placed
        at = f"{STEP_TIME_WORDS} {short_time(its)} (here {short_time(here)})"
        if abs(its - here) <= _SAME * here or short_time(its) == short_time(here):
            at = "at the same predicted time"
        yield f"{ORDER_WORDS[which]}: {', '.join(found)}; {at}"


def _is_alike(time: Compared) -> bool:
    shown = [time.placed, time.hostname, time.random]
    shown += [] if time.slurm is None else [time.slurm]
    return max(shown) - min(shown) <= _SAME * max(shown)


def _no_difference(instance: Instance, order: Sequence[int], time: Compared) -> str:
    if not time.placed:
        return "order does not matter here: nothing is sent between nodes"
    busy = busiest(instance, order)
    links_s = sum(map(max, busy.uplinks_s, busy.nodes_s))
    if sum(busy.latency_s) > links_s:
        return "order does not matter here: the latency of its steps is what takes the time"
    if busy.beyond_nodes_s > _SAME * links_s:
        return "order does not matter here: uplinks are as busy in every order shown"
    own = "NICs or NVLink" if any(instance.nvlink) else "NICs"
    return f"order does not matter here: the nodes' own {own} are what is busiest, not uplinks"
