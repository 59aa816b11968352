"""What a job needs in order to order its nodes itself: a document in the job folder.

Decoded with the standard library alone, as it is read inside the job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from math import prod
from typing import Any, Final, TypeVar

from hpckit.core.hostlist import expand_hosts, fold_hosts
from hpckit.fabric.locality import Domain, Locality


class Pattern(StrEnum):
    """Who talks to whom in a group of ranks."""

    RING = "ring"  # all-reduce, all-gather, reduce-scatter: each to the next, and around
    CHAIN = "chain"  # pipeline stages: each to the next and back, and not around
    ALL_TO_ALL = "all-to-all"  # experts: each to each


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshAxis:
    """One axis: `bytes_per_rank` is the size of what each rank gives to the collective in a step.

    Of a ring all-reduce of v bytes among s ranks each sends 2(s−1)/s·v, in a chain v forward and
    as much back, in an all-to-all v/s to each other. An axis that `splits` another takes no ranks
    of its own: its groups are runs of `size` along that axis, as experts are along data.
    """

    name: str
    size: int
    pattern: Pattern
    bytes_per_rank: float
    splits: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """The axes, innermost first: rank r has the coordinate r mod size on the first."""

    axes: tuple[MeshAxis, ...]

    @property
    def ranks(self) -> int:
        """The product of the sizes, less those that split another axis."""
        return prod(axis.size for axis in self.axes if axis.splits is None)

    def stride(self, name: str) -> int:
        """How far apart the ranks of a group of this axis are."""
        found = 1
        for axis in self.axes:
            if axis.name == name:
                return found if axis.splits is None else self.stride(axis.splits)
            found *= axis.size if axis.splits is None else 1
        raise KeyError(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """What is taken where a fabric does not tell: each in bytes per second and one direction.

    `oversubscription` is how much less leads out of a level than into it, on each level: what the
    job's nodes could send, less by that, is taken to be spread evenly over the level's domains.
    """

    nic_bytes_per_s: float
    nvlink_bytes_per_s: float
    oversubscription: float


ORDER_SCHEMA: Final = "hpckit.order/1"
ORDER_FILE: Final = "order.json"
"""Its name in a job folder."""
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPlan:
    """The network as it was at submission, and what the job sends over it.

    `ranks_per_node` is what the mesh counts, whatever starts the ranks. `segment` nodes one after
    the other are of one lowest domain where the allocation allows it.
    """

    mesh: Mesh
    ranks_per_node: int
    locality: Locality
    speeds: Speeds
    source: str
    segment: int = 1


def order_tree(plan: OrderPlan) -> dict[str, Any]:
    """The plan as plain tables; nodes of one domain, or of one speed, are one list of hosts."""
    by_domain: dict[int, list[str]] = defaultdict(list)
    for node, domain in plan.locality.domain_of.items():
        by_domain[domain].append(node)
    by_speed: dict[float, list[str]] = defaultdict(list)
    for node, speed in plan.locality.nic_bytes_per_s.items():
        by_speed[speed].append(node)
    return {
        "schema": ORDER_SCHEMA,
        "source": plan.source,
        "mesh": [{**asdict(axis), "pattern": str(axis.pattern)} for axis in plan.mesh.axes],
        "ranks_per_node": plan.ranks_per_node,
        "segment": plan.segment,
        **asdict(plan.speeds),
        "domains": [asdict(domain) for domain in plan.locality.domains],
        "nodes": [[domain, fold_hosts(nodes)] for domain, nodes in sorted(by_domain.items())],
        "nics": [[speed, fold_hosts(nodes)] for speed, nodes in sorted(by_speed.items())],
    }


def order_of_tree(tree: Mapping[str, Any]) -> OrderPlan:
    """Return the plan that `order_tree` wrote. Raises ValueError, KeyError or TypeError."""
    if tree["schema"] != ORDER_SCHEMA:
        raise ValueError(f"got {tree['schema']!r}, expected {ORDER_SCHEMA}")
    domains = tuple(Domain(**domain) for domain in tree["domains"])
    axes = tuple(MeshAxis(**{**axis, "pattern": Pattern(axis["pattern"])}) for axis in tree["mesh"])
    return OrderPlan(
        mesh=Mesh(axes=axes),
        ranks_per_node=tree["ranks_per_node"],
        locality=Locality(
            domains=domains,
            domain_of=_by_node(tree["nodes"]),
            nic_bytes_per_s=_by_node(tree["nics"]),
        ),
        speeds=Speeds(**{field.name: tree[field.name] for field in fields(Speeds)}),
        source=tree["source"],
        segment=tree.get("segment", 1),
    )


def _by_node(rows: Iterable[tuple[Value, str]]) -> dict[str, Value]:
    return {node: value for value, nodes in rows for node in expand_hosts(nodes)}
