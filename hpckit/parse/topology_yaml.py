"""topology.yaml: the topologies of a cluster that has several, Slurm 25.05 and later.

Source: topology.yaml(5); the data_parser's TOPOLOGY_CONF. `scontrol show topoconf` prints one too,
with an empty table for each plugin that a topology does not use.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from hpckit.model.cluster import TopologyKind
from hpckit.model.fabric import ClusterTopology, FabricSource
from hpckit.model.slurm_topology import LONGEST_SWITCH_NAME
from hpckit.parse.block_sizes import block_sizes
from hpckit.parse.slurm_text import Place
from hpckit.parse.switch_tree import BlockRow, SwitchRow, blocks_of, tree_of
from hpckit.parse.yaml_tree import YamlNode, yaml_tree

_KINDS: Final = ("tree", "block", "flat", "ring", "torus3d")
_EXPECTED: Final = "tree, block or flat; of ring and torus3d the nodes are read"


def parse_topology_yaml(text: str, name: str) -> tuple[ClusterTopology, ...]:
    """The topologies in their order; `name` is the file's, for errors.

    The default is the first with cluster_default, else the first. The rings and toruses of 26.05
    are blocks of a topology without a plugin: their nodes are known, and not what joins these.
    Raises ParseError for what slurmctld ends on, an unknown key, and aliases.
    """
    root = yaml_tree(text, name)
    nodes = [root] if isinstance(root.value, dict) else root.items()
    if not nodes:
        raise root.refuse("has no topology", "a list of topologies")
    tables = [(node, node.table(("topology", "cluster_default", *_KINDS))) for node in nodes]
    names = _names(tables)
    flags = ["cluster_default" in table and table["cluster_default"].flag() for _, table in tables]
    default = flags.index(True) if any(flags) else 0
    return tuple(
        _topology(node, table, name=names[at], is_default=at == default)
        for at, (node, table) in enumerate(tables)
    )


def parse_topoconf(text: str) -> tuple[ClusterTopology, ...]:
    """What `scontrol show topoconf` prints; nothing where slurmctld has no topology.yaml.

    It then prints one topology with an empty table for every plugin, whatever topology.conf says
    (26.05). Raises ParseError.
    """
    name = "scontrol show topoconf"
    rows = yaml_tree(text, name).items()
    if len(rows) == 1:
        table = rows[0].table(("topology", "cluster_default", *_KINDS))
        if all(table[kind].is_empty() for kind in _KINDS if kind in table):
            return ()
    return parse_topology_yaml(text, name)


def _names(tables: list[tuple[YamlNode, Mapping[str, YamlNode]]]) -> list[str]:
    lines: dict[str, int] = {}
    for node, table in tables:
        name = _required(node, table, "topology")
        if name in lines:
            message = f"the topology {name} is on line {lines[name]} already"
            raise table["topology"].refuse(message, "a name of its own")
        lines[name] = node.line_no
    return list(lines)


def _topology(
    node: YamlNode, table: Mapping[str, YamlNode], *, name: str, is_default: bool
) -> ClusterTopology:
    used = [kind for kind in _KINDS if kind in table and not _is_absent(table[kind], kind)]
    if len(used) != 1:
        got = " and ".join(used) or "no plugin"
        raise node.refuse(f"the topology {name} has {got}", f"one of: {_EXPECTED}")
    read: Mapping[str, Callable[[YamlNode], ClusterTopology]] = {
        "tree": _tree, "block": _blocks, "flat": _flat, "ring": _rings, "torus3d": _toruses,
    }  # fmt: skip
    topology = read[used[0]](table[used[0]])
    return dataclasses.replace(topology, name=name, is_default=is_default)


def _is_absent(node: YamlNode, kind: str) -> bool:
    if kind == "flat" and not isinstance(node.value, dict):
        return not node.flag()
    return node.is_empty()


def _required(node: YamlNode, table: Mapping[str, YamlNode], key: str) -> str:
    text = table[key].text() if key in table else None
    if not text:
        raise node.refuse(f"{key} is missing", f"{key}: and a name")
    return text


def _place(node: YamlNode) -> Place:
    return Place(node.source.name, node.line_no, node.path)


def _names_in(table: Mapping[str, YamlNode], key: str) -> tuple[str, ...]:
    text = table[key].text() if key in table else None
    return _place(table[key]).hosts(text) if text else ()


def _rows(node: YamlNode, key: str) -> list[YamlNode]:
    table = node.table((key,))
    rows = list(table[key].items()) if key in table else []
    if not rows:
        raise node.refuse(f"has no {key}", f"{key}: and a list")
    return rows


def _tree(node: YamlNode) -> ClusterTopology:
    tree = tree_of([_switch(row) for row in _rows(node, "switches")])
    return ClusterTopology(
        source=FabricSource.TOPOLOGY_YAML,
        plugin=TopologyKind.TREE,
        switches=tree.switches,
        links=tree.links,
        ports=tree.ports,
    )


def _switch(row: YamlNode) -> SwitchRow:
    table = row.table(("switch", "children", "nodes"))
    name = _required(row, table, "switch")
    if len(name) > LONGEST_SWITCH_NAME:
        raise row.refuse(f"the switch's name has {len(name)} characters", f"{LONGEST_SWITCH_NAME}")
    nodes = _names_in(table, "nodes")
    # With both, slurmctld warns and takes the nodes (switch_record.c).
    children = () if nodes else _names_in(table, "children")
    return SwitchRow(name=name, place=_place(row), nodes=nodes, switches=children)


def _blocks(node: YamlNode) -> ClusterTopology:
    table = node.table(("block_sizes", "blocks"))
    sizes = table["block_sizes"].items() if "block_sizes" in table else ()
    rows = table["blocks"].items() if "blocks" in table else ()
    if not rows:
        raise node.refuse("has no blocks", "blocks: and a list")
    return ClusterTopology(
        source=FabricSource.TOPOLOGY_YAML,
        plugin=TopologyKind.BLOCK,
        blocks=blocks_of([_named(row, "block") for row in rows]),
        block_sizes=block_sizes([size.text() or "" for size in sizes], _place(node)),
    )


def _named(row: YamlNode, key: str) -> BlockRow:
    table = row.table((key, "nodes"))
    name = _required(row, table, key)
    return BlockRow(name=name, place=_place(row), nodes=_names_in(table, "nodes"))


def _flat(node: YamlNode) -> ClusterTopology:
    if isinstance(node.value, dict):
        table = node.table(("alpha_step_rank",))
        table["alpha_step_rank"].flag()
    return ClusterTopology(source=FabricSource.TOPOLOGY_YAML, plugin=TopologyKind.FLAT)


def _rings(node: YamlNode) -> ClusterTopology:
    return _unjoined([_named(row, "ring") for row in _rows(node, "rings")])


def _toruses(node: YamlNode) -> ClusterTopology:
    return _unjoined([_torus(row) for row in _rows(node, "toruses")])


def _torus(row: YamlNode) -> BlockRow:
    table = row.table(("name", "dims", "nodes", "regions", "placements"))
    nodes = _names_in(table, "nodes")
    for region in table["regions"].items() if "regions" in table else ():
        nodes += _names_in(region.table(("anchor", "dims", "nodes")), "nodes")
    return BlockRow(name=_required(row, table, "name"), place=_place(row), nodes=nodes)


def _unjoined(rows: list[BlockRow]) -> ClusterTopology:
    return ClusterTopology(source=FabricSource.TOPOLOGY_YAML, blocks=blocks_of(rows))
