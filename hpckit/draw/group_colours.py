"""Colours of groups that people tell apart, also those who do not see red and green apart.

The first seven are those of Okabe and Ito (Color Universal Design, 2008). Of all twelve any two are
at least 17 apart in CIELAB, to normal sight and to protanopia and deuteranopia as Machado, Oliveira
and Fernandes simulate them (IEEE TVCG 15(6), 2009).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

PALETTE: Final = (
    "#0072b2",
    "#e69f00",
    "#009e73",
    "#cc79a7",
    "#56b4e9",
    "#d55e00",
    "#f0e442",
    "#b2df8a",
    "#664411",
    "#ffaabb",
    "#99ddff",
    "#aa3377",
)
NO_GROUP: Final = "#d0d7de"
_DARK: Final = frozenset({"#0072b2", "#664411", "#aa3377"})
_WEIGHT: Final = 10_000


def ink_on(colour: str) -> str:
    """The colour of text that is legible on a colour of the palette."""
    return "#ffffff" if colour in _DARK else "#1f2328"


def group_colours(
    groups: int, places: Iterable[Sequence[int]], lesser: Iterable[Sequence[int]] = ()
) -> tuple[str, ...]:
    """A colour for each group: those of one place differ where there are colours enough.

    `places` are the groups that are together somewhere, such as on a leaf; `lesser` places count
    where those leave a choice.
    """
    if groups <= len(PALETTE):
        return PALETTE[:groups]
    where: defaultdict[int, list[int]] = defaultdict(list)
    weights: list[int] = []
    for weight, some in ((_WEIGHT, places), (1, lesser)):
        for its in some:
            for group in dict.fromkeys(its):
                where[group].append(len(weights))
            weights.append(weight)
    used = [[0] * len(PALETTE) for _ in weights]
    found = []
    for group in range(groups):
        taken = [sum(used[at][one] for at in where[group]) for one in range(len(PALETTE))]
        order = [(group + step) % len(PALETTE) for step in range(len(PALETTE))]
        best = min(order, key=taken.__getitem__)
        for at in where[group]:
            used[at][best] += weights[at]
        found.append(PALETTE[best])
    return tuple(found)
