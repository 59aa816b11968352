"""How long each link is busy under an order of nodes, also while nodes change places.

Links of a domain are its uplink outwards and inwards; those of a node its NICs and its NVLink. An
axis takes as long as its busiest link, and axes take turns: hierarchical alpha-beta, after NCCL's
model of a ring. Pure Python: the order is computed inside a job too.
"""

from __future__ import annotations

from collections.abc import Sequence

from hpckit.placement.instance import Instance

_Touching = list[int]


class Loads:
    """The busy seconds of every link by axis, for `order`: the node index on each position."""

    def __init__(self, instance: Instance, order: Sequence[int]) -> None:
        self.instance = instance
        self.order = list(order)
        self._levels = instance.levels
        self._domains = len(instance.seconds_per_byte)
        self._has_nodes = not instance.is_uniform
        self._has_nvlink = any(instance.nvlink)
        self._latencies_s = instance.latencies_s
        self._steps = [axis.steps for axis in instance.traffic]
        slots = 2 * self._domains + (4 * len(instance.nodes) if self._has_nodes else 0)
        axes = len(instance.traffic)
        self.busy_s = [[0.0] * (slots or 1) for _ in range(axes)]
        # How many edges are inside an NVLink domain, then that differ on 0, 1, … levels.
        self.crossing = [[0] * len(self._latencies_s) for _ in range(axes)]
        self.edges = [axis.edges for axis in instance.traffic]
        self._floor_s = (0.0,) * axes if self._has_nodes else instance.floor_s
        for i in range(axes):
            for one, other, sent in self.edges[i]:
                self._put(i, self.order[one], self.order[other], sent, 1)

    def axis_s(self, axis: int) -> float:
        """How long this axis takes."""
        busiest = max(self.busy_s[axis])
        return max(busiest, self._floor_s[axis]) + self.latency_s(axis)

    def latency_s(self, axis: int) -> float:
        """What this axis waits for steps of its collectives."""
        counts = self.crossing[axis]
        worst = max((at for at, count in enumerate(counts) if count), default=None)
        return 0.0 if worst is None else self._steps[axis] * self._latencies_s[worst]

    def total_s(self) -> float:
        """The predicted time of communication in a step."""
        return sum(self.axis_s(i) for i in range(len(self.busy_s)))

    def worth(self) -> tuple[float, float]:
        """What a search makes small: the time, then what all links carry together."""
        return self.total_s(), sum(map(sum, self.busy_s))

    def hop_bytes(self) -> float:
        """Bytes times the cables on their way: two between nodes of a leaf or an NVLink domain.

        It is one more for each switch that they go up, and for each that they go down.
        """
        found = 0.0
        for edges in self.edges:
            for one, other, sent in edges:
                found += sent * self._cables(self.order[one], self.order[other])
        return found

    def _cables(self, one: int, other: int) -> int:
        cables, found = self.instance.cables, 2
        for level in self._levels:
            out, into = level[one], level[other]
            if out == into:
                break
            found += cables[out] + cables[into]
        return found

    def _put(self, axis: int, one: int, other: int, sent: float, sign: int) -> None:
        busy, per_byte = self.busy_s[axis], self.instance.seconds_per_byte
        crossed = 0
        for level in self._levels:
            out, into = level[one], level[other]
            if out == into:
                break
            busy[2 * out] += sign * sent * per_byte[out]
            busy[2 * into + 1] += sign * sent * per_byte[into]
            crossed += 1
        by_nvlink = self._has_nvlink and not crossed and self.instance.nvlink[self._levels[0][one]]
        self.crossing[axis][0 if by_nvlink else crossed + 1] += sign
        if self._has_nodes:
            self._put_nodes(axis, (one, other), sign * sent, by_nvlink=by_nvlink)

    def _put_nodes(self, axis: int, ends: tuple[int, int], sent: float, *, by_nvlink: bool) -> None:
        busy, instance = self.busy_s[axis], self.instance
        one, other = ends
        at = 2 * self._domains
        if by_nvlink:
            busy[at + 4 * one + 2] += sent * instance.nvlink_s
            busy[at + 4 * other + 3] += sent * instance.nvlink_s
            return
        busy[at + 4 * one] += sent * instance.nic_s[one]
        busy[at + 4 * other + 1] += sent * instance.nic_s[other]

    def swap(self, touching: Sequence[Sequence[_Touching]], one: int, other: int) -> None:
        """Let the nodes on two positions change places; the same again takes it back."""
        order = self.order
        changed = [
            [edges[i] for i in {*lists[one], *lists[other]}]
            for edges, lists in zip(self.edges, touching, strict=True)
        ]
        for axis, edges in enumerate(changed):
            for p, q, sent in edges:
                self._put(axis, order[p], order[q], sent, -1)
        order[one], order[other] = order[other], order[one]
        for axis, edges in enumerate(changed):
            for p, q, sent in edges:
                self._put(axis, order[p], order[q], sent, 1)

    def touching(self) -> list[list[_Touching]]:
        """By axis and position, which edges begin or end there. For `swap`."""
        found: list[list[_Touching]] = []
        for edges in self.edges:
            lists: list[_Touching] = [[] for _ in self.order]
            for i, (p, q, _) in enumerate(edges):
                lists[p].append(i)
                lists[q].append(i)
            found.append(lists)
        return found
