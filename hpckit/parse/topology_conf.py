"""topology.conf: the switches or blocks that a site wrote for Slurm.

Source: topology.conf(5); parse_config.c, switch_record.c and block_record.c. What only some
releases refuse is read: a switch or block without nodes (fatal up to 24.11), a block smaller
than the first of BlockSizes (fatal in 24.11).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from hpckit.model.cluster import TopologyKind
from hpckit.model.fabric import ClusterTopology, FabricSource
from hpckit.model.slurm_topology import LINK_SPEED, LONGEST_SWITCH_NAME
from hpckit.parse.block_sizes import block_sizes
from hpckit.parse.slurm_text import Place
from hpckit.parse.switch_tree import BlockRow, SwitchRow, blocks_of, tree_of

_PAIR: Final = re.compile(
    r'\s*(?P<key>[A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:"(?P<quoted>[^"]*)"|(?P<bare>\S+))(?=\s|\Z)',
    re.ASCII,
)
_COMMENT: Final = re.compile(r"(?<!\\)(?:\\\\)*(#)")
_CONTINUED: Final = re.compile(r"(?<!\\)(?:\\\\)*(\\)\s*\Z", re.ASCII)
_ESCAPE: Final = re.compile(r"\\(.?)", re.DOTALL)
_INSIDE: Final[Mapping[str, tuple[str, ...]]] = {
    "SwitchName": ("LinkSpeed", "Nodes", "Switches"),
    "BlockName": ("Nodes",),
    "BlockSizes": (),
}
"""What may stand on the line that begins with a key."""
_EXPECTED: Final = "SwitchName=…, BlockName=… or BlockSizes=…"


@dataclass(slots=True)
class _Read:
    """What was read of a file up to a line; `first` said for which plugin."""

    switches: list[SwitchRow] = field(default_factory=list)
    blocks: list[BlockRow] = field(default_factory=list)
    sizes: tuple[int, ...] = ()
    first: Place | None = None


def parse_topology_conf(text: str, name: str) -> ClusterTopology:
    """The topology in a text of topology.conf; `name` is the file's, for errors.

    Raises ParseError for what slurmctld ends on, with the line and the one that it contradicts.
    """
    read = _Read()
    for place, line in _lines(text, name):
        _read_line(read, place, line)
    if read.switches:
        tree = tree_of(read.switches)
        return ClusterTopology(
            source=FabricSource.TOPOLOGY_CONF,
            plugin=TopologyKind.TREE,
            switches=tree.switches,
            links=tree.links,
            ports=tree.ports,
        )
    if not read.blocks:
        raise Place(name, 1, text.split("\n", 1)[0]).refuse("has no switch and no block", _EXPECTED)
    return ClusterTopology(
        source=FabricSource.TOPOLOGY_CONF,
        plugin=TopologyKind.BLOCK,
        blocks=blocks_of(read.blocks),
        block_sizes=read.sizes,
    )


def _lines(text: str, name: str) -> Iterator[tuple[Place, str]]:
    """The lines that are not blank, without comments, those that are continued joined to one."""
    joined, first = "", None
    for line_no, raw in enumerate(text.split("\n"), start=1):
        line = raw.rstrip("\r")
        place = Place(name, line_no, line)
        first = first or place
        comment = _COMMENT.search(line)
        line = line[: comment.start(1)] if comment else line
        if continued := _CONTINUED.search(line):
            joined += line[: continued.start(1)]
            continue
        joined += line
        if joined.strip():
            yield first, _ESCAPE.sub(r"\1", joined)
        joined, first = "", None
    if joined.strip() and first is not None:
        yield first, _ESCAPE.sub(r"\1", joined)


def _read_line(read: _Read, place: Place, line: str) -> None:
    key, value, at = _pair(place, line, 0, tuple(_INSIDE))
    if not value:
        raise place.refuse(f"{key} is empty", f"{key}=…")
    values: dict[str, str] = {}
    while line[at:].strip():
        inner, text, at = _pair(place, line, at, _INSIDE[key])
        values[inner] = text  # of one that stands twice Slurm takes the later
    if key == "SwitchName":
        read.switches.append(_switch(value, values, place))
    elif key == "BlockName":
        nodes = place.hosts(values.get("Nodes", ""))
        read.blocks.append(BlockRow(name=value, place=place, nodes=nodes))
    else:
        read.sizes = block_sizes(value.split(","), place)
    _refuse_mixture(read, place)


def _refuse_mixture(read: _Read, place: Place) -> None:
    read.first = read.first or place
    if read.switches and (read.blocks or read.sizes):
        message = f"switches and blocks in one file, the other begins on line {read.first.line_no}"
        raise place.refuse(message, "lines for topology/tree or for topology/block")


def _pair(place: Place, line: str, at: int, known: tuple[str, ...]) -> tuple[str, str, int]:
    """The key as it is documented, its value and where the next one begins."""
    match = _PAIR.match(line, at)
    if match is None:
        words = line[at:].strip()[:60]
        raise place.refuse(f"{words!r} is no key with a value", ", ".join(known) or _EXPECTED)
    key = next((name for name in known if name.casefold() == match["key"].casefold()), None)
    if key is None:
        what = ", ".join(known) or "nothing more on this line"
        raise place.refuse(f"the key {match['key']} is not known here", what)
    quoted = match["quoted"]
    return key, match["bare"] if quoted is None else quoted, match.end()


def _switch(name: str, values: Mapping[str, str], place: Place) -> SwitchRow:
    if len(name) > LONGEST_SWITCH_NAME:
        message = f"the switch's name has {len(name)} characters"
        raise place.refuse(message, f"at most {LONGEST_SWITCH_NAME}")
    if "Nodes" in values and "Switches" in values:
        raise place.refuse(f"switch {name} has both nodes and switches", "Nodes= or Switches=")
    speed = values.get("LinkSpeed")
    if speed is not None and LINK_SPEED.fullmatch(speed) is None:
        raise place.refuse(f"LinkSpeed={speed[:60]} is no number", "a number such as LinkSpeed=50")
    return SwitchRow(
        name=name,
        place=place,
        nodes=place.hosts(values.get("Nodes", "")),
        switches=place.hosts(values.get("Switches", "")),
        link_speed=speed,
    )
