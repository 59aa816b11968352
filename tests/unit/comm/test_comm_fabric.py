"""Whether a network's rails are islands."""

from __future__ import annotations

from hpckit.comm.facts import are_rails_isolated
from hpckit.fabric.rails import with_rails
from hpckit.fabric.topology import ClusterTopology, FabricSource, HostPort, Switch, SwitchLink


def fabric(*, spine: bool, rails: int = 2) -> ClusterTopology:
    """Four nodes with a NIC on each rail's leaf, the leaves under one spine or under none."""
    leaves = tuple(f"leaf{rail}" for rail in range(rails))
    ports = tuple(
        HostPort(node=f"n{node}", switch=leaf, nic=f"mlx5_{rail}")
        for node in range(4)
        for rail, leaf in enumerate(leaves)
    )
    tops = ("spine",) if spine else ()
    return with_rails(
        ClusterTopology(
            source=FabricSource.IBNETDISCOVER,
            switches=tuple(Switch(name=name) for name in (*leaves, *tops)),
            links=tuple(SwitchLink(lower=leaf, upper=top) for leaf in leaves for top in tops),
            ports=ports,
        )
    )


def test_leaves_without_a_spine_are_islands() -> None:
    """Two rails that no cable joins are isolated."""
    assert are_rails_isolated(fabric(spine=False)) is True


def test_leaves_under_a_spine_are_none() -> None:
    """Two rails below one spine reach each other."""
    assert are_rails_isolated(fabric(spine=True)) is False


def test_one_rail_says_nothing() -> None:
    """Nodes with one NIC have no rails to isolate."""
    assert are_rails_isolated(fabric(spine=True, rails=1)) is None
