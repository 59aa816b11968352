"""SLURM_TOPOLOGY_ADDR of many nodes: the switches or the block above each, as a job sees them.

Source: srun(1), "SLURM_TOPOLOGY_ADDR"; topology_p_get_node_addr of topology_tree.c and
topology_block.c. The order of switches is that in which they are met, which is not Slurm's own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from hpckit.model.cluster import TopologyKind
from hpckit.model.fabric import (
    Block,
    ClusterTopology,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
)
from hpckit.parse.slurm_text import Place

_PATTERN: Final = re.compile(r"((?:switch\.)*|block\.)node", re.ASCII)
_MOST_LEVELS: Final = 32
_EXPECTED: Final = "host address pattern, such as: n1 spine.leaf1.n1 switch.switch.node"


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
            raise place.refuse("is no address of a node", _EXPECTED)
        _read_line(read, words[0], words[1], words[2], place)
    if not read.addresses:
        raise Place(name, 1, "").refuse("has no address", _EXPECTED)
    return _topology(read)


def _read_line(read: _Read, host: str, address: str, pattern: str, place: Place) -> None:
    before = read.addresses.setdefault(host, (address, pattern, place.line_no))
    if before[:2] != (address, pattern):
        message = f"{host} is {address}, and {before[0]} on line {before[2]}"
        raise place.refuse(message, "one address a node")
    if before[2] != place.line_no:
        return
    parts = pattern.count(".")
    above, node = _split(address, host, parts)
    if len(above) != parts or parts > _MOST_LEVELS:
        message = f"{address} has {len(above) + 1} parts and its pattern {parts + 1}"
        raise place.refuse(message, "as many of both; the name of a switch may hold no dot")
    if bool(read.blocks if pattern.startswith("switch") else read.level) and parts:
        raise place.refuse("switches and blocks in one text", "the addresses of one topology")
    if pattern.startswith("block"):
        if not above[0]:
            raise place.refuse(f"{address} names no block", _EXPECTED)
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
                message = f"switch {switch} is at level {level} here, and at {known} before"
                raise place.refuse(message, "one level a switch")
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
