"""A topology as its source has it, with everything that follows from it filled in."""

from __future__ import annotations

from hpckit.decide.nic_roles import with_nic_roles
from hpckit.decide.paths import with_paths
from hpckit.model.hardware import NodeTopology


def complete(topology: NodeTopology) -> NodeTopology:
    """The same node with effective PCIe links, what lies between its devices, and NIC roles."""
    return with_nic_roles(with_paths(topology))
