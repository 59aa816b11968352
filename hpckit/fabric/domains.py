"""A fabric becomes domains inside domains: what reaches what without going up further.

A domain of level k are the nodes whose switches reach each other by switches of level k or lower.
So it holds for Slurm's trees, for fat trees, and for leaves of several rails, which the nodes that
hang on all of them join. A node that hangs on a switch above others is in that one's domain.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hpckit.core.hostlist import fold_hosts
from hpckit.fabric.ends import by_node
from hpckit.fabric.levels import SwitchLevels
from hpckit.fabric.locality import ROOT, Domain, Locality
from hpckit.fabric.rails import JoinedNames
from hpckit.fabric.topology import Block, Cable, ClusterTopology, HostPort, SwitchLink

_SHARED: Final = 0.5
"""Leaves are of one place where more than this share of the nodes of either hang on the other too:
a cable in the wrong leaf joins nothing, nor does a switch for storage on which all nodes hang."""
_ABOVE_LEAVES: Final = 2
"""The level of what is above blocks alone: no leaf, which is a switch."""


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
        self._hangs = {
            node: [port.switch for port in ports] for node, ports in by_node(topology.ports).items()
        }
        self._sizes = Counter(leaf for leaves in self._hangs.values() for leaf in leaves)
        self._domains: list[Domain] = []
        self._parents: dict[int, int] = {}
        self._of_node: dict[str, int] = {}
        # Of nodes on switches above others: their place, and until the level of these is reached
        # the blocks there, and the nodes by level and place.
        self._higher: dict[str, str] = {}
        self._blocks: defaultdict[str, list[int]] = defaultdict(list)
        self._waiting: dict[int, dict[str, list[str]]] = {}

    def locality(self) -> Locality:
        for one, other in _same_place(self._hangs):
            self._sets.join(one, other)
        held = Counter(map(self._place, self._hangs))
        # A switch that is the place of no node is for storage: its NICs carry no traffic of jobs.
        own = [port for port in self._topology.ports if self._sets.find(port.switch) in held]
        for block in _bottom(self._topology.blocks):
            self._join_block(block, held)
        current = self._lowest()
        for level in self._levels.numbers[1:]:
            self._join(self._levels.joined[level])
            current = self._above(current, level)
        # Switches that all have nodes are joined beside each other, as in a dragonfly.
        self._join(self._topology.links)
        current = self._above(current, self._levels.numbers[-1] + 1)
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
        if len(self._hangs[node]) == 1:
            return self._sets.find(self._hangs[node][0])
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
        uplinks = self._outwards(self._levels.numbers[0])
        names = defaultdict(list)
        for leaf in dict.fromkeys(leaf for leaves in self._hangs.values() for leaf in leaves):
            names[self._sets.find(leaf)].append(leaf)
        for node in self._hangs:
            place = self._place(node)
            if self._levels.above.issuperset(names[place]):
                level = min(self._levels.of[name] for name in names[place])
                self._higher[node] = place
                self._waiting.setdefault(level, {}).setdefault(place, []).append(node)
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
                parts[self._of_node.get(node, self._higher.get(node, ROOT))].append(node)
            for parent, nodes in parts.items():
                domain = self._new(block.name, 0, None, is_nvlink=block.domain is not None)
                if isinstance(parent, int):
                    self._parents[domain] = parent
                else:
                    self._blocks[parent].append(domain)
                self._of_node.update(dict.fromkeys(nodes, domain))

    def _above(self, current: Mapping[str, int], level: int) -> dict[str, int]:
        """The domains that switches of a level join; one that nothing joins goes on as it is."""
        members = defaultdict(list)
        for place, domain in current.items():
            members[self._sets.find(place)].append(domain)
        own: defaultdict[str, list[str]] = defaultdict(list)
        for place, nodes in self._waiting.get(level, {}).items():
            at = self._sets.find(place)
            own[at] += nodes
            members[at] += self._blocks[place]
        found = {}
        uplinks = self._outwards(level)
        tops = defaultdict(list)
        for name in self._levels.names[level]:
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
        speeds: defaultdict[str, list[float | None]] = defaultdict(list)
        for lower, cables in self._levels.outwards[level]:
            speeds[self._sets.find(lower)].append(_speed(cables))
        return {place: _sum(told) for place, told in speeds.items()}


def _speed(cables: Sequence[Cable] | None) -> float | None:
    if cables is None:
        return None
    return _sum(cable.bytes_per_s for cable in cables if cable.is_active)


def _sum(speeds: Iterable[float | None]) -> float | None:
    """The sum; None where one is not told."""
    told = list(speeds)
    return None if None in told else sum(filter(None, told), 0.0)


def _same_place(hangs: Mapping[str, Sequence[str]]) -> Iterable[tuple[str, str]]:
    """Leaves of several rails that the same nodes hang on."""
    of_leaf: Counter[str] = Counter()
    of_both: Counter[tuple[str, str]] = Counter()
    for leaves, nodes in Counter(map(tuple, hangs.values())).items():
        own = sorted(set(leaves))
        for i, one in enumerate(own):
            of_leaf[one] += nodes
            for other in own[i + 1 :]:
                of_both[one, other] += nodes
    for (one, other), count in of_both.items():
        if count > _SHARED * max(of_leaf[one], of_leaf[other]):
            yield one, other


def _nic_speeds(ports: Iterable[HostPort]) -> dict[str, float]:
    sums = {node: _sum(port.bytes_per_s for port in of) for node, of in by_node(ports).items()}
    return {node: speed for node, speed in sums.items() if speed is not None}


def _bottom(blocks: Iterable[Block]) -> list[Block]:
    return [block for block in blocks if not block.is_aggregated]


def _of_blocks(topology: ClusterTopology) -> Locality:
    domains: list[Domain] = []
    parents: dict[int, int] = {}
    of_node: dict[str, int] = {}
    for block in _bottom(topology.blocks):
        domains.append(Domain(name=block.name, level=0, is_nvlink=block.domain is not None))
        of_node.update(dict.fromkeys(block.nodes, len(domains) - 1))
    top_of = dict(of_node)
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
