"""The kinds of nodes of a job, each drawn once."""

from __future__ import annotations

from hpckit.account.gpu_claims import node_pictures
from tests.fakes.machines import cpu_only, dgx_h100


def test_alike_nodes_share_a_picture() -> None:
    """Nodes that are alike are one picture, another kind is another."""
    found = node_pictures({"n1": dgx_h100(), "n2": dgx_h100(), "c1": cpu_only()})

    assert [one.nodes for one in found] == [("n1", "n2"), ("c1",)]
    assert all(one.svg.startswith("<svg") for one in found)


def test_no_topology_no_picture() -> None:
    """A job without captured topologies has no pictures."""
    assert node_pictures({}) == ()
