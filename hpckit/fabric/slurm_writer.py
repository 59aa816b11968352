"""Any network as what Slurm can say: a tree of switches or blocks, in topology.conf or .yaml."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Final

from hpckit.core.errors import RenderError
from hpckit.core.hostlist import fold_hosts, natural_order
from hpckit.core.late import regex
from hpckit.core.units import counted
from hpckit.core.values import dataclass
from hpckit.fabric.domain_names import folded_names, names_in
from hpckit.fabric.domains import locality_of
from hpckit.fabric.ends import says_nothing
from hpckit.fabric.locality import ROOT, Domain, Locality
from hpckit.fabric.topology import (
    LINK_SPEED,
    LONGEST_SWITCH_NAME,
    ClusterTopology,
    EndKind,
    HostPort,
    Switch,
    SwitchLink,
    heights,
)
from hpckit.slurm.values import TopologyKind

_OWN_TREES = frozenset({TopologyKind.TREE, TopologyKind.BLOCK, TopologyKind.FLAT})


def slurm_tree(topology: ClusterTopology) -> ClusterTopology:
    """The topology with one way from each node to the top, as topology/tree wants it.

    Leaves of several rails become one switch, and so does what joins them; each says in its
    description which switches it stands for. Blocks alone become topology/block. Nodes whose names
    say nothing are left out; those on a switch above others get a leaf of their own. What Slurm
    itself told is as it was. Raises RenderError where no block has a node.
    """
    blocks = [block for block in topology.blocks if not block.is_aggregated]
    is_of_blocks = topology.plugin is TopologyKind.BLOCK or not topology.switches
    if topology.blocks and is_of_blocks and not any(block.nodes for block in blocks):
        count = counted(len(blocks), "block")
        raise RenderError(f"nothing to write for Slurm: no node in {count}")
    if topology.plugin in _OWN_TREES:
        return topology
    if not topology.switches:
        sizes = topology.block_sizes or tuple(sorted(len(one.nodes) for one in topology.blocks)[:1])
        return replace(topology, plugin=TopologyKind.BLOCK, block_sizes=sizes)
    ports = tuple(port for port in topology.ports if not (port.node and says_nothing(port.node)))
    named = replace(topology, blocks=(), ports=ports)
    return _tree(topology, _with_leaves(locality_of(named)))


def _with_leaves(locality: Locality) -> Locality:
    """One more domain for nodes beside others: a switch of Slurm has nodes or switches."""
    above = {domain.parent for domain in locality.domains}
    domains = list(locality.domains)
    leaves: dict[int, int] = {}
    of_node = dict(locality.domain_of)
    for node, at in locality.domain_of.items():
        if at in above and at not in leaves:
            leaves[at] = len(domains)
            name = f"{domains[at].name}, nodes directly on it"
            domains.append(Domain(name=name, level=domains[at].level - 1, parent=at))
        of_node[node] = leaves.get(at, at)
    return replace(locality, domains=tuple(domains), domain_of=of_node)


def left_out(topology: ClusterTopology) -> tuple[str, ...]:
    """What hangs on a network and is not in its `slurm_tree`, a phrase each."""
    if topology.plugin in _OWN_TREES or not topology.switches:
        return ()
    compute = [port for port in topology.ports if port.kind is EndKind.COMPUTE]
    named = [port.node for port in compute if port.node]
    nothing = sorted(filter(says_nothing, set(named)), key=natural_order)
    nameless = sum(port.kind is EndKind.ANONYMOUS for port in topology.ports)
    nameless += len(compute) - len(named)
    others = {port.node for port in topology.ports if port.kind is EndKind.OTHER and port.node}
    found = []
    if nothing:
        ports = sum(node in nothing for node in named)
        found.append(
            f"{', '.join(nothing)}, {counted(ports, 'port')}: a default name, not a node in Slurm"
        )
    if nameless:
        found.append(f"{counted(nameless, 'port')} without a node name")
    if others:
        hosts = fold_hosts(sorted(others, key=natural_order)[:100])
        found.append(f"{counted(len(others), 'non-compute host')}: {hosts}")
    return tuple(found)


def _tree(topology: ClusterTopology, locality: Locality) -> ClusterTopology:
    levels = _heights(locality)
    names = _names(locality, levels)
    parents = {domain.parent for domain in locality.domains}
    held = Counter(locality.domain_of.values())
    kept = sorted(
        (i for i in range(len(locality.domains)) if i in parents or held[i]),
        key=lambda i: (levels[i], natural_order(names[i])),
    )
    nodes = sorted(locality.domain_of, key=natural_order)
    return ClusterTopology(
        source=topology.source,
        name=topology.name,
        plugin=TopologyKind.TREE,
        switches=tuple(
            Switch(name=names[i], level=levels[i], description=locality.domains[i].name)
            for i in kept
        ),
        links=tuple(
            SwitchLink(lower=names[i], upper=names[locality.domains[i].parent])
            for i in kept
            if locality.domains[i].parent != ROOT
        ),
        ports=tuple(HostPort(node=node, switch=names[locality.domain_of[node]]) for node in nodes),
    )


def _heights(locality: Locality) -> Mapping[int, int]:
    """How far each domain is above its lowest one."""
    below: dict[int, list[int]] = {at: [] for at in range(len(locality.domains))}
    for at, domain in enumerate(locality.domains):
        if domain.parent != ROOT:
            below[domain.parent].append(at)
    return heights(below)[0]


def _names(locality: Locality, levels: Mapping[int, int]) -> list[str]:
    """Short names, in the order of what they stand for: leaf1, leaf2, …, spine1, …."""
    order = sorted(range(len(levels)), key=lambda i: natural_order(locality.domains[i].name))
    counts: Counter[int] = Counter()
    found = [""] * len(order)
    for i in order:
        level = levels[i]
        counts[level] += 1
        word = _WORDS[level] if level < len(_WORDS) else f"level{level}-"
        found[i] = f"{word}{counts[level]}"
    return found


_WORDS = ("leaf", "spine", "core")


_NAME: Final = regex(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,63}", re.ASCII)
_UNSAFE: Final = regex(r"[^A-Za-z0-9_.:/@+-]+", re.ASCII)
_NODE: Final = regex(r"[A-Za-z0-9_.:-]{1,255}", re.ASCII)
_MOST_WORDS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A switch with its children or nodes, or a block with its nodes; `notes` are for people."""

    name: str
    nodes: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    link_speed: str | None = None
    notes: tuple[str, ...] = ()


def _slurm_names(names: Iterable[str]) -> dict[str, str]:
    """A name as Slurm takes it for each, which keeps its own if Slurm does: else with `_`."""
    given = list(dict.fromkeys(names))
    found = {name: name for name in given if _NAME.fullmatch(name)}
    used = set(found)
    for name in given:
        if name not in found:
            bare = _UNSAFE.sub("_", name).lstrip(".:/@+-")[: LONGEST_SWITCH_NAME - 8] or "unnamed"
            tries = (bare if number == 1 else f"{bare}-{number}" for number in count(1))
            found[name] = next(one for one in tries if one not in used)
            used.add(found[name])
    return found


def _note(name: str, written: str) -> tuple[str, ...]:
    """What to say beside a name that had to change."""
    return () if written == name else (f"{written} is {_printable(name)}",)


def kind_of(topology: ClusterTopology) -> TopologyKind:
    """What places jobs on a topology, where it does not say itself: its switches, else its blocks.

    Raises RenderError for one that has neither.
    """
    if topology.plugin is not TopologyKind.FLAT and not (topology.switches or topology.blocks):
        raise RenderError("nothing to write: this topology has neither switches nor blocks")
    return topology.plugin or (TopologyKind.TREE if topology.switches else TopologyKind.BLOCK)


def switch_rows(topology: ClusterTopology) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    """The switches in their order, and notes on those that lead to no node and are left out.

    Up to 24.11 slurmctld ends on a switch without nodes. Raises RenderError for what is no tree: a
    switch below two others or below itself, one with nodes and switches, an end that is not there.
    """
    names = [switch.name for switch in topology.switches]
    nodes = _nodes_by_switch(topology, names)
    children = _children_by_switch(topology, names)
    for name in names:
        if nodes[name] and children[name]:
            message = f"switch {name} has {len(nodes[name])} nodes and {len(children[name])}"
            raise RenderError(f"{message} switches on it; Slurm allows only one of these")
    used = _leading_to_nodes(names, nodes, children)
    slurm_names = _slurm_names(name for name in names if name in used)
    rows = tuple(
        Row(
            name=slurm_names[switch.name],
            nodes=nodes[switch.name],
            children=tuple(slurm_names[one] for one in children[switch.name] if one in used),
            link_speed=switch.link_speed,
            notes=(
                *_note(switch.name, slurm_names[switch.name]),
                *_stands_for(switch, slurm_names[switch.name]),
            ),
        )
        for switch in topology.switches
        if switch.name in used
    )
    if not rows:
        raise RenderError(f"none of the {len(names)} switches leads to a named node")
    notes = (f"{_printable(name)} leads to no node" for name in names if name not in used)
    return rows, tuple(notes)


def _stands_for(switch: Switch, name: str) -> tuple[str, ...]:
    """The switches that one stands for, or what its own text says, where that is not its name."""
    if switch.description is None:
        return ()
    names = names_in(switch.description)
    words = folded_names(names)
    if len(words) > _MOST_WORDS:
        words = f"{len(names)} switches, {names[0]} to {names[-1]}"
    return () if words in (name, switch.name) else (f"{name}: {_printable(words)}",)


def block_rows(topology: ClusterTopology) -> tuple[Row, ...]:
    """The blocks in their order, without those that are several others."""
    blocks = [block for block in topology.blocks if not block.is_aggregated]
    names = _slurm_names(block.name for block in blocks)
    least = next(iter(block_sizes(topology)), 0)
    rows = []
    for block in blocks:
        nodes = _checked(block.nodes)
        notes = _note(block.name, names[block.name])
        if len(nodes) < least:
            notes += (
                f"{counted(len(nodes), 'node')}, block size {least}: slurmctld 24.11 exits on this",
            )
        rows += [Row(name=names[block.name], nodes=nodes, notes=notes)] if nodes else []
    return tuple(rows)


def block_sizes(topology: ClusterTopology) -> tuple[int, ...]:
    """The sizes to write: the topology's, or the smallest block's where Slurm would take another.

    Without any slurmctld plans by the first block's, and 24.11 ends on a smaller one.
    """
    blocks = (block for block in topology.blocks if block.nodes and not block.is_aggregated)
    counts = [len(set(block.nodes)) for block in blocks]
    if topology.block_sizes or not counts or min(counts) == counts[0]:
        return topology.block_sizes
    return (min(counts),)


def _nodes_by_switch(
    topology: ClusterTopology, names: Sequence[str]
) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {name: [] for name in names}
    for port in topology.ports:
        if port.node is not None and port.kind is EndKind.COMPUTE:
            found[port.switch].append(port.node)
    return {name: _checked(nodes) for name, nodes in found.items()}


def _children_by_switch(
    topology: ClusterTopology, names: Sequence[str]
) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {name: {} for name in names}
    above: dict[str, str] = {}
    for link in topology.links:
        before = above.setdefault(link.lower, link.upper)
        if before != link.upper:
            message = f"switch {link.lower} is below {before} and {link.upper}"
            raise RenderError(f"{message}: not a tree, where each switch has one parent")
        found[link.upper][link.lower] = None
    if ring := heights(found)[1]:
        raise RenderError(
            f"switch {ring[0]} is below itself, over {len(ring) - 1} links: not a tree"
        )
    return {name: tuple(children) for name, children in found.items()}


def _leading_to_nodes(
    names: Sequence[str],
    nodes: Mapping[str, tuple[str, ...]],
    children: Mapping[str, tuple[str, ...]],
) -> set[str]:
    above = {child: name for name in names for child in children[name]}
    used: set[str] = set()
    for name in names:
        at: str | None = name if nodes[name] else None
        while at is not None and at not in used:
            used.add(at)
            at = above.get(at)
    return used


def _checked(nodes: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(nodes))
    for node in found:
        if _NODE.fullmatch(node) is None:
            raise RenderError(f"{_printable(node)!r} is not a valid Slurm node name")
    return found


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name[:200])


def topology_conf_text(topology: ClusterTopology) -> str:
    """The file that makes Slurm place jobs by this topology.

    A name that Slurm does not take is another, and a comment says which. A switch that leads to no
    node is left out. Raises RenderError for what is no tree and has no blocks.
    """
    kind = kind_of(topology)
    if kind is TopologyKind.FLAT:
        raise RenderError("a flat topology has no topology.conf: set TopologyPlugin=topology/flat")
    word = "SwitchName" if kind is TopologyKind.TREE else "BlockName"
    rows, left = _rows(topology, kind)
    lines = [f"# left out: {note}" for note in left]
    for row in rows:
        lines += [f"# {note}" for note in row.notes]
        is_speed = row.link_speed is not None and LINK_SPEED.fullmatch(row.link_speed)
        speed = f" LinkSpeed={row.link_speed}" if is_speed else ""
        below = f"{'Switches' if row.children else 'Nodes'}={fold_hosts(row.children or row.nodes)}"
        lines.append(f"{word}={row.name}{speed} {below}")
    if kind is TopologyKind.BLOCK and (sizes := block_sizes(topology)):
        lines.append(f"BlockSizes={','.join(map(str, sizes))}")
    return "".join(f"{line}\n" for line in lines)


def _rows(topology: ClusterTopology, kind: TopologyKind) -> tuple[tuple[Row, ...], tuple[str, ...]]:
    return switch_rows(topology) if kind is TopologyKind.TREE else (block_rows(topology), ())


_PLAIN: Final = regex(r"[A-Za-z][A-Za-z0-9_.\-\[\],/@+]*", re.ASCII)
_YAML_WORDS: Final = frozenset(
    {"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"}
)


def topology_yaml_text(topologies: Sequence[ClusterTopology]) -> str:
    """The file that gives a cluster these topologies, the first default being the default.

    One without a name is called by its plugin. It has no place for a LinkSpeed. Names are those of
    `topology_conf_text`. Raises RenderError as it does, and where two are called alike.
    """
    if not topologies:
        raise RenderError("no topology to write")
    given = [one.name or str(kind_of(one)) for one in topologies]
    twin = next((name for name in given if given.count(name) > 1), None)
    if twin is not None:
        raise RenderError(
            f"{given.count(twin)} topologies have the name {twin}; names must be unique"
        )
    names = _slurm_names(given)
    default = next((at for at, one in enumerate(topologies) if one.is_default), 0)
    lines = ["---"]
    for at, (name, topology) in enumerate(zip(given, topologies, strict=True)):
        lines += [f"# {note}" for note in _note(name, names[name])]
        lines.append(f"- topology: {_text(names[name])}")
        lines.append(f"  cluster_default: {str(at == default).lower()}")
        kind = kind_of(topology)
        if kind is TopologyKind.FLAT:
            lines.append("  flat: true")
        else:
            lines += _yaml(topology, kind)
    return "".join(f"{line}\n" for line in lines)


def _yaml(topology: ClusterTopology, kind: TopologyKind) -> Iterator[str]:
    rows, left = _rows(topology, kind)
    plugin, what = ("tree", "switch") if kind is TopologyKind.TREE else ("block", "block")
    yield f"  {plugin}:"
    yield from (f"    # left out: {note}" for note in left)
    if kind is TopologyKind.BLOCK and (sizes := block_sizes(topology)):
        yield "    block_sizes:"
        yield from (f"      - {size}" for size in sizes)
    yield "    switches:" if kind is TopologyKind.TREE else "    blocks:"
    for row in rows:
        yield from (f"      # {note}" for note in row.notes)
        yield f"      - {what}: {_text(row.name)}"
        below = fold_hosts(row.children or row.nodes)
        yield f"        {'children' if row.children else 'nodes'}: {_text(below)}"


def _text(word: str) -> str:
    is_plain = _PLAIN.fullmatch(word) is not None and word.casefold() not in _YAML_WORDS
    return word if is_plain else f'"{word}"'
