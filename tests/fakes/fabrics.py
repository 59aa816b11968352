"""Made-up fabrics as domains: trees of leaves and pods, for tests of placement."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hpckit.fabric.locality import ROOT, Domain, Locality
from hpckit.placement.order import PlacementRequest
from hpckit.placement.order_plan import Mesh, MeshAxis, Pattern, Speeds

NIC_BYTES_PER_S = 4e11
SPEEDS = Speeds(nic_bytes_per_s=NIC_BYTES_PER_S, nvlink_bytes_per_s=3.6e12, oversubscription=2.0)


def tree(
    pods: Sequence[Sequence[int]],
    *,
    leaf_uplinks: Sequence[float | None] = (),
    pod_uplinks: Sequence[float | None] = (),
    seed: int | None = 0,
) -> Locality:
    """Leaves of these sizes in pods; nodes are dealt out at random, in order without a seed."""
    sizes = [size for pod in pods for size in pod]
    names = [f"n{i:05d}" for i in range(sum(sizes))]
    if seed is not None:
        random.Random(seed).shuffle(names)  # noqa: S311  names on a made-up fabric
    has_pods = len(pods) > 1
    domains = [Domain(name="root", level=2, parent=ROOT)]
    domains += [
        Domain(name=f"pod{i}", level=1, parent=0, uplink_bytes_per_s=_at(pod_uplinks, i))
        for i in range(len(pods) if has_pods else 0)
    ]
    above = [1 + i if has_pods else 0 for i, pod in enumerate(pods) for _ in pod]
    domain_of = {}
    at = 0
    for i, (size, parent) in enumerate(zip(sizes, above, strict=True)):
        uplink = _at(leaf_uplinks, i)
        domains.append(Domain(name=f"leaf{i}", level=0, parent=parent, uplink_bytes_per_s=uplink))
        domain_of.update(dict.fromkeys(names[at : at + size], len(domains) - 1))
        at += size
    return Locality(domains=tuple(domains), domain_of=domain_of, nic_bytes_per_s={})


def _at(values: Sequence[float | None], index: int) -> float | None:
    return values[index] if index < len(values) else None


def mesh(*axes: tuple[str, int, Pattern, float]) -> Mesh:
    """Axes as (name, size, pattern, bytes), innermost first."""
    return Mesh(
        axes=tuple(
            MeshAxis(name=name, size=size, pattern=pattern, bytes_per_rank=sent)
            for name, size, pattern, sent in axes
        )
    )


def request(
    locality: Locality, wanted: Mesh, *, per_node: int = 1, nodes: Sequence[str] = ()
) -> PlacementRequest:
    """All nodes of the locality, or these, with so many ranks each."""
    return PlacementRequest(
        nodes=tuple(nodes or locality.domain_of),
        ranks_per_node=per_node,
        mesh=wanted,
        locality=locality,
        speeds=SPEEDS,
    )
