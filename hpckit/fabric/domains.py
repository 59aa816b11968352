"""A fabric becomes domains inside domains: what reaches what without going up further.

A domain of level k are the nodes whose switches reach each other by switches of level k or lower.
So it holds for Slurm's trees, for fat trees, and for leaves of several rails, which the nodes that
hang on all of them join. A node that hangs on a switch above others is in that one's domain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

from hpckit.core.hostlist import fold_hosts, natural_order
from hpckit.fabric.domain_names import names_in
from hpckit.fabric.levels import SwitchLevels
from hpckit.fabric.locality import ROOT, Domain, Locality
from hpckit.fabric.rails import JoinedNames
from hpckit.fabric.topology import Block, Cable, ClusterTopology, EndKind, HostPort, SwitchLink

_SHARED: Final = 0.5
"""Leaves are of one place where more than this share of the nodes of either hang on the other too:
a cable in the wrong leaf joins nothing, nor does a switch for storage on which all nodes hang."""
_ABOVE_LEAVES: Final = 2
"""The level of what is above blocks alone: no leaf, which is a switch."""


@dataclass(slots=True)
class _Higher:
    """The nodes on switches above others, until the level of these is reached: `on` it by place."""

    place_of: dict[str, str] = field(default_factory=dict)
    blocks: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    on: dict[int, dict[str, list[str]]] = field(default_factory=dict)


def locality_of(topology: ClusterTopology) -> Locality:
    """The domains of all compute nodes that have a name."""
    if not topology.switches:
        return _of_blocks(topology)
    return _Tree(topology).locality()


class _Tree:
    def __init__(self, topology: ClusterTopology) -> None:
        self._topology = topology
        self._levels = SwitchLevels(topology)
        self._sets = JoinedNames()
        self._hangs = _hangs(topology)
        self._sizes = Counter(leaf for leaves in self._hangs.values() for leaf in leaves)
        self._domains: list[Domain] = []
        self._parents: dict[int, int] = {}
        self._of_node: dict[str, int] = {}
        self._higher = _Higher()

    def locality(self) -> Locality:
        for one, other in _same_place(self._hangs):
            self._sets.join(one, other)
        held = Counter(map(self._place, self._hangs))
        # A switch that is the place of no node is for storage: its NICs carry no traffic of jobs.
        own = [port for port in self._topology.ports if self._sets.find(port.switch) in held]
        for block in _bottom(self._topology.blocks):
            self._join_block(block, held)
        current = self._lowest()
        for level in self._levels.steps:
            self._join(self._levels.joined_at(level))
            current = self._above(current, level)
        # Switches that all have nodes are joined beside each other, as in a dragonfly.
        self._join(self._topology.links)
        current = self._above(current, self._levels.highest + 1)
        return Locality(
            domains=tuple(_with_parents(self._domains, self._parents)),
            domain_of=self._of_node,
            nic_bytes_per_s=_nic_speeds(own),
        )

    def _join(self, links: Iterable[SwitchLink]) -> None:
        for link in links:
            self._sets.join(link.lower, link.upper)

    def _join_block(self, block: Block, held: Mapping[str, int]) -> None:
        """Leaves that lie wholly under one NVLink domain are one place: it is nearer than they."""
        counts = Counter(self._place(node) for node in block.nodes if node in self._hangs)
        whole = sorted(place for place, count in counts.items() if count == held[place])
        for other in whole[1:]:
            self._sets.join(whole[0], other)

    def _place(self, node: str) -> str:
        """The place to which most of a node's NICs lead; of several that with the fewest nodes."""
        counts = Counter(self._sets.find(leaf) for leaf in self._hangs[node])
        if len(counts) == 1:
            return next(iter(counts))
        sizes = {self._sets.find(leaf): self._sizes[leaf] for leaf in self._hangs[node]}
        return min(counts, key=lambda place: (-counts[place], sizes[place], place))

    def _lowest(self) -> dict[str, int]:
        """The domains of leaves, below them those of blocks; set → domain.

        Nodes on a switch above others wait for its level.
        """
        found: dict[str, int] = {}
        uplinks = self._outwards(self._levels.lowest)
        names = defaultdict(list)
        for leaf in dict.fromkeys(leaf for leaves in self._hangs.values() for leaf in leaves):
            names[self._sets.find(leaf)].append(leaf)
        for node in self._hangs:
            place = self._place(node)
            if self._levels.are_above(names[place]):
                level = min(map(self._levels.of, names[place]))
                self._higher.place_of[node] = place
                self._higher.on.setdefault(level, {}).setdefault(place, []).append(node)
                continue
            if place not in found:
                found[place] = self._new(fold_hosts(names[place]), 1, uplinks.get(place))
            self._of_node[node] = found[place]
        self._add_blocks()
        return found

    def _add_blocks(self) -> None:
        """A block below its leaf; of one that leaves cut through, a part below each of them."""
        for block in _bottom(self._topology.blocks):
            parts: defaultdict[int | str, list[str]] = defaultdict(list)
            for node in block.nodes:
                parts[self._of_node.get(node, self._higher.place_of.get(node, ROOT))].append(node)
            for parent, nodes in parts.items():
                domain = self._new(block.name, 0, None, is_nvlink=block.domain is not None)
                if isinstance(parent, int):
                    self._parents[domain] = parent
                else:
                    self._higher.blocks[parent].append(domain)
                self._of_node.update(dict.fromkeys(nodes, domain))

    def _above(self, current: Mapping[str, int], level: int) -> dict[str, int]:
        """The domains that switches of a level join; one that nothing joins goes on as it is."""
        members = defaultdict(list)
        for place, domain in current.items():
            members[self._sets.find(place)].append(domain)
        own: defaultdict[str, list[str]] = defaultdict(list)
        for place, nodes in self._higher.on.get(level, {}).items():
            at = self._sets.find(place)
            own[at] += nodes
            members[at] += self._higher.blocks[place]
        found = {}
        uplinks = self._outwards(level)
        tops = defaultdict(list)
        for name in self._levels.at(level):
            tops[self._sets.find(name)].append(name)
        for place, below in members.items():
            if len(below) == 1 and place not in own:
                found[place] = below[0]
                continue
            name = fold_hosts(tops[place]) or place
            found[place] = self._new(name, level + 1, uplinks.get(place))
            self._parents.update(dict.fromkeys(below, found[place]))
            for node in own[place]:
                self._of_node.setdefault(node, found[place])
        return found

    def _new(self, name: str, level: int, uplink: float | None, *, is_nvlink: bool = False) -> int:
        self._domains.append(
            Domain(name=name, level=level, uplink_bytes_per_s=uplink, is_nvlink=is_nvlink)
        )
        return len(self._domains) - 1

    def _outwards(self, level: int) -> Mapping[str, float | None]:
        """What the cables from each place to higher switches carry; None where one is not told."""
        found: dict[str, float | None] = {}
        for lower, cables in self._levels.outwards(level):
            place = self._sets.find(lower)
            speed = _speed(cables)
            before = found.get(place, 0.0)
            found[place] = None if speed is None or before is None else before + speed
        return found


def _speed(cables: Sequence[Cable] | None) -> float | None:
    found = 0.0
    for cable in cables or ():
        if not cable.is_active:
            continue
        if cable.bytes_per_s is None:
            return None
        found += cable.bytes_per_s
    return None if cables is None else found


def _hangs(topology: ClusterTopology) -> dict[str, list[str]]:
    found = defaultdict(list)
    for port in topology.ports:
        if port.node is not None and port.kind is EndKind.COMPUTE:
            found[port.node].append(port.switch)
    return dict(found)


def _same_place(hangs: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    """Leaves of several rails that the same nodes hang on."""
    of_leaf: Counter[str] = Counter()
    of_both: Counter[tuple[str, str]] = Counter()
    for leaves in hangs.values():
        own = sorted(set(leaves))
        of_leaf.update(own)
        of_both.update((one, other) for i, one in enumerate(own) for other in own[i + 1 :])
    for (one, other), count in of_both.items():
        if count > _SHARED * max(of_leaf[one], of_leaf[other]):
            yield one, other


def _nic_speeds(ports: Iterable[HostPort]) -> dict[str, float]:
    found: dict[str, float] = {}
    lacking = set()
    for port in ports:
        if port.node is None or port.kind is not EndKind.COMPUTE:
            continue
        if port.bytes_per_s is None:
            lacking.add(port.node)
        else:
            found[port.node] = found.get(port.node, 0.0) + port.bytes_per_s
    return {node: speed for node, speed in found.items() if node not in lacking}


def _bottom(blocks: Iterable[Block]) -> list[Block]:
    return [block for block in blocks if not block.is_aggregated]


def _of_blocks(topology: ClusterTopology) -> Locality:
    domains: list[Domain] = []
    parents: dict[int, int] = {}
    of_node: dict[str, int] = {}
    top_of: dict[str, int] = {}
    for block in _bottom(topology.blocks):
        domains.append(Domain(name=block.name, level=0, is_nvlink=block.domain is not None))
        of_node.update(dict.fromkeys(block.nodes, len(domains) - 1))
    top_of.update(of_node)
    above = [block for block in topology.blocks if block.is_aggregated]
    sizes = sorted({block.size or len(block.nodes) for block in above})
    for level, size in enumerate(sizes, start=_ABOVE_LEAVES):
        for block in above:
            if (block.size or len(block.nodes)) != size:
                continue
            domains.append(Domain(name=block.name, level=level))
            below = {top_of[node] for node in block.nodes if node in top_of}
            parents.update(dict.fromkeys(below, len(domains) - 1))
            top_of.update(dict.fromkeys(block.nodes, len(domains) - 1))
    if len({*top_of.values()}) > 1:
        domains.append(Domain(name="all blocks", level=len(sizes) + _ABOVE_LEAVES))
        parents.update(dict.fromkeys({*top_of.values()}, len(domains) - 1))
    return Locality(
        domains=tuple(_with_parents(domains, parents)),
        domain_of=of_node,
        nic_bytes_per_s={},
    )


def _with_parents(domains: Sequence[Domain], parents: Mapping[int, int]) -> Iterable[Domain]:
    return (replace(domain, parent=parents.get(i, ROOT)) for i, domain in enumerate(domains))


# --- The domains of a network as a tree that fits a screen: those that are alike are one branch.
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
