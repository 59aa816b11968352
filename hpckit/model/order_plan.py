"""What a job needs in order to order its nodes itself: a document in the job folder.

Decoded with the standard library alone, as it is read inside the job.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from hpckit.model.hostlist import expand_hosts, fold_hosts
from hpckit.model.locality import ROOT, Domain, Locality
from hpckit.model.mesh import Mesh, MeshAxis, Pattern

ORDER_SCHEMA: Final = "hpckit.order/1"
ORDER_FILE: Final = "order.json"
"""Its name in a job folder."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderPlan:
    """The network as it was at submission, and what the job sends over it.

    Speeds are in bytes per second and one direction, those that are taken where `locality` does
    not tell; `ranks_per_node` is what the mesh counts, whatever starts the ranks.
    """

    mesh: Mesh
    ranks_per_node: int
    locality: Locality
    nic_bytes_per_s: float
    nvlink_bytes_per_s: float
    oversubscription: float
    source: str


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
        "nic_bytes_per_s": plan.nic_bytes_per_s,
        "nvlink_bytes_per_s": plan.nvlink_bytes_per_s,
        "oversubscription": plan.oversubscription,
        "domains": [asdict(domain) for domain in plan.locality.domains],
        "nodes": [[domain, fold_hosts(nodes)] for domain, nodes in sorted(by_domain.items())],
        "nics": [[speed, fold_hosts(nodes)] for speed, nodes in sorted(by_speed.items())],
    }


def order_of_tree(tree: Mapping[str, Any]) -> OrderPlan:
    """The plan in a document. Raises ValueError, KeyError or TypeError for any other."""
    if tree["schema"] != ORDER_SCHEMA:
        raise ValueError(f"got {tree['schema']!r}, expected {ORDER_SCHEMA}")
    domains = tuple(Domain(**domain) for domain in tree["domains"])
    _check(domains, (domain for domain, _ in tree["nodes"]))
    axes = [{**axis, "pattern": Pattern(axis["pattern"])} for axis in tree["mesh"]]
    return OrderPlan(
        mesh=Mesh(axes=tuple(MeshAxis(**axis) for axis in axes)),
        ranks_per_node=int(tree["ranks_per_node"]),
        locality=Locality(
            domains=domains,
            domain_of={
                node: domain for domain, nodes in tree["nodes"] for node in expand_hosts(nodes)
            },
            nic_bytes_per_s={
                node: speed for speed, nodes in tree["nics"] for node in expand_hosts(nodes)
            },
        ),
        nic_bytes_per_s=float(tree["nic_bytes_per_s"]),
        nvlink_bytes_per_s=float(tree["nvlink_bytes_per_s"]),
        oversubscription=float(tree["oversubscription"]),
        source=str(tree["source"]),
    )


def _check(domains: Sequence[Domain], used: Iterable[int]) -> None:
    """Refuse domains that are not there, or inside each other in a circle: nobody would return."""
    there = range(len(domains))
    if any(one.parent != ROOT and one.parent not in there for one in domains):
        raise ValueError("a domain is inside one that is not there")
    if any(one not in there for one in used):
        raise ValueError("a node is in a domain that is not there")
    outside = {at for at in there if domains[at].parent == ROOT}
    for first in there:
        seen, at = set[int](), first
        while at not in outside:
            if at in seen:
                raise ValueError("domains are inside each other in a circle")
            seen.add(at)
            at = domains[at].parent
        outside |= seen
