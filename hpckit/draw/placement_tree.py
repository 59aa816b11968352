"""The nodes of a job in the boxes that their leaves are, and these in those of pods."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.model.domain_words import domain_kind
from hpckit.model.hostlist import natural_order
from hpckit.model.locality import ROOT, Locality

_DEEPEST: Final = 3
UNKNOWN: Final = "not known to the fabric"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """The nodes whose lowest domain is the same; or one node that nobody knows.

    A group that is in two domains is split. `domain` is None for a node that stands alone.
    """

    index: int
    name: str
    kind: str
    nodes: tuple[str, ...]
    domain: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A domain with those of the job below it."""

    name: str
    kind: str
    parts: tuple[Part, ...]


Part = Unit | Frame


def units_of(locality: Locality, nodes: Sequence[str]) -> tuple[Unit, ...]:
    """The units of these nodes, each node in one, as the objective of split groups counts them."""
    members: defaultdict[int, list[str]] = defaultdict(list)
    alone = []
    for node in nodes:
        if node in locality.domain_of:
            members[locality.domain_of[node]].append(node)
        else:
            alone.append(node)
    found: list[Unit] = []
    ordered = sorted(members, key=lambda at: (natural_order(locality.domains[at].name), at))
    for at in ordered:
        domain = locality.domains[at]
        unit = Unit(
            index=len(found),
            name=domain.name,
            kind=domain_kind(domain),
            nodes=tuple(members[at]),
            domain=at,
        )
        found.append(unit)
    for node in sorted(alone, key=natural_order):
        found.append(Unit(index=len(found), name=node, kind="node", nodes=(node,)))
    return tuple(found)


def parts_of(locality: Locality, units: Sequence[Unit]) -> tuple[Part, ...]:
    """The units in frames of the domains above them, those left out that part nothing.

    Nodes beside the domains that are below their own are a box in it.
    """
    over = {at for unit in units for at in _above(locality, unit)}
    inside: defaultdict[int, list[Unit]] = defaultdict(list)
    lost = []
    for unit in units:
        if unit.domain is None:
            lost.append(unit)
        elif unit.domain in over:
            inside[unit.domain].append(unit)
        else:
            inside[locality.domains[unit.domain].parent].append(unit)
    below = _used_below(locality, inside)
    parts = _Framing(locality, inside, below).parts()
    if lost and parts:
        parts = (*parts, Frame(name=UNKNOWN, kind="", parts=tuple(lost)))
    return parts or tuple(lost)


def _above(locality: Locality, unit: Unit) -> Iterator[int]:
    at = ROOT if unit.domain is None else locality.domains[unit.domain].parent
    while at != ROOT:
        yield at
        at = locality.domains[at].parent


def _used_below(
    locality: Locality, inside: Mapping[int, Sequence[Unit]]
) -> Mapping[int, Sequence[int]]:
    below: defaultdict[int, list[int]] = defaultdict(list)
    seen = {ROOT}
    for start in inside:
        at = start
        while at not in seen:
            seen.add(at)
            below[locality.domains[at].parent].append(at)
            at = locality.domains[at].parent
    return below


class _Framing:
    """Walks down from the outermost domains."""

    def __init__(
        self,
        locality: Locality,
        inside: Mapping[int, Sequence[Unit]],
        below: Mapping[int, Sequence[int]],
    ) -> None:
        self._locality = locality
        self._inside = inside
        self._below = below

    def parts(self) -> tuple[Part, ...]:
        return self._within(ROOT, 0)

    def _within(self, domain: int, depth: int) -> tuple[Part, ...]:
        while not self._inside.get(domain) and len(self._below.get(domain, ())) == 1:
            domain = self._below[domain][0]
        if depth >= _DEEPEST:
            return tuple(self._all_in(domain))
        found: list[Part] = []
        for one in sorted(self._below.get(domain, ()), key=self._order):
            parts = self._within(one, depth + 1)
            if len(parts) == 1:
                found += parts
            else:
                its = self._locality.domains[one]
                found.append(Frame(name=its.name, kind=domain_kind(its), parts=parts))
        return (*found, *self._inside.get(domain, ()))

    def _all_in(self, domain: int) -> list[Unit]:
        domains = [domain]
        for at in domains:
            domains += self._below.get(at, ())
        found = [unit for at in domains for unit in self._inside.get(at, ())]
        return sorted(found, key=lambda unit: unit.index)

    def _order(self, domain: int) -> tuple[tuple[tuple[int, int, str], ...], int]:
        return natural_order(self._locality.domains[domain].name), domain
