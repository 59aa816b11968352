"""Domains of a network in the words that people read, the same in text and in pictures."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from hpckit.core.hostlist import expand_hosts, fold_hosts, natural_order
from hpckit.core.late import regex
from hpckit.core.text import figure, visible
from hpckit.core.units import counted, format_indices
from hpckit.core.values import dataclass
from hpckit.fabric.locality import ROOT, Domain, Locality
from hpckit.node.words import as_float

_DIGITS: Final = regex(r"([0-9]{1,9})", re.ASCII)
_TERA: Final = 1000
_BLOCK, _LEAF = 0, 1
_NVLINK_WORDS: Final = ("NVLink domain", "NVLink domains")
_LEVEL_WORDS: Final = {_BLOCK: ("block", "blocks"), _LEAF: ("leaf", "leaves")}
_FEW: Final = 3
_LONGEST: Final = 4000


def domain_kind(domain: Domain, count: int = 1) -> str:
    """Return what a domain is called: `leaf`, `leaves`, `block`, `NVLink domain`, `pod`."""
    above = ("top", "tops") if domain.parent == ROOT else ("pod", "pods")
    words = _NVLINK_WORDS if domain.is_nvlink else _LEVEL_WORDS.get(domain.level, above)
    return words[count != 1]


def leaf_of(locality: Locality, node: str) -> int:
    """The leaf, or the block, that a node is in, ROOT where none is told of it.

    It is above an NVLink domain; a switch above leaves is none.
    """
    for at in locality.path(node):
        domain = locality.domains[at]
        if not domain.is_nvlink:
            return at if domain.level <= _LEAF else ROOT
    return ROOT


def place_kind(locality: Locality, nodes: Sequence[str]) -> str:
    """What the lowest domains of these nodes are called together, in the plural."""
    homes = {locality.domain_of[node] for node in nodes if node in locality.domain_of}
    kinds = {domain_kind(locality.domains[at], 2) for at in homes}
    return kinds.pop() if len(kinds) == 1 else "domains" if kinds else "leaves"


def where_words(locality: Locality, nodes: Sequence[str]) -> str:
    """Where these nodes are: `on 8 leaves`, `in 8 NVLink domains on 4 leaves`.

    Where some are in NVLink domains, `on 2 leaves, 2 nodes in one NVLink domain`.
    """
    known = [node for node in nodes if node in locality.domain_of]
    inside = [node for node in known if locality.domains[locality.domain_of[node]].is_nvlink]
    near = {locality.domain_of[node] for node in inside}
    leaves = {leaf_of(locality, node) for node in inside} - {ROOT}
    leaves |= {locality.domain_of[node] for node in known} - near
    on = f"on {_counted_kinds(locality, leaves)}" if leaves else ""
    if near and len(inside) == len(known):
        where = f"in {_counted_kinds(locality, near)} {on}".rstrip()
    elif near:
        where = f"{on}, {counted(len(inside), 'node')} in {_counted_kinds(locality, near)}"
    else:
        where = on or "on no leaf"
    lost = len(nodes) - len(known)
    return f"{where}, {counted(lost, 'node')} unknown" if lost else where


def _counted_kinds(locality: Locality, domains: Iterable[int]) -> str:
    """`8 leaves`, `one leaf`, `3 leaves and one pod`."""
    counts = Counter(
        (domain_kind(locality.domains[at]), domain_kind(locality.domains[at], 2))
        for at in sorted(domains, key=lambda at: (locality.domains[at].level, at))
    )
    return " and ".join(
        f"one {single}" if count == 1 else f"{count} {several}"
        for (single, several), count in counts.items()
    )


def domain_name(name: str, most: int = 40) -> str:
    """A domain's name in at most `most` characters; of leaves of several rails what they share."""
    return short_names(names_in(name), most)


def names_in(name: str) -> tuple[str, ...]:
    """The switches that a domain's name folds; the name itself where it is no host list."""
    try:
        return expand_hosts(name, separators=",") or (name,)
    except ValueError:
        return (name,)


def short_names(names: Sequence[str], most: int) -> str:
    """Names that differ in numbers as one, `leaf-[01-04]-07`; else all of three, or first … last.

    What is longer than `most` characters becomes the first and how many more there are, and of a
    name its end.
    """
    ordered = sorted(dict.fromkeys(names), key=natural_order)
    if not ordered:
        return ""
    folded = ordered[0] if len(ordered) == 1 else _folded(ordered)
    if folded is not None and len(visible(folded, most + 1)) <= most:
        return visible(folded, most)
    is_few = len(ordered) <= _FEW
    ends = ", ".join(ordered) if is_few else f"{ordered[0]} … {ordered[-1]}"
    if len(ordered) > 1 and len(visible(ends, most + 1)) <= most:
        return visible(ends, most)
    if folded is not None:
        return _end(folded, most)
    further = f" + {len(ordered) - 1}"
    return _end(ordered[0], max(2, most - len(further))) + further


def folded_names(names: Sequence[str]) -> str:
    """All names, in as few words as there are: `leaf-[01-04]-07`, else Slurm's list of them."""
    ordered = sorted(dict.fromkeys(names), key=natural_order)
    return (_folded(ordered) if ordered else None) or fold_hosts(ordered)


def _end(name: str, most: int) -> str:
    """The end of a name that is too long: names of one network differ there."""
    shown = visible(name, _LONGEST)
    return shown if len(shown) <= most else "…" + shown[len(shown) - most + 1 :]


def _folded(names: Sequence[str]) -> str | None:
    """The names as one with brackets for the numbers that vary, where they are a whole grid."""
    parts = [_DIGITS.split(name) for name in names]
    if len({len(part) for part in parts}) > 1:
        return None
    columns = [sorted(set(column)) for column in zip(*parts, strict=True)]
    size = 1
    for at, column in enumerate(columns):
        size *= len(column)
        if len(column) > 1 and (at % 2 == 0 or len({len(number) for number in column}) > 1):
            return _of_one_stem(parts, columns)
    if size != len(names):
        return _of_one_stem(parts, columns)
    texts = []
    for column in columns:
        width = len(column[0]) if column[0].startswith("0") else 0
        is_one = len(column) == 1
        texts.append(column[0] if is_one else f"[{format_indices(map(int, column), width)}]")
    return "".join(texts)


def _of_one_stem(parts: Sequence[Sequence[str]], columns: Sequence[Sequence[str]]) -> str | None:
    """Names that differ in one number alone, of any lengths."""
    varying = [at for at, column in enumerate(columns) if len(column) > 1]
    if len(varying) != 1 or varying[0] % 2 == 0:
        return None
    at = varying[0]
    if any(number != str(int(number)) for number in columns[at]):
        return None
    first = parts[0]
    indices = format_indices(map(int, columns[at]))
    return "".join(first[:at]) + f"[{indices}]" + "".join(first[at + 1 :])


def up_rate(bytes_per_s: float) -> str:
    """What leads out of a domain, as makers of switches give it: `800 Gb/s`, `12.8 Tb/s`."""
    giga = as_float(bytes_per_s) * 8 / 1e9
    return f"{figure(giga / _TERA, 1)} Tb/s" if giga >= _TERA else f"{figure(giga, 1)} Gb/s"


# --- The domains of a network as a tree that fits a screen: those that are alike are one branch.
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
    for kinds in (12, 6, 3, 1):
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
_IN_A_SENTENCE: Final = 400
_SWITCHES: Final = {1: "leaf switches", 2: "spines"}


def branch_name(branch: Branch, most: int = _NAME) -> str:
    """`leaf leaf07`, `32 leaves leaf[01-32]`; of the rest `… and 37 more leaves`."""
    count = len(branch.domains)
    if branch.is_rest:
        return f"… and {count} more {domain_kind(branch.of, count)}"
    names = names_in(branch.of.name) if count == 1 else branch.names
    name = short_names(names, most)
    # Where `short_names` tells the first name alone, it says how many more there are.
    if name.endswith(f" + {len(set(names)) - 1}"):
        # The switches of one domain are no domains of their own.
        several = _SWITCHES.get(branch.of.level, "switches")
        kind = domain_kind(branch.of, count) if count > 1 else several
        first = short_names((min(names, key=natural_order),), most)
        return f"{count if count > 1 else len(names)} {kind}, {first} and others"
    if count > 1:
        return f"{count} {domain_kind(branch.of, count)} {name}"
    # Who stands outermost needs no word for it.
    return name if branch.of.parent == ROOT else f"{domain_kind(branch.of)} {name}"


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
    parts = (branch_name(branch, _IN_A_SENTENCE), branch_count(branch), *branch_up(branch))
    nodes = (
        () if branch.is_rest or not branch.own_nodes else (branch_nodes(branch, _IN_A_SENTENCE),)
    )
    return ", ".join(chain(parts, nodes))
