"""What a running Slurm says of the network: scontrol's answers, and jobs' SLURM_TOPOLOGY_ADDR."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from typing import Final

from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.fabric.slurm_files import Placed, SwitchRow, blocks_of, tree_of
from hpckit.fabric.topology import (
    Block,
    ClusterTopology,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
)
from hpckit.slurm.text import Place
from hpckit.slurm.values import TopologyKind

_PARTITION: Final = regex(r"PartitionName=(\S+) .*")
_TOPOLOGY: Final = regex(r" Topology=(\S+)")


def scontrol_argv(what: str, cluster: str | None) -> tuple[str, ...]:
    """The question for `topology`, `topoconf` or `partitions`; one line a partition.

    `topology` is the default one, `topoconf` all of them as a topology.yaml (25.05 and later). As
    text in every version: 24.11 takes `--json` and prints text all the same. Source: scontrol(1).
    """
    lines = ("--oneliner",) if what == "partitions" else ()
    clusters = () if cluster is None else (f"--clusters={cluster}",)
    return ("scontrol", *lines, *clusters, "show", what)


def parse_partition_topologies(text: str) -> Mapping[str, str | None]:
    """The topology of each partition by name, None for the cluster's default (25.05 and later).

    Raises ParseError for a line that is no partition.
    """
    found: dict[str, str | None] = {}
    for line_no, line in enumerate(text.split("\n"), start=1):
        match = _PARTITION.fullmatch(line.rstrip())
        if match is not None:
            topology = _TOPOLOGY.search(line)
            found[match[1]] = topology[1] if topology else None
        elif line.strip() and line.strip() != "No partitions in the system":
            raise Place("scontrol show partitions", line_no, line).refuse(
                "is not a partition", "PartitionName=… …"
            )
    return found


def used_by_partitions(
    topologies: Sequence[ClusterTopology], used: Mapping[str, str | None]
) -> tuple[ClusterTopology, ...]:
    """The topologies, each with the partitions that use it; a name that is not there changes none.

    `used` is what `parse_partition_topologies` gives.
    """
    return tuple(
        replace(
            one,
            partitions=tuple(
                partition
                for partition, name in used.items()
                if (one.is_default if name is None else name == one.name)
            ),
        )
        for one in topologies
    )


_SWITCH: Final = regex(
    r"SwitchName=(?P<name>.+) Level=(?P<level>\d{1,5}) LinkSpeed=(?P<speed>\d{1,10})"
    r"(?: Nodes=(?P<nodes>.*?))?(?: Switches=(?P<switches>.*))?",
    re.ASCII,
)
_BLOCK: Final = regex(
    r"(?P<kind>BlockName|AggregatedBlock)=(?P<name>.+) BlockIndex=(?P<index>\d{1,10})"
    r"(?: Nodes=(?P<nodes>.*?))? BlockSize=(?P<size>\d{1,10})",
    re.ASCII,
)
_EXPECTED: Final = "SwitchName=… Level=… LinkSpeed=… or BlockName=… BlockIndex=… BlockSize=…"
_UNSAID: Final = frozenset({"0", "1"})
"""The LinkSpeed that slurmctld prints of a switch that has none: 1, or 0 with topology.yaml."""


def parse_scontrol_topology(
    text: str, name: str = "scontrol show topology"
) -> tuple[ClusterTopology, ...]:
    """The answer to `show topology`: a tree, or blocks; nothing of a flat topology.

    `name` is what errors call the text.
    A text of several answers gives one of each kind, the first being the default. The nodes that
    Slurm lists at a switch above others hang on those, and are not taken from it. Raises ParseError
    for another line, and for switches of which some were left out (`show topology node=…`).
    """
    switches: list[SwitchRow] = []
    blocks: list[Placed] = []
    kinds: list[TopologyKind] = []
    for line_no, raw in enumerate(text.split("\n"), start=1):
        line = raw.rstrip()
        place = Place(name, line_no, line)
        if match := _SWITCH.fullmatch(line):
            switches.append(_switch(match, place))
            kinds.append(TopologyKind.TREE)
        elif match := _BLOCK.fullmatch(line):
            blocks.append((_block(match, place), place))
            kinds.append(TopologyKind.BLOCK)
        elif line:
            raise place.refuse("is neither a switch nor a block", _EXPECTED)
    return tuple(
        tree_of(switches, FabricSource.SCONTROL, is_default=at == 0)
        if kind is TopologyKind.TREE
        else ClusterTopology(
            source=FabricSource.SCONTROL,
            plugin=kind,
            is_default=at == 0,
            blocks=blocks_of(blocks),
            block_sizes=tuple(sorted({block.size for block, _ in blocks if block.size})),
        )
        for at, kind in enumerate(dict.fromkeys(kinds))
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


def _block(match: re.Match[str], place: Place) -> Block:
    return Block(
        name=match["name"],
        nodes=place.hosts(match["nodes"] or ""),
        index=int(match["index"]),
        size=int(match["size"]),
        is_aggregated=match["kind"] == "AggregatedBlock",
    )


# --- SLURM_TOPOLOGY_ADDR. Source: srun(1); topology_p_get_node_addr of topology_tree.c and
# topology_block.c. The order of switches is that in which they are met, which is not Slurm's own.
_PATTERN: Final = regex(r"((?:switch\.)*|block\.)node", re.ASCII)
_ADDR_EXPECTED: Final = "host address pattern, such as: n1 spine.leaf1.n1 switch.switch.node"


@dataclass(slots=True)
class _Read:
    """What the lines said: levels of switches, links upwards, and where each node hangs."""

    addresses: dict[str, tuple[str, str, int]] = field(default_factory=dict)
    level: dict[str, int] = field(default_factory=dict)
    links: dict[tuple[str, str], None] = field(default_factory=dict)
    ports: dict[tuple[str, str], None] = field(default_factory=dict)
    blocks: dict[str, list[str]] = field(default_factory=dict)
    unplaced: dict[str, None] = field(default_factory=dict)


def parse_topology_addr(text: str, name: str) -> ClusterTopology:
    """The topology above the nodes of a text of lines `host address pattern`.

    `address` and `pattern` are SLURM_TOPOLOGY_ADDR and SLURM_TOPOLOGY_ADDR_PATTERN of a task on
    `host`; a line may stand more than once. Raises ParseError for another line, for one that
    contradicts another, and for names of switches with dots, which an address cannot tell apart.
    """
    read = _Read()
    for line_no, line in enumerate(text.split("\n"), start=1):
        words, place = line.split(), Place(name, line_no, line.rstrip())
        if not words:
            continue
        match = _PATTERN.fullmatch(words[-1])
        if len(words) != 3 or match is None:  # noqa: PLR2004  the fields of _EXPECTED
            raise place.refuse("is not a node address", _ADDR_EXPECTED)
        _read_line(read, words[0], words[1], words[2], place)
    if not read.addresses:
        raise Place(name, 1, "").refuse("has no address", _ADDR_EXPECTED)
    return _topology(read)


def _read_line(read: _Read, host: str, address: str, pattern: str, place: Place) -> None:
    before = read.addresses.setdefault(host, (address, pattern, place.line_no))
    if before[:2] != (address, pattern):
        message = f"{host} is {address} here, {before[0]} on line {before[2]}"
        raise place.refuse(message, "one address per node")
    if before[2] != place.line_no:
        return
    parts = pattern.count(".")
    above, node = _split(address, host, parts)
    if len(above) != parts:
        message = f"{address} has {len(above) + 1} parts, its pattern {parts + 1}"
        raise place.refuse(message, "the same number; switch names cannot contain dots")
    if bool(read.blocks if pattern.startswith("switch") else read.level) and parts:
        raise place.refuse("switches and blocks in one text", "the addresses of one topology")
    if pattern.startswith("block"):
        if not above[0]:
            raise place.refuse(f"{address} names no block", _ADDR_EXPECTED)
        read.blocks.setdefault(above[0], []).append(node)
    else:
        _hang(read, node, above, place)


def _hang(read: _Read, node: str, above: list[str], place: Place) -> None:
    """Note the switches above a node; of those of one level, each may be above those below."""
    if not any(above):
        read.unplaced[node] = None
    lower: tuple[str, ...] = ()
    for level, names in enumerate(reversed(above)):
        here = place.hosts(names)
        for switch in here:
            known = read.level.setdefault(switch, level)
            if known != level:
                message = f"switch {switch} is at level {level} here, at {known} before"
                raise place.refuse(message, "one level per switch")
            read.links.update(dict.fromkeys((below, switch) for below in lower))
            if not lower:
                read.ports[node, switch] = None
        lower = here or lower


def _split(address: str, host: str, parts: int) -> tuple[list[str], str]:
    """What is above the node, the outermost first, and its name, which is the host's or shorter."""
    if parts and address.endswith(f".{host}"):
        return address[: -len(host) - 1].split("."), host
    above, _, node = address.rpartition(".") if parts else ("", "", address)
    return above.split(".") if parts else [], node


def _topology(read: _Read) -> ClusterTopology:
    kind = TopologyKind.FLAT
    if read.level or read.blocks:
        kind = TopologyKind.BLOCK if read.blocks else TopologyKind.TREE
    return ClusterTopology(
        source=FabricSource.TOPOLOGY_ADDR,
        plugin=kind,
        switches=tuple(Switch(name=name, level=level) for name, level in read.level.items()),
        links=tuple(SwitchLink(lower=lower, upper=upper) for lower, upper in read.links),
        ports=tuple(HostPort(node=node, switch=switch) for node, switch in read.ports),
        blocks=tuple(
            Block(name=name, nodes=tuple(dict.fromkeys(nodes)))
            for name, nodes in read.blocks.items()
        ),
        unplaced=tuple(read.unplaced),
    )
