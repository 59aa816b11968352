"""What a cluster's network says of communication: whether rails are islands."""

from __future__ import annotations

from hpckit.model.fabric import ClusterTopology

_TWO = 2


def are_rails_isolated(topology: ClusterTopology) -> bool | None:
    """Whether no path leads from a rail to another; None where the network shows no two rails.

    Raises nothing: `decide.rails.with_rails` comes first, which finds rails and planes.
    """
    if len(topology.rails) < _TWO:
        return None
    rail_of = {switch: rail.index for rail in topology.rails for switch in rail.switches}
    planes = topology.planes or (tuple(switch.name for switch in topology.switches),)
    return all(
        len({rail_of[switch] for switch in plane if switch in rail_of}) < _TWO for plane in planes
    )
