"""The levels of a fabric's switches, and which cables join what on each."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from hpckit.model.fabric import Cable, ClusterTopology, EndKind, SwitchLink

Outward = tuple[str, Sequence[Cable] | None]
"""The switch at the lower end of a link, and the link's cables."""


class SwitchLevels:
    """What is on each level, looked up by level; only those are gone through that exist."""

    def __init__(self, topology: ClusterTopology) -> None:
        self._of = switch_levels(topology)
        self._names: defaultdict[int, list[str]] = defaultdict(list)
        for name, level in self._of.items():
            self._names[level].append(name)
        self._all = sorted(self._names)
        self._joined: defaultdict[int, list[SwitchLink]] = defaultdict(list)
        self._outwards: defaultdict[int, list[Outward]] = defaultdict(list)
        self._above: set[str] = set()
        for link in topology.links:
            self._add(link)

    def _add(self, link: SwitchLink) -> None:
        low, high = sorted((link.lower, link.upper), key=self._of.__getitem__)
        first, last = self._of[low], self._of[high]
        self._joined[last].append(link)
        for at in range(bisect_left(self._all, first), bisect_left(self._all, last)):
            self._outwards[self._all[at]].append((low, link.cables))
        if first < last:
            self._above.add(high)

    @property
    def lowest(self) -> int:
        """The lowest level; 0 without switches."""
        return self._all[0] if self._all else 0

    @property
    def highest(self) -> int:
        """The highest level; 0 without switches."""
        return self._all[-1] if self._all else 0

    @property
    def steps(self) -> Sequence[int]:
        """The levels above the lowest, ascending."""
        return self._all[1:]

    def of(self, switch: str) -> int:
        """A switch's level."""
        return self._of[switch]

    def at(self, level: int) -> Sequence[str]:
        """The switches on a level."""
        return self._names.get(level, ())

    def are_above(self, switches: Iterable[str]) -> bool:
        """Whether cables lead from each of them to a switch on a lower level."""
        return self._above.issuperset(switches)

    def joined_at(self, level: int) -> Iterable[SwitchLink]:
        """The links whose higher end is on a level; with the second those of the lowest too."""
        if self._all[1:2] == [level]:
            yield from self._joined.get(self._all[0], ())
        yield from self._joined.get(level, ())

    def outwards(self, level: int) -> Sequence[Outward]:
        """The links from a level or below it to above it."""
        return self._outwards.get(level, ())


def switch_levels(topology: ClusterTopology) -> Mapping[str, int]:
    """The level of each switch: as told, else 0 where nodes hang, and one more with each cable."""
    told = {switch.name: switch.level for switch in topology.switches}
    found = {name: level for name, level in told.items() if level is not None}
    if len(found) == len(told):
        return found
    found |= {port.switch: 0 for port in topology.ports if port.kind is EndKind.COMPUTE}
    beside = defaultdict(list)
    for link in topology.links:
        beside[link.lower].append(link.upper)
        beside[link.upper].append(link.lower)
    edge = list(found)
    while edge:
        after = []
        for name in edge:
            for other in beside[name]:
                if other not in found:
                    found[other] = found[name] + 1
                    after.append(other)
        edge = after
    return {name: found.get(name, 0) for name in told}
