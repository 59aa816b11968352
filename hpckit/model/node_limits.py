"""What no node can be: more of anything than there is room for, two devices of one number."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from hpckit.model.pci import check_tree
from hpckit.model.rules import InvalidValue

if TYPE_CHECKING:
    from hpckit.model.hardware import NodeTopology

MOST_DEVICES: Final = 2048
"""GPUs, NICs and accelerators: eight NICs with 127 virtual functions each are half of that."""

MOST_GPUS: Final = 576
"""NCCL's NCCL_TOPO_MAX_NODES (graph.h); eight cards in eight partitions each are 64."""

MOST_LINKS: Final = 1 << 17
"""All pairs of 512 GPUs."""

MOST_NUMA_NODES: Final = 1024
"""Linux, CONFIG_NODES_SHIFT: at most 10."""


class _Numbered(Protocol):
    @property
    def index(self) -> int: ...


def check_node(node: NodeTopology) -> None:
    """Raises InvalidValue for a node that none can be."""
    devices = len(node.gpus) + len(node.nics) + len(node.accelerators)
    if devices > MOST_DEVICES:
        raise InvalidValue("gpus", devices, f"at most {MOST_DEVICES} devices in one node")
    if len(node.gpus) > MOST_GPUS:
        raise InvalidValue("gpus", len(node.gpus), f"at most {MOST_GPUS} in one node")
    if len(node.gpu_links) > MOST_LINKS:
        raise InvalidValue("gpu_links", len(node.gpu_links), f"at most {MOST_LINKS}")
    if len(node.numa_nodes) > MOST_NUMA_NODES:
        raise InvalidValue("numa_nodes", len(node.numa_nodes), f"at most {MOST_NUMA_NODES}")
    _check_numbers("gpus", node.gpus)
    _check_numbers("nics", node.nics)
    _check_numbers("accelerators", node.accelerators)
    _check_numbers("numa_nodes", node.numa_nodes)
    check_tree(node.pci)


def _check_numbers(key: str, parts: Sequence[_Numbered]) -> None:
    indices = [part.index for part in parts]
    if min(indices, default=0) < 0:
        raise InvalidValue(key, min(indices), "indices from 0 on")
    if len(set(indices)) < len(indices):
        raise InvalidValue(key, "an index twice", "an index of its own for each")
