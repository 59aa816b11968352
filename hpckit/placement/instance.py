"""Nodes with their domains in arrays, as the search for an order wants them, and their loads.

Every node gets a domain on every level, so that two nodes differ on the levels below the lowest
domain that holds both. Pure Python: the order is computed inside a job too.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import compress
from operator import mul, ne
from typing import Final

from hpckit.core.values import dataclass
from hpckit.fabric.locality import ROOT, Locality
from hpckit.placement.order_plan import Speeds
from hpckit.placement.traffic import AxisTraffic, Lane

NET_LATENCY_S: Final = 14e-6
NVLINK_LATENCY_S: Final = 3.4e-6
"""Of one step of a ring. Source: NCCL tuning.cc, hardware latencies of Ring/Simple, NET and NVLINK
(4.0 µs there is that of a tree)."""
LEVEL_LATENCY_S: Final = 0.5e-6
"""Two more switches on the way, about 0.25 µs each. Source: data sheets of NDR and HDR switches
say 90 to 230 ns a hop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """What is to be placed: `nodes` by index in natural order, and traffic between positions.

    `levels[l][node]` is its domain on level l, `capacity[domain]` the nodes in it, and
    `seconds_per_byte` of a domain that of what leads out. `nic_s` and `nvlink_s` are seconds per
    byte of each node. `nvlink[domain]` tells that traffic inside takes no NIC. `cables[domain]` is
    1 where a cable leads up out of it, and 0 where it is none of the network's: an NVLink domain,
    or what stands in for one that is missing. `fixed` nodes, at the end of `nodes`, are in no
    domain that anybody knows and stay on the last positions.
    `is_told`: the fabric says what leads out of every domain. `floor_s` is what the NICs of some
    node take in every order, axis by axis. `home` is each node's lowest domain that a source tells
    of, ROOT for one that nobody knows; on a level a stand-in is no such domain.
    """

    nodes: tuple[str, ...]
    levels: tuple[tuple[int, ...], ...]
    seconds_per_byte: tuple[float, ...]
    capacity: tuple[int, ...]
    nvlink: tuple[bool, ...]
    cables: tuple[int, ...]
    nic_s: tuple[float, ...]
    nvlink_s: float
    traffic: tuple[AxisTraffic, ...]
    fixed: int
    is_told: bool
    floor_s: tuple[float, ...]
    home: tuple[int, ...]

    @property
    def is_uniform(self) -> bool:
        """Whether every node's NICs are alike and nothing passes by them."""
        return len(set(self.nic_s)) <= 1 and not any(self.nvlink)

    @property
    def latencies_s(self) -> tuple[float, ...]:
        """Of one step inside an NVLink domain, then between nodes that differ on 0, 1, … levels."""
        levels = range(len(self.levels) + 1)
        return NVLINK_LATENCY_S, *(NET_LATENCY_S + one * LEVEL_LATENCY_S for one in levels)


def make_instance(
    nodes: Sequence[str], locality: Locality, traffic: tuple[AxisTraffic, ...], speeds: Speeds
) -> Instance:
    """The instance of these nodes; those that `locality` does not know come last."""
    locality = _touched(nodes, locality)
    known = [node for node in nodes if node in locality.domain_of]
    lost = [node for node in nodes if node not in locality.domain_of]
    ordered = (*known, *lost)
    rows = _level_rows(known, locality)
    count = len(locality.domains)
    levels, domain_count = _padded(rows, count, len(lost))
    nic = tuple(1 / locality.nic_bytes_per_s.get(node, speeds.nic_bytes_per_s) for node in ordered)
    nvlink_s = 1 / speeds.nvlink_bytes_per_s
    capacity = Counter(domain for level in levels for domain in level)
    domains = range(domain_count)
    nvlink = tuple(i < count and locality.domains[i].is_nvlink for i in domains)
    return Instance(
        nodes=ordered,
        levels=levels,
        seconds_per_byte=_uplinks(levels, nic, locality, speeds, domain_count),
        capacity=tuple(capacity[domain] for domain in domains),
        nvlink=nvlink,
        cables=tuple(int(_is_limit(i, locality)) for i in domains),
        nic_s=nic,
        nvlink_s=nvlink_s,
        traffic=traffic,
        fixed=len(lost),
        is_told=all(
            locality.domains[domain].uplink_bytes_per_s
            for level in levels
            for domain in level
            if _is_limit(domain, locality)
        ),
        floor_s=tuple(
            _nic_floor_s(axis, nic, nvlink_s if any(nvlink) else None) for axis in traffic
        ),
        home=tuple(locality.domain_of.get(node, ROOT) for node in ordered),
    )


def _touched(nodes: Sequence[str], locality: Locality) -> Locality:
    """The domains around these nodes alone: a job need not know the whole cluster."""
    used = sorted(locality.held(nodes))
    at = {domain: i for i, domain in enumerate(used)} | {ROOT: ROOT}
    return Locality(
        domains=tuple(
            replace(locality.domains[i], parent=at[locality.domains[i].parent]) for i in used
        ),
        domain_of={
            node: at[locality.domain_of[node]] for node in nodes if node in locality.domain_of
        },
        nic_bytes_per_s=locality.nic_bytes_per_s,
    )


def _level_rows(known: Sequence[str], locality: Locality) -> list[list[int]]:
    """The domain of each node on each level, ROOT where it has none; a level of one is left out."""
    rows = {level: [ROOT] * len(known) for level in {one.level for one in locality.domains}}
    lowest = [locality.domain_of[node] for node in known]
    paths = {domain: locality.above(domain) for domain in set(lowest)}
    for i, at in enumerate(lowest):
        for domain in paths[at]:
            rows[locality.domains[domain].level][i] = domain
    used = [rows[level] for level in sorted(rows)]
    while len(used) > 1 and len(set(used[-1])) == 1:
        used.pop()  # all nodes are in it, so nothing leaves it
    return used or [[ROOT] * len(known)]


def _padded(
    rows: Sequence[Sequence[int]], count: int, lost: int
) -> tuple[tuple[tuple[int, ...], ...], int]:
    """The levels with a domain for every node, and how many domains there are then.

    Where a node has none on a level, what it has below stands alone there too; so do `lost` nodes.
    """
    levels: list[tuple[int, ...]] = []
    below: Sequence[int] = range(len(rows[0]))
    for row in rows:
        made: dict[int, int] = {}
        found = []
        for domain, under in zip(row, below, strict=True):
            if domain == ROOT and under not in made:
                made[under] = count
                count += 1
            found.append(made[under] if domain == ROOT else domain)
        levels.append((*found, *range(count, count + lost)))
        count += lost
        below = found
    return tuple(levels), count


def _uplinks(
    levels: Sequence[Sequence[int]],
    nic_s: Sequence[float],
    locality: Locality,
    speeds: Speeds,
    count: int,
) -> tuple[float, ...]:
    """Seconds per byte out of each domain; where nobody tells, alike on each level."""
    found = [0.0] * count
    sent = sum(1 / one for one in nic_s)
    ratio = 1.0
    for level in levels:
        # A stand-in is left out: what is below or above it is the limit. Out of an NVLink domain
        # lead the NICs of its nodes, which are counted by themselves.
        real = [domain for domain in dict.fromkeys(level) if _is_limit(domain, locality)]
        ratio *= speeds.oversubscription if real else 1
        for domain in real:
            told = locality.domains[domain].uplink_bytes_per_s
            found[domain] = 1 / told if told else ratio * len(real) / sent
    return tuple(found)


def _is_limit(domain: int, locality: Locality) -> bool:
    return domain < len(locality.domains) and not locality.domains[domain].is_nvlink


def _nic_floor_s(axis: AxisTraffic, nic_s: Sequence[float], nvlink_s: float | None) -> float:
    """What the busiest node's NICs take in every order, as far as that can be said beforehand.

    Where every node is alike and nothing passes by the NICs it is all that they take.
    """
    sent = axis.sent()
    if not sent:
        return 0.0
    most, fastest_s = max(sent.values()), min(nic_s)
    if nvlink_s is not None:
        # A node's NICs and its NVLink work at once, but what one other node gets takes one of them.
        both_s = 1 / (1 / fastest_s + 1 / nvlink_s)
        return max(most * both_s, axis.most_to_one() * min(fastest_s, nvlink_s))
    # The slowest node is somewhere, and sends at least what the place with the least traffic does.
    least = min(sent.values()) if len(sent) == len(nic_s) else 0.0
    return max(most * fastest_s, least * max(nic_s))


# --- On how many leaves the groups of an order lie. A leaf is the lowest domain that a source tells
# of: an NVLink domain for the nodes in one, the leaf switch for those beside them.
def spread(instance: Instance, order: Sequence[int], axis: int) -> list[int]:
    """On how many leaves each group of an axis lies, at least one.

    Nodes that nobody knows are on none.
    """
    leaf = list(map(instance.home.__getitem__, order))
    found = []
    for group in instance.traffic[axis].groups:
        leaves = set(map(leaf.__getitem__, group.nodes))
        leaves.discard(ROOT)
        found.append(max(1, len(leaves)))
    return found


def straddling(instance: Instance, order: Sequence[int], axis: int) -> int:
    """How many groups of an axis are on more than one leaf."""
    return sum(count > 1 for count in spread(instance, order, axis))


def sending_axes(instance: Instance) -> list[int]:
    """The axes that send anything between nodes; all of them where none does."""
    found = [
        i
        for i, traffic in enumerate(instance.traffic)
        if traffic.groups and traffic.axis.bytes_per_rank
    ]
    return found or list(range(len(instance.traffic)))


# --- How long each link is busy under an order of nodes. The links of a domain are its uplink, as
# busy outwards as inwards; those of a node its NICs and its NVLink. An axis takes as long as its
# busiest link, and axes take turns: hierarchical alpha-beta, after NCCL's model of a ring.
class Loads:
    """What every link carries by axis, for `order`: the node index on each position."""

    def __init__(self, instance: Instance, order: Sequence[int]) -> None:
        self.instance = instance
        self.order = order
        axes = instance.traffic
        # Bytes out of each domain, and on how many levels an edge differs at most.
        self.out_bytes = [[0.0] * len(instance.seconds_per_byte) for _ in axes]
        self._crossed = [0] * len(axes)
        lanes: list[Sequence[Lane]] = [axis.lanes for axis in axes]
        for at, level in enumerate(instance.levels, start=1):
            domain_of = list(map(level.__getitem__, order))
            for i in range(len(axes)):
                lanes[i] = self._put(i, lanes[i], domain_of)
                if lanes[i]:
                    self._crossed[i] = at
        self._nodes_s = instance.floor_s
        self._by_nics = [True] * len(axes)
        if not instance.is_uniform:
            found = [self._busiest_node(axis) for axis in axes]
            self._nodes_s = tuple(busy_s for busy_s, _ in found)
            self._by_nics = [by_nics for _, by_nics in found]

    def _put(self, at: int, lanes: Sequence[Lane], domain_of: Sequence[int]) -> list[Lane]:
        """Add what leaves each domain of a level; return that alone, as no other leaves one above.

        What stays inside of a domain stays inside of those around it.
        """
        out_bytes, get, leaving = self.out_bytes[at], domain_of.__getitem__, []
        for sent, senders, receivers in lanes:
            domains = list(map(get, senders))
            leaves = list(map(ne, domains, map(get, receivers)))
            left = Counter(compress(domains, leaves))
            for domain, count in left.items():
                out_bytes[domain] += count * sent
            if left:
                out = list(compress(senders, leaves))
                leaving.append((sent, out, list(compress(receivers, leaves))))
        return leaving

    def _busiest_node(self, axis: AxisTraffic) -> tuple[float, bool]:
        """How long the NICs or the NVLink of a node are busy at most, and whether any NIC is."""
        instance, order, lowest = self.instance, self.order, self.instance.levels[0]
        busy: defaultdict[tuple[int, bool, bool], float] = defaultdict(float)
        for sent, senders, receivers in axis.lanes:
            for one, other in zip(senders, receivers, strict=True):
                out, into = order[one], order[other]
                by_nics = lowest[out] != lowest[into] or not instance.nvlink[lowest[out]]
                busy[out, True, by_nics] += sent
                busy[into, False, by_nics] += sent
        most_s = 0.0
        for (node, _, by_nics), sent in busy.items():
            most_s = max(most_s, sent * (instance.nic_s[node] if by_nics else instance.nvlink_s))
        return most_s, any(by_nics for _, _, by_nics in busy)

    def axis_s(self, axis: int) -> float:
        """How long this axis takes."""
        busiest = max(map(mul, self.out_bytes[axis], self.instance.seconds_per_byte), default=0.0)
        return max(busiest, self._nodes_s[axis]) + self.latency_s(axis)

    def latency_s(self, axis: int) -> float:
        """What this axis waits for steps of its collectives."""
        traffic, crossed = self.instance.traffic[axis], self._crossed[axis]
        if not traffic.lanes:
            return 0.0
        worst = crossed + 1 if crossed or self._by_nics[axis] else 0
        return traffic.steps * self.instance.latencies_s[worst]

    def total_s(self) -> float:
        """The predicted time of communication in a step."""
        return sum(map(self.axis_s, range(len(self.out_bytes))))

    def hop_bytes(self) -> float:
        """Bytes times the cables on their way: two between nodes of a leaf or an NVLink domain.

        It is one more for each switch that they go up, and for each that they go down.
        """
        cables = self.instance.cables
        found = 0.0
        for axis, out_bytes in zip(self.instance.traffic, self.out_bytes, strict=True):
            found += 2 * sum(sent * len(senders) for sent, senders, _ in axis.lanes)
            found += 2 * sum(map(mul, out_bytes, cables))
        return found
