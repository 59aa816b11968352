"""How near nodes are to each other: domains inside domains, and what leads out of each.

Pure Python and small, as it is read inside a job too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from hpckit.core.values import dataclass

ROOT: Final = -1
"""The parent of what has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """Nodes that reach each other without leaving it: an NVLink domain, a leaf, a pod, everything.

    `level` counts from 0, the lowest; `parent` is a position in `Locality.domains`, ROOT for the
    outermost. `uplink_bytes_per_s` is what all its cables outwards carry together in one direction,
    None where nobody says. `is_nvlink`: inside it traffic takes NVLink and no NIC.
    """

    name: str
    level: int
    parent: int = ROOT
    uplink_bytes_per_s: float | None = None
    is_nvlink: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Locality:
    """The domains of a set of nodes: a forest, joined by what `domains` has at the top.

    `domain_of` maps a node to its lowest domain; a node that no source knows is not in it.
    `nic_bytes_per_s` is what a node's NICs carry together in one direction, of those that are told.
    """

    domains: tuple[Domain, ...]
    domain_of: Mapping[str, int]
    nic_bytes_per_s: Mapping[str, float]

    def path(self, node: str) -> tuple[int, ...]:
        """The domains around a node, the lowest first; empty for a node that nobody knows."""
        return self.above(self.domain_of.get(node, ROOT))

    def above(self, domain: int) -> tuple[int, ...]:
        """The domain and those around it, the lowest first; empty for ROOT."""
        found = []
        while domain != ROOT:
            found.append(domain)
            domain = self.domains[domain].parent
        return tuple(found)

    def held(self, nodes: Iterable[str]) -> Counter[int]:
        """How many of these nodes each domain holds that has any."""
        lowest = Counter(self.domain_of.get(node, ROOT) for node in nodes)
        found: Counter[int] = Counter()
        for domain, count in lowest.items():
            for at in self.above(domain):
                found[at] += count
        return found
