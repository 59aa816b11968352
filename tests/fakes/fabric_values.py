"""What a topology is in few words, for a test to compare."""

from __future__ import annotations

from hpckit.fabric.topology import ClusterTopology


def levels(topology: ClusterTopology) -> dict[str, int | None]:
    """The level of each switch, in the order of the switches."""
    return {switch.name: switch.level for switch in topology.switches}


def parents(topology: ClusterTopology) -> list[tuple[str, str]]:
    """Each link, the lower switch first."""
    return [(link.lower, link.upper) for link in topology.links]


def leaves(topology: ClusterTopology) -> dict[str, list[str]]:
    """The nodes on each switch that has any."""
    found: dict[str, list[str]] = {}
    for port in topology.ports:
        found.setdefault(port.switch, []).append(str(port.node))
    return found


def blocks(topology: ClusterTopology) -> dict[str, list[str]]:
    """The nodes of each block."""
    return {block.name: list(block.nodes) for block in topology.blocks}
