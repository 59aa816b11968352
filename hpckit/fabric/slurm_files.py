"""topology.conf and topology.yaml: the switches or blocks that a site wrote for Slurm.

What slurmctld refuses is refused here too, and what it takes with a warning is taken: several
roots, a switch below two others, a node on two leaves (switch_record.c, block_record.c; each tried
with slurmctld 22.05.8, 24.11.5 and 26.05.5).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Final

from hpckit.core.foreign_text import YamlNode, yaml_tree
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.fabric.topology import (
    LINK_SPEED,
    LONGEST_SWITCH_NAME,
    Block,
    ClusterTopology,
    FabricSource,
    HostPort,
    Switch,
    SwitchLink,
    heights,
)
from hpckit.slurm.text import Place
from hpckit.slurm.values import TopologyKind

_SIZE: Final = regex(r"\s*0*(?P<size>[1-9]\d{0,8})\s*", re.ASCII)
_MOST_DOUBLINGS: Final = 15


def block_sizes(words: Sequence[str], place: Place) -> tuple[int, ...]:
    """The sizes, each the first one times a power of two of at most 2^15.

    Raises ParseError, as slurmctld ends on others. Source: block_record.c; topology.conf(5).
    """
    sizes: list[int] = []
    for word in words:
        match = _SIZE.fullmatch(word)
        if match is None:
            raise place.refuse(
                f"block size {word[:60]!r} is not a positive number", "sizes such as 18,36"
            )
        size = int(match["size"])
        times, rest = divmod(size, sizes[0] if sizes else size)
        if rest or times.bit_count() != 1 or times.bit_length() > _MOST_DOUBLINGS + 1:
            message = f"block size {size} is not {sizes[0]} times a power of two"
            raise place.refuse(message, f"{sizes[0]}, {2 * sizes[0]}, {4 * sizes[0]}, …")
        sizes.append(size)
    return tuple(sizes)


@dataclass(frozen=True, slots=True, kw_only=True)
class SwitchRow:
    """One switch as it was written, with its line.

    `nodes` are those that hang on it, not those below its children. `level` is None where the
    source leaves that to the reader.
    """

    name: str
    place: Place
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()
    link_speed: str | None = None
    level: int | None = None


def _refuse_strangers(row: SwitchRow, by_name: Mapping[str, SwitchRow]) -> None:
    """Raise ParseError for a child that is the switch itself, or no switch here."""
    for child in row.switches:
        if child == row.name:
            message = f"switch {child} is its own child"
            raise row.place.refuse(message, "another switch as its child")
        if child not in by_name:
            count = f"not among the {len(by_name)} switches here"
            message = f"{child}, a child of switch {row.name}, is {count}"
            raise row.place.refuse(message, f"a line SwitchName={child}")


def tree_of(
    rows: Sequence[SwitchRow], source: FabricSource, *, is_default: bool = True
) -> ClusterTopology:
    """Return the tree: the switches in their order, what joins them and where nodes hang.

    Raises ParseError for a name that stands twice, a child that is not there and a switch above
    itself, with the line and the one that it contradicts.
    """
    by_name = {row.name: row for row in rows}
    _refuse_twins(((row.name, row.place) for row in rows), "switch")
    for row in rows:
        _refuse_strangers(row, by_name)
    levels, ring = heights({row.name: row.switches for row in rows})
    if ring:
        lines = " > ".join(f"{name} (line {by_name[name].place.line_no})" for name in ring)
        message = f"switch {ring[0]} is below itself, a loop of {len(ring) - 1} switches: {lines}"
        raise by_name[ring[0]].place.refuse(message, "a tree, without loops")
    return ClusterTopology(
        source=source,
        plugin=TopologyKind.TREE,
        is_default=is_default,
        switches=tuple(
            Switch(
                name=row.name,
                level=levels[row.name] if row.level is None else row.level,
                link_speed=row.link_speed,
            )
            for row in rows
        ),
        links=tuple(
            SwitchLink(lower=child, upper=row.name)
            for row in rows
            for child in dict.fromkeys(row.switches)
        ),
        ports=tuple(
            HostPort(node=node, switch=row.name)
            for row in rows
            for node in dict.fromkeys(row.nodes)
        ),
    )


Placed = tuple[Block, Place]
"""A block as it was written, with its line."""


def blocks_of(rows: Sequence[Placed]) -> tuple[Block, ...]:
    """The blocks in their order, each node once. Raises ParseError for a name that stands twice."""
    _refuse_twins(((block.name, place) for block, place in rows), "block")
    return tuple(
        dataclasses.replace(block, nodes=tuple(dict.fromkeys(block.nodes))) for block, _ in rows
    )


def _refuse_twins(named: Iterable[tuple[str, Place]], what: str) -> None:
    lines: dict[str, int] = {}
    for name, place in named:
        before = lines.setdefault(name, place.line_no)
        if before != place.line_no:
            message = f"{what} {name} is already on line {before}"
            raise place.refuse(message, f"one line per {what}")


# --- topology.conf(5); parse_config.c, switch_record.c and block_record.c. What only some releases
# refuse is read: a switch or block without nodes (fatal up to 24.11), a block smaller than the
# first of BlockSizes (fatal in 24.11).
_PAIR: Final = regex(
    r'\s*(?P<key>[A-Za-z0-9_.]+)\s*[-*+/]?=\s*(?:"(?P<quoted>[^"]*)"|(?P<bare>\S+))(?=\s|\Z)',
    re.ASCII,
)
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
    blocks: list[Placed] = field(default_factory=list)
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
        return tree_of(read.switches, FabricSource.TOPOLOGY_CONF)
    if not read.blocks:
        raise Place(name, 1, text.split("\n", 1)[0]).refuse(
            "has neither switches nor blocks", _EXPECTED
        )
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
        first = first or Place(name, line_no, raw.rstrip("\r"))
        line = raw.partition("#")[0].rstrip()
        joined += line.removesuffix("\\")
        if line.endswith("\\"):
            continue
        if joined.strip():
            yield first, joined
        joined, first = "", None
    if joined.strip() and first is not None:
        yield first, joined


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
        read.blocks.append((Block(name=value, nodes=nodes), place))
    else:
        read.sizes = block_sizes(value.split(","), place)
    read.first = read.first or place
    if read.switches and (read.blocks or read.sizes):
        message = f"switches and blocks in one file; line {read.first.line_no} has the other kind"
        raise place.refuse(message, "lines for either topology/tree or topology/block")


def _pair(place: Place, line: str, at: int, known: tuple[str, ...]) -> tuple[str, str, int]:
    """The key as it is documented, its value and where the next one begins."""
    match = _PAIR.match(line, at)
    if match is None:
        words = line[at:].strip()[:60]
        raise place.refuse(f"{words!r} is not key=value", ", ".join(known) or _EXPECTED)
    key = next((name for name in known if name.casefold() == match["key"].casefold()), None)
    if key is None:
        what = ", ".join(known) or "nothing more on this line"
        raise place.refuse(f"unknown key {match['key']}", what)
    quoted = match["quoted"]
    return key, match["bare"] if quoted is None else quoted, match.end()


def _switch(name: str, values: Mapping[str, str], place: Place) -> SwitchRow:
    if len(name) > LONGEST_SWITCH_NAME:
        message = f"the switch name has {len(name)} characters"
        raise place.refuse(message, f"at most {LONGEST_SWITCH_NAME}")
    if "Nodes" in values and "Switches" in values:
        raise place.refuse(f"switch {name} has both nodes and switches", "Nodes= or Switches=")
    speed = values.get("LinkSpeed")
    if speed is not None and LINK_SPEED.fullmatch(speed) is None:
        raise place.refuse(
            f"LinkSpeed={speed[:60]} is not a number", "a number such as LinkSpeed=50"
        )
    return SwitchRow(
        name=name,
        place=place,
        nodes=place.hosts(values.get("Nodes", "")),
        switches=place.hosts(values.get("Switches", "")),
        link_speed=speed,
    )


# --- topology.yaml(5); the data_parser's TOPOLOGY_CONF: Slurm 25.05 and later. `scontrol show
# topoconf` prints one too, with an empty table for each plugin that a topology does not use.
_KINDS: Final = ("tree", "block", "flat", "ring", "torus3d")
_YAML_EXPECTED: Final = "tree, block or flat; only the nodes of ring and torus3d are read"


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
            message = f"topology {name} is already on line {lines[name]}"
            raise table["topology"].refuse(message, "a unique name")
        lines[name] = node.line_no
    return list(lines)


def _topology(
    node: YamlNode, table: Mapping[str, YamlNode], *, name: str, is_default: bool
) -> ClusterTopology:
    used = [kind for kind in _KINDS if kind in table and not _is_absent(table[kind], kind)]
    if len(used) != 1:
        got = " and ".join(used) or "no plugin"
        raise node.refuse(f"topology {name} has {got}", f"one of: {_YAML_EXPECTED}")
    topology = _of_plugin(used[0], table[used[0]])
    return dataclasses.replace(topology, name=name, is_default=is_default)


def _of_plugin(kind: str, node: YamlNode) -> ClusterTopology:
    source = FabricSource.TOPOLOGY_YAML
    match kind:
        case "tree":
            return tree_of([_yaml_switch(row) for row in _rows(node, "switches")], source)
        case "block":
            return _blocks(node)
        case "flat":
            if isinstance(node.value, dict):
                node.table(("alpha_step_rank",))["alpha_step_rank"].flag()
            return ClusterTopology(source=source, plugin=TopologyKind.FLAT)
        case "ring":
            rows = [_named(row, "ring") for row in _rows(node, "rings")]
        case _:
            rows = [_torus(row) for row in _rows(node, "toruses")]
    return ClusterTopology(source=source, blocks=blocks_of(rows))


def _is_absent(node: YamlNode, kind: str) -> bool:
    if kind == "flat" and not isinstance(node.value, dict):
        return not node.flag()
    return node.is_empty()


def _required(node: YamlNode, table: Mapping[str, YamlNode], key: str) -> str:
    text = table[key].text() if key in table else None
    if not text:
        raise node.refuse(f"{key} is missing", f"{key}: with a name")
    return text


def _place(node: YamlNode) -> Place:
    return Place(node.name, node.line_no, node.path)


def _names_in(table: Mapping[str, YamlNode], key: str) -> tuple[str, ...]:
    text = table[key].text() if key in table else None
    return _place(table[key]).hosts(text) if text else ()


def _rows(node: YamlNode, key: str) -> list[YamlNode]:
    table = node.table((key,))
    rows = list(table[key].items()) if key in table else []
    if not rows:
        raise node.refuse(f"has no {key}", f"{key}: with a list")
    return rows


def _yaml_switch(row: YamlNode) -> SwitchRow:
    table = row.table(("switch", "children", "nodes"))
    name = _required(row, table, "switch")
    if len(name) > LONGEST_SWITCH_NAME:
        expected = f"at most {LONGEST_SWITCH_NAME}"
        raise row.refuse(f"the switch name has {len(name)} characters", expected)
    nodes = _names_in(table, "nodes")
    # With both, slurmctld warns and takes the nodes (switch_record.c).
    children = () if nodes else _names_in(table, "children")
    return SwitchRow(name=name, place=_place(row), nodes=nodes, switches=children)


def _blocks(node: YamlNode) -> ClusterTopology:
    table = node.table(("block_sizes", "blocks"))
    sizes = table["block_sizes"].items() if "block_sizes" in table else ()
    rows = table["blocks"].items() if "blocks" in table else ()
    if not rows:
        raise node.refuse("has no blocks", "blocks: with a list")
    return ClusterTopology(
        source=FabricSource.TOPOLOGY_YAML,
        plugin=TopologyKind.BLOCK,
        blocks=blocks_of([_named(row, "block") for row in rows]),
        block_sizes=block_sizes([size.text() or "" for size in sizes], _place(node)),
    )


def _named(row: YamlNode, key: str) -> Placed:
    table = row.table((key, "nodes"))
    name = _required(row, table, key)
    return Block(name=name, nodes=_names_in(table, "nodes")), _place(row)


def _torus(row: YamlNode) -> Placed:
    table = row.table(("name", "dims", "nodes", "regions", "placements"))
    nodes = _names_in(table, "nodes")
    for region in table["regions"].items() if "regions" in table else ():
        nodes += _names_in(region.table(("anchor", "dims", "nodes")), "nodes")
    return Block(name=_required(row, table, "name"), nodes=nodes), _place(row)
