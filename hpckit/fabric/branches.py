"""The domains of a network as a tree that fits a screen: those that are alike are one branch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

from hpckit.core.hostlist import fold_hosts, natural_order
from hpckit.core.text import visible
from hpckit.fabric.domain_names import domain_kind, names_in, short_names, up_rate
from hpckit.fabric.locality import ROOT, Domain, Locality

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
        outer_first = list(self._below[ROOT])
        for at in outer_first:  # grows while it is walked
            outer_first += self._below[at]
        for at in reversed(outer_first):
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


# --- A branch in the words that people read, the same in text and in pictures.
_NAME: Final = 36
_LONG: Final = 400
_SWITCHES: Final = {1: "leaf switches", 2: "spines"}


def branch_name(branch: Branch, most: int = _NAME) -> str:
    """`leaf leaf07`, `32 leaves leaf[01-32]`; of the rest `… and 37 more leaves`."""
    count = len(branch.domains)
    if branch.is_rest:
        return f"… and {count} more {domain_kind(branch.of, count)}"
    if count == 1:
        inside = names_in(branch.of.name)
        name = short_names(inside, most)
        if name.endswith(_further(inside)):
            # The switches of one domain are no domains of their own.
            several = _SWITCHES.get(branch.of.level, "switches")
            return f"{len(inside)} {several}, {_first(inside, most)}"
        # Who stands outermost needs no word for it.
        return name if branch.of.parent == ROOT else f"{domain_kind(branch.of)} {name}"
    names = short_names(branch.names, most)
    if names.endswith(_further(branch.names)):
        return f"{count} {domain_kind(branch.of, count)}, {_first(branch.names, most)}"
    return f"{count} {domain_kind(branch.of, count)} {names}"


def _further(names: Sequence[str]) -> str:
    """How `short_names` ends where it tells the first name alone."""
    return f" + {len(set(names)) - 1}"


def _first(names: Sequence[str], most: int) -> str:
    """The first of names that have no short form: `A10-IBSPINE-01 and others`."""
    first = min(names, key=natural_order)
    return f"{short_names((first,), most)} and others"


def branch_count(branch: Branch) -> str:
    """`32 nodes`; of several `12 to 30 nodes each`, or `8 below each, 32 nodes each`."""
    least, most = branch.sizes
    size = f"{least}" if least == most else f"{least} to {most}"
    word = "node" if most == 1 else "nodes"
    if len(branch.domains) == 1:
        return f"{size} {word}"
    below = "" if branch.per_parent == len(branch.domains) else f"{branch.per_parent} below each, "
    return f"{below}{size} {word} each"


def branch_up(branch: Branch) -> tuple[str, ...]:
    """`12.8 Tb/s up`, or nothing where that is not told or nothing leads out."""
    rate = branch.of.uplink_bytes_per_s
    if branch.is_rest or rate is None or branch.of.parent == ROOT:
        return ()
    return (f"{up_rate(rate)} up{'' if len(branch.domains) == 1 else ' each'}",)


def branch_nodes(branch: Branch, most: int) -> str:
    """The names of the nodes in no domain below, folded, in at most `most` characters."""
    text = fold_hosts(branch.own_nodes)
    if len(visible(text, most + 1)) <= most:
        return visible(text, most)
    return short_names(branch.own_nodes, most)


def branch_about(branch: Branch) -> str:
    """A branch in one sentence."""
    parts = (branch_name(branch, _LONG), branch_count(branch), *branch_up(branch))
    nodes = () if branch.is_rest or not branch.own_nodes else (branch_nodes(branch, _LONG),)
    return ", ".join(chain(parts, nodes))
