"""scontrol show topology: the switches or blocks that slurmctld places jobs by."""

from __future__ import annotations

import re
from typing import Final

from hpckit.model.cluster import TopologyKind
from hpckit.model.fabric import ClusterTopology, FabricSource
from hpckit.parse.slurm_text import Place
from hpckit.parse.switch_tree import BlockRow, SwitchRow, blocks_of, tree_of

_TOOL: Final = "scontrol show topology"
_SWITCH: Final = re.compile(
    r"SwitchName=(?P<name>.+) Level=(?P<level>\d{1,5}) LinkSpeed=(?P<speed>\d{1,10})"
    r"(?: Nodes=(?P<nodes>.*?))?(?: Switches=(?P<switches>.*))?",
    re.ASCII,
)
_BLOCK: Final = re.compile(
    r"(?P<kind>BlockName|AggregatedBlock)=(?P<name>.+) BlockIndex=(?P<index>\d{1,10})"
    r"(?: Nodes=(?P<nodes>.*?))? BlockSize=(?P<size>\d{1,10})",
    re.ASCII,
)
_EXPECTED: Final = "SwitchName=… Level=… LinkSpeed=… or BlockName=… BlockIndex=… BlockSize=…"
_UNSAID: Final = frozenset({"0", "1"})
"""The LinkSpeed that slurmctld prints of a switch that has none: 1, or 0 with topology.yaml."""


def scontrol_topology_argv(cluster: str | None, topology: str | None = None) -> tuple[str, ...]:
    """The question: the default topology, or from 25.05 on the one that is called `topology`.

    As text in every version: 24.11 takes `--json` and prints text all the same. Source:
    scontrol(1), "show topology".
    """
    clusters = () if cluster is None else (f"--clusters={cluster}",)
    names = () if topology is None else (topology,)
    return ("scontrol", *clusters, "show", "topology", *names)


def scontrol_topoconf_argv(cluster: str | None) -> tuple[str, ...]:
    """The question for all topologies of a cluster that has several (25.05 and later).

    The answer is a topology.yaml. Source: scontrol(1), "show topoconf".
    """
    clusters = () if cluster is None else (f"--clusters={cluster}",)
    return ("scontrol", *clusters, "show", "topoconf")


def parse_scontrol_topology(text: str, name: str = _TOOL) -> tuple[ClusterTopology, ...]:
    """The answer to `scontrol_topology_argv`: a tree, or blocks; nothing of a flat topology.

    `name` is what errors call the text.
    A text of several answers gives one of each kind, the first being the default. The nodes that
    Slurm lists at a switch above others hang on those, and are not taken from it. Raises ParseError
    for another line, and for switches of which some were left out (`show topology node=…`).
    """
    switches: list[SwitchRow] = []
    blocks: list[BlockRow] = []
    kinds: list[TopologyKind] = []
    for line_no, raw in enumerate(text.split("\n"), start=1):
        line = raw.rstrip()
        place = Place(name, line_no, line)
        if match := _SWITCH.fullmatch(line):
            switches.append(_switch(match, place))
            kinds.append(TopologyKind.TREE)
        elif match := _BLOCK.fullmatch(line):
            blocks.append(_block(match, place))
            kinds.append(TopologyKind.BLOCK)
        elif line:
            raise place.refuse("is no switch and no block", _EXPECTED)
    found_kinds = tuple(dict.fromkeys(kinds))
    return tuple(
        _of_switches(switches, is_default=at == 0)
        if kind is TopologyKind.TREE
        else _of_blocks(blocks, is_default=at == 0)
        for at, kind in enumerate(found_kinds)
    )


def _of_switches(rows: list[SwitchRow], *, is_default: bool) -> ClusterTopology:
    tree = tree_of(rows)
    return ClusterTopology(
        source=FabricSource.SCONTROL,
        plugin=TopologyKind.TREE,
        is_default=is_default,
        switches=tree.switches,
        links=tree.links,
        ports=tree.ports,
    )


def _of_blocks(blocks: list[BlockRow], *, is_default: bool) -> ClusterTopology:
    return ClusterTopology(
        source=FabricSource.SCONTROL,
        plugin=TopologyKind.BLOCK,
        is_default=is_default,
        blocks=blocks_of(blocks),
        block_sizes=tuple(sorted({block.size for block in blocks if block.size})),
    )


def _switch(match: re.Match[str], place: Place) -> SwitchRow:
    children = place.hosts(match["switches"] or "")
    return SwitchRow(
        name=match["name"],
        place=place,
        nodes=() if children else place.hosts(match["nodes"] or ""),
        switches=children,
        link_speed=None if match["speed"] in _UNSAID else match["speed"],
        level=int(match["level"]),
    )


def _block(match: re.Match[str], place: Place) -> BlockRow:
    return BlockRow(
        name=match["name"],
        place=place,
        nodes=place.hosts(match["nodes"] or ""),
        index=int(match["index"]),
        size=int(match["size"]),
        is_aggregated=match["kind"] == "AggregatedBlock",
    )
