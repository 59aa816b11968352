"""The domains of a network as a tree that fits a screen: those that are alike are one branch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from hpckit.model.domain_words import names_in
from hpckit.model.hostlist import natural_order
from hpckit.model.locality import ROOT, Domain, Locality

_KINDS_TOLD: Final = (12, 6, 3, 1)
_MOST_BRANCHES: Final = 60
_DEEPEST: Final = 8
_Kind = tuple[object, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Domains that are alike, with what is below them: `of` is the first of them.

    `per_parent` is how many of them there are in each domain above, `nodes` all that are in them,
    `own_nodes` those that are in no domain below, `names` those of the domains, unfolded. `sizes`
    are the least and the most nodes of one.
    `is_rest`: they are not alike, and stand for those that are too many to be told one by one.
    """

    of: Domain
    domains: tuple[int, ...]
    per_parent: int
    nodes: tuple[str, ...]
    own_nodes: tuple[str, ...]
    names: tuple[str, ...]
    sizes: tuple[int, int]
    children: tuple[Branch, ...] = ()
    is_rest: bool = False


def branches(locality: Locality, most: int) -> tuple[Branch, ...]:
    """The outermost domains with those below, at most about 60 branches and 9 deep.

    Each domain is a branch of its own where there are `most` or fewer in all.
    """
    top = [i for i, domain in enumerate(locality.domains) if domain.parent == ROOT]
    fold = _Fold(locality, is_folded=len(locality.domains) > most)
    found: tuple[Branch, ...] = ()
    for kinds in _KINDS_TOLD:
        found = fold.of(top, 1, 0, kinds)
        if not fold.is_folded or _count(found) <= _MOST_BRANCHES:
            break
    return found


def _count(found: Sequence[Branch]) -> int:
    return sum(1 + _count(one.children) for one in found)


class _Fold:
    """What folding looks up about a locality."""

    def __init__(self, locality: Locality, *, is_folded: bool) -> None:
        self._locality = locality
        self.is_folded = is_folded
        self._below: defaultdict[int, list[int]] = defaultdict(list)
        self._own: defaultdict[int, list[str]] = defaultdict(list)
        for i, domain in enumerate(locality.domains):
            self._below[domain.parent].append(i)
        for node, at in locality.domain_of.items():
            self._own[at].append(node)
        self._sizes: dict[int, int] = {}
        self._kinds: dict[int, int] = {}
        self._measure()

    def _measure(self) -> None:
        """The nodes and the kind of each domain, the inner ones first."""
        known: dict[_Kind, int] = {}
        for at in reversed(_outer_first(self._below)):
            domain, below = self._locality.domains[at], self._below[at]
            self._sizes[at] = len(self._own[at]) + sum(self._sizes[one] for one in below)
            kind: _Kind = (
                *(self._sizes[at], domain.level, domain.is_nvlink, domain.uplink_bytes_per_s),
                *sorted(self._kinds[one] for one in below),
            )
            self._kinds[at] = known.setdefault(kind, len(known))

    def of(
        self, domains: Sequence[int], parents: int, depth: int, kinds: int
    ) -> tuple[Branch, ...]:
        """Branches of the domains below `parents` domains that are alike, `kinds` and the rest."""
        groups: dict[int, list[int]] = {}
        for at in sorted(domains, key=lambda one: natural_order(self._locality.domains[one].name)):
            groups.setdefault(self._kinds[at] if self.is_folded else at, []).append(at)
        ordered = list(groups.values())
        told = 0 if depth >= _DEEPEST else kinds
        if told and (not self.is_folded or len(ordered) <= told + 1):
            told = len(ordered)
        found = [self._branch(group, parents, depth, kinds) for group in ordered[:told]]
        rest = list(chain.from_iterable(ordered[told:]))
        if rest:
            found.append(self._branch(rest, parents, depth, None))
        return tuple(found)

    def _branch(self, group: Sequence[int], parents: int, depth: int, kinds: int | None) -> Branch:
        """One branch; of the rest, without `kinds`, nothing below is told."""
        below = [one for at in group for one in self._below[at]]
        inner = [*group]
        for at in inner:
            inner += self._below[at]
        sizes = [self._sizes[at] for at in group]
        return Branch(
            of=self._locality.domains[group[0]],
            domains=tuple(group),
            per_parent=len(group) // parents,
            nodes=tuple(node for at in inner for node in self._own[at]),
            own_nodes=tuple(node for at in group for node in self._own[at]),
            names=tuple(name for at in group for name in names_in(self._locality.domains[at].name)),
            sizes=(min(sizes), max(sizes)),
            children=() if kinds is None else self.of(below, len(group), depth + 1, kinds),
            is_rest=kinds is None,
        )


def _outer_first(below: Mapping[int, Sequence[int]]) -> list[int]:
    found = list(below.get(ROOT, ()))
    for at in found:
        found += below.get(at, ())
    return found
