"""The NVLink domains of nodes, as their GPUs name them. Source: NVML, nvmlGpuFabricInfoV_t.

A clusterUuid of zeros is that of a GPU without such a fabric (NCCL, init.cc: "A zero UUID means we
don't have MNNVL fabric info").
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from hpckit.model.fabric import Block
from hpckit.model.hardware import NodeTopology


def is_cluster(uuid: str | None) -> bool:
    """Whether a clusterUuid names a cluster; one of zeros alone does not."""
    return bool(uuid and uuid.strip("0-"))


def nvlink_domain(node: NodeTopology) -> str | None:
    """The clusterUuid.cliqueId of most of a node's GPUs; None where none of them names one.

    GPUs that NVLink joins within a node alone name no cluster.
    """
    named = Counter(
        f"{gpu.fabric.cluster_uuid}.{gpu.fabric.clique_id}"
        for gpu in node.gpus
        if gpu.fabric and is_cluster(gpu.fabric.cluster_uuid) and gpu.fabric.clique_id is not None
    )
    return max(sorted(named), key=named.__getitem__) if named else None


def nvlink_blocks(nodes: Iterable[tuple[str, NodeTopology]]) -> tuple[Block, ...]:
    """The domains that names of nodes share, in the order in which they are met.

    A node without a domain is in none.
    """
    members: dict[str, dict[str, None]] = {}
    for name, topology in nodes:
        domain = nvlink_domain(topology)
        if domain is not None:
            members.setdefault(domain, {})[name] = None
    return tuple(
        Block(name=domain, nodes=tuple(names), domain=domain) for domain, names in members.items()
    )
