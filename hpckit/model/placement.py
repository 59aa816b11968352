"""Which node carries which ranks, and what that is worth beside other orders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

PLACEMENT_SCHEMA: Final = "hpckit.placement/1"


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

    `assumed` says in words what was not told and taken all the same, `notes` what a person should
    know: what got worse, which nodes nobody knows. `advice` is what to ask Slurm for.
    """

    orders: Orders
    because: str
    objectives: Mapping[str, Compared]
    groups: Mapping[str, AxisGroups]
    assumed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
