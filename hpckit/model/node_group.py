"""Nodes that are alike."""

from __future__ import annotations

from dataclasses import dataclass

from hpckit.model.hardware import NodeTopology


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeGroup:
    """The hosts of one shape, the topology of the first, and how they differ from most.

    `differs` is empty for the group of most hosts.
    """

    hosts: tuple[str, ...]
    topology: NodeTopology
    differs: tuple[str, ...] = ()
