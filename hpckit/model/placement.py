"""Which node carries which ranks, and what that is worth beside other orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PLACEMENT_SCHEMA: Final = "hpckit.placement/1"


STEP_TIME_WORDS: Final = "communication of a step"
BYTES_X_HOPS: Final = "bytes × hops"
ORDER_WORDS: Final[Mapping[str, str]] = {
    "hostname": "host names",
    "slurm": "Slurm order",
    "random": "random",
}
"""The orders beside the one that is placed, by the names that `Compared` has for them."""


def spread_words(places: str) -> str:
    """What the most places of a group are called, `places` being `leaves` or the like."""
    return f"{places} of a group, at most"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """One figure of each order; None where the order, or a bound, is not known. Less is better."""

    placed: float
    hostname: float
    slurm: float | None
    random: float
    lower_bound: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisGroups:
    """The groups of one axis: `straddling` counts those on more than one leaf (or block)."""

    groups: int
    nodes_per_group: int
    straddling: Compared
    time_s: Compared


@dataclass(frozen=True, slots=True, kw_only=True)
class Orders:
    """Node names, the i-th carrying the ranks i·g … i·g+g−1; `slurm` None where not known."""

    placed: tuple[str, ...]
    hostname: tuple[str, ...]
    slurm: tuple[str, ...] | None
    random: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The order, why it was taken, and every objective beside the other orders.

    `given` says in words what the caller told, `assumed` what nobody told and was taken all the
    same, `notes` what a person should know: what got worse, which nodes nobody knows. `advice` is
    what to ask Slurm for. `places` is what the lowest domains of its nodes are called together.
    """

    orders: Orders
    because: str
    objectives: Mapping[str, Compared]
    groups: Mapping[str, AxisGroups]
    places: str = "leaves"
    given: tuple[str, ...] = ()
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
