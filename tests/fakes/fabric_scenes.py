"""Fabrics that are trees or blocks, and what of a topology Slurm knows."""

from __future__ import annotations

import dataclasses
from typing import Final

from hpckit.fabric.topology import (
    Block,
    Cable,
    ClusterTopology,
    EndKind,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
)
from hpckit.slurm.values import TopologyKind


def tree(
    parents: dict[str, str], leaves: dict[str, list[str]], speeds: dict[str, str] | None = None
) -> ClusterTopology:
    """A tree: the parent of each switch that has one, the nodes of each leaf."""
    names = list(dict.fromkeys([*leaves, *parents, *parents.values()]))
    return ClusterTopology(
        source=FabricSource.TOPOLOGY_CONF,
        plugin=TopologyKind.TREE,
        switches=tuple(
            Switch(name=name, level=_level(name, parents), link_speed=(speeds or {}).get(name))
            for name in names
        ),
        links=tuple(SwitchLink(lower=lower, upper=upper) for lower, upper in parents.items()),
        ports=tuple(
            HostPort(node=node, switch=leaf) for leaf, nodes in leaves.items() for node in nodes
        ),
    )


def _level(name: str, parents: dict[str, str]) -> int:
    below = [lower for lower, upper in parents.items() if upper == name]
    return max((_level(one, parents) + 1 for one in below), default=0)


def blocks(members: dict[str, list[str]], sizes: tuple[int, ...] = ()) -> ClusterTopology:
    """Blocks, with sizes or without."""
    return ClusterTopology(
        source=FabricSource.TOPOLOGY_CONF,
        plugin=TopologyKind.BLOCK,
        blocks=tuple(Block(name=name, nodes=tuple(nodes)) for name, nodes in members.items()),
        block_sizes=sizes,
    )


def cabled() -> ClusterTopology:
    """A tree as ibnetdiscover tells it: names with spaces, cables, a manager, a spare switch."""
    found = tree(
        {"Quantum #1": "core A"}, {"Quantum #1": ["c1", "c2"], "Quantum [1]": ["c3"], "spare": []}
    )
    cable = Cable(lower_port=1, upper_port=2, speed="4xNDR", bytes_per_s=5e10)
    others = (
        HostPort(node=None, switch="Quantum #1", nic="mlx5_0", kind=EndKind.ANONYMOUS),
        HostPort(node="ufm", switch="core A", kind=EndKind.OTHER),
    )
    return dataclasses.replace(
        found,
        source=FabricSource.IBNETDISCOVER,
        links=tuple(dataclasses.replace(link, cables=(cable,)) for link in found.links),
        ports=(*found.ports, *others),
    )


FABRICS: Final[dict[str, ClusterTopology]] = {
    "one switch": tree({}, {"sw": ["c1", "c2", "c10"]}),
    "two levels": tree(
        {"leaf2": "spine", "leaf10": "spine"}, {"leaf10": ["c3", "c1"], "leaf2": ["c2", "c4"]},
        {"leaf2": "50", "spine": "10k"},
    ),
    "a core that comes last": tree(
        {"r1s1": "s1", "r1s2": "s1", "r2s1": "s2", "s1": "core", "s2": "core"},
        {"r1s1": ["n01", "n02"], "r1s2": ["n03"], "r2s1": ["n09", "n10", "gpu-a", "gpu-1-ib"]},
    ),
    "two roots": tree({}, {"a": ["c1"], "b": ["c2"]}),
    "uneven": tree({"low": "mid", "mid": "top", "high": "top"}, {"low": ["c1"], "high": ["c2"]}),
    "names that Slurm reads as lists": tree(
        {"leaf[1-2]": "up,down", "café": "up,down"}, {"leaf[1-2]": ["c1"], "café": ["c2"]},
    ),
    "names alike when changed": tree(
        {"a b": "top", "a#b": "top", "a_b": "top"}, {"a b": ["c1"], "a#b": ["c2"], "a_b": ["c3"]},
    ),
    "names like YAML's words": tree({"1": "on", "null": "on"}, {"1": ["c1"], "null": ["c2"]}),
    "a long name": tree({"x" * 80: "top"}, {"x" * 80: ["c1"]}),
    "names with signs": tree(
        {"switch.1.2": "up/down:1", "a-1": "up/down:1"}, {"switch.1.2": ["c1"], "a-1": ["c2"]},
    ),
    "cabled": cabled(),
    "blocks": blocks({"b1": ["c1", "c2"], "b2": ["c3", "c4"], "b3": ["c5", "c6"]}, (2, 4)),
    "blocks without sizes": blocks({"b1": ["c1", "c2"], "b2": ["c3", "c4"]}),
    "a first block that is large": blocks({"b1": ["c1", "c2", "c3"], "b2": ["c4", "c5"]}),
    "blocks of NVLink": blocks(
        {"7e2b1c9a-0f4d-4d6e-9a51-3f0b2c1d4e5f.32766": ["t1", "t2"], "rack 2": ["t3", "t4"]}
    ),
}  # fmt: skip


def as_slurm_sees(topology: ClusterTopology) -> ClusterTopology:
    """What scontrol can show of it: no cables, no default speed, no names of topologies, no order
    within a list.
    """
    return ClusterTopology(
        source=FabricSource.SCONTROL,
        plugin=topology.plugin,
        switches=tuple(
            Switch(name=one.name, level=one.level)
            for one in topology.switches
        ),
        links=tuple(
            sorted(
                (SwitchLink(lower=one.lower, upper=one.upper) for one in topology.links),
                key=lambda link: (link.lower, link.upper),
            )
        ),
        ports=tuple(
            sorted(
                (HostPort(node=one.node, switch=one.switch) for one in topology.ports),
                key=lambda port: (port.switch, str(port.node)),
            )
        ),
        blocks=tuple(
            Block(name=one.name, nodes=tuple(sorted(one.nodes)))
            for one in topology.blocks
            if not one.is_aggregated
        ),
    )  # fmt: skip
