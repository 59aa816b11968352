"""What takes the time of an order: uplinks, the nodes' own links, or the latency of its steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hpckit.placement.instance import Instance
from hpckit.placement.loads import Loads


@dataclass(frozen=True, slots=True, kw_only=True)
class Busiest:
    """Seconds axis by axis: the busiest uplink, the busiest NIC or NVLink, and latency beside."""

    uplinks_s: tuple[float, ...]
    nodes_s: tuple[float, ...]
    latency_s: tuple[float, ...]

    @property
    def beyond_nodes_s(self) -> float:
        """How much longer uplinks take than the nodes themselves would."""
        pairs = zip(self.uplinks_s, self.nodes_s, strict=True)
        return sum(max(0.0, uplinks - nodes) for uplinks, nodes in pairs)


def busiest(instance: Instance, order: Sequence[int]) -> Busiest:
    """What each kind of link takes under an order, as if the other kind took nothing."""
    axes = range(len(instance.traffic))
    by_uplinks = Loads(
        replace(
            instance,
            nic_s=(0.0,) * len(instance.nic_s),
            nvlink_s=0.0,
            floor_s=(0.0,) * len(axes),
        ),
        order,
    )
    by_nodes = Loads(
        replace(instance, seconds_per_byte=(0.0,) * len(instance.seconds_per_byte)), order
    )
    latency_s = tuple(by_nodes.latency_s(axis) for axis in axes)
    return Busiest(
        uplinks_s=tuple(by_uplinks.axis_s(axis) - latency_s[axis] for axis in axes),
        nodes_s=tuple(by_nodes.axis_s(axis) - latency_s[axis] for axis in axes),
        latency_s=latency_s,
    )
