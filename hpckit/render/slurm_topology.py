"""A topology as rows that Slurm takes: which switch is below which, under names that it reads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final

from hpckit.errors import RenderError
from hpckit.model.cluster import TopologyKind
from hpckit.model.domain_words import folded_names, names_in
from hpckit.model.fabric import Block, ClusterTopology, EndKind, Switch
from hpckit.model.slurm_topology import LONGEST_SWITCH_NAME

_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/@+-]{0,63}", re.ASCII)
_UNSAFE: Final = re.compile(r"[^A-Za-z0-9_.:/@+-]+", re.ASCII)
_NODE: Final = re.compile(r"[A-Za-z0-9_.:-]{1,255}", re.ASCII)
_MOST_WORDS: Final = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A switch with its children or nodes, or a block with its nodes; `notes` are for people."""

    name: str
    nodes: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    link_speed: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(slots=True)
class SlurmNames:
    """Names as Slurm takes them, each for one: what it does not take in one is written as `_`."""

    taken: dict[str, str] = field(default_factory=dict)

    def add(self, names: Iterable[str]) -> None:
        """Give each name one of its own; those that Slurm takes keep theirs."""
        rest = [name for name in names if not self._keeps(name)]
        used = set(self.taken.values())
        for name in rest:
            bare = _UNSAFE.sub("_", name).lstrip(".:/@+-")[: LONGEST_SWITCH_NAME - 8] or "unnamed"
            tries = (bare if number == 1 else f"{bare}-{number}" for number in count(1))
            self.taken[name] = next(one for one in tries if one not in used)
            used.add(self.taken[name])

    def _keeps(self, name: str) -> bool:
        if name in self.taken or _NAME.fullmatch(name) is None:
            return name in self.taken
        self.taken[name] = name
        return True

    def __getitem__(self, name: str) -> str:
        return self.taken[name]

    def note(self, name: str) -> tuple[str, ...]:
        """What to say beside a name that had to change."""
        is_same = self.taken[name] == name
        return () if is_same else (f"{self.taken[name]} is {_printable(name)}",)


def kind_of(topology: ClusterTopology) -> TopologyKind:
    """What places jobs on a topology, where it does not say itself: its switches, else its blocks.

    Raises RenderError for one that has neither.
    """
    has = {TopologyKind.TREE: topology.switches, TopologyKind.BLOCK: topology.blocks}
    if topology.plugin is TopologyKind.FLAT:
        return TopologyKind.FLAT
    kinds = [kind for kind, parts in has.items() if parts]
    if topology.plugin in kinds:
        return topology.plugin
    if not kinds:
        raise RenderError("this topology has no switch and no block, so there is nothing to write")
    return kinds[0]


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
            raise RenderError(f"{message} switches on it, and Slurm takes one or the other")
    used = _leading_to_nodes(names, nodes, children)
    slurm_names = SlurmNames()
    slurm_names.add(name for name in names if name in used)
    rows = tuple(
        Row(
            name=slurm_names[switch.name],
            nodes=nodes[switch.name],
            children=tuple(slurm_names[one] for one in children[switch.name] if one in used),
            link_speed=switch.link_speed,
            notes=(*slurm_names.note(switch.name), *_stands_for(switch, slurm_names[switch.name])),
        )
        for switch in topology.switches
        if switch.name in used
    )
    if not rows:
        raise RenderError(f"none of the {len(names)} switches leads to a node with a name")
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
    _refuse_twins([block.name for block in blocks], "blocks")
    names = SlurmNames()
    names.add(block.name for block in blocks)
    least = next(iter(block_sizes(topology)), 0)
    return tuple(
        Row(
            name=names[block.name],
            nodes=_checked(block.nodes),
            notes=(*names.note(block.name), *_smaller(block, least)),
        )
        for block in blocks
        if block.nodes
    )


def _smaller(block: Block, least: int) -> tuple[str, ...]:
    has = len(set(block.nodes))
    return () if has >= least else (f"{has} nodes of {least}: slurmctld 24.11 ends on this",)


def block_sizes(topology: ClusterTopology) -> tuple[int, ...]:
    """The sizes to write: the topology's, or the smallest block's where Slurm would take another.

    Without any slurmctld plans by the first block's, and 24.11 ends on a smaller one.
    """
    blocks: Sequence[Block] = [
        one for one in topology.blocks if one.nodes and not one.is_aggregated
    ]
    counts = [len(set(block.nodes)) for block in blocks]
    if topology.block_sizes or not counts or min(counts) == counts[0]:
        return topology.block_sizes
    return (min(counts),)


def _nodes_by_switch(
    topology: ClusterTopology, names: Sequence[str]
) -> Mapping[str, tuple[str, ...]]:
    _refuse_twins(names, "switches")
    found: dict[str, dict[str, None]] = {name: {} for name in names}
    for port in topology.ports:
        if port.switch not in found:
            raise RenderError(f"{port.node or 'a port'} hangs on switch {port.switch}, not there")
        if port.node is not None and port.kind is EndKind.COMPUTE:
            found[port.switch][port.node] = None
    return {name: _checked(nodes) for name, nodes in found.items()}


def _children_by_switch(
    topology: ClusterTopology, names: Sequence[str]
) -> Mapping[str, tuple[str, ...]]:
    found: dict[str, dict[str, None]] = {name: {} for name in names}
    above: dict[str, str] = {}
    for link in topology.links:
        for end in (link.lower, link.upper):
            if end not in found:
                raise RenderError(f"a link leads to switch {end}, which is not there")
        before = above.setdefault(link.lower, link.upper)
        if before != link.upper:
            message = f"switch {link.lower} is below {before} and {link.upper}"
            raise RenderError(f"{message}: no tree; each switch of one is below one other")
        found[link.upper][link.lower] = None
    _refuse_rings(above)
    return {name: tuple(children) for name, children in found.items()}


def _refuse_rings(above: Mapping[str, str]) -> None:
    clear: set[str] = set()
    for name in above:
        way: dict[str, None] = {}
        at: str | None = name
        while at is not None and at not in clear:
            if at in way:
                raise RenderError(f"switch {at} is below itself, by {len(way)} links: no tree")
            way[at] = None
            at = above.get(at)
        clear.update(way)


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


def _refuse_twins(names: Sequence[str], what: str) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            raise RenderError(f"{times} {what} are called {name}")


def _checked(nodes: Iterable[str]) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(nodes))
    for node in found:
        if _NODE.fullmatch(node) is None:
            raise RenderError(f"{_printable(node)!r} is no name that Slurm takes for a node")
    return found


def _printable(name: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in name[:200])
