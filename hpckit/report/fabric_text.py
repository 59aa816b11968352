"""A network on a screen: what it is, its domains as a tree, rails, planes, blocks, what to ask."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hpckit.model.branch_words import branch_count, branch_name, branch_nodes, branch_up
from hpckit.model.domain_words import names_in, short_names
from hpckit.model.fabric import ClusterTopology, EndKind
from hpckit.model.hostlist import fold_hosts
from hpckit.model.locality import Locality
from hpckit.model.locality_fold import Branch, branches
from hpckit.model.node_words import visible
from hpckit.report.fabric_uplinks import uplink_words
from hpckit.report.finding_lines import labelled, next_lines
from hpckit.report.line import Line, Style, wrapped

_NARROWEST: Final = 40
_MOST: Final = 48
_MOST_RAILS: Final = 8
_NAMES: Final = 44
_LONG: Final = 400
_LIST: Final = 48


def fabric_lines(
    topology: ClusterTopology, locality: Locality, *, width: int, file: str | None = None
) -> Iterator[Line]:
    """The screen of `hpckit fabric show`, in lines of at most `width` columns (40 or more).

    `file` is where the network was read, for the commands at the end, which are there to be copied
    and never broken; None for what Slurm says now. Where there are more than 48 domains, those that
    are alike share a line.
    """
    width = max(width, _NARROWEST)
    title = wrapped(tuple(_title(topology, locality)), width, further="  ", between=" · ")
    yield from (Line(text=text, style=Style.TITLE) for text in title)
    yield from (
        Line(text=text) for text in wrapped(uplink_words(topology, locality), width, further="  ")
    )
    yield Line(text="")
    for branch in branches(locality, _MOST):
        yield from _tree(branch, width, "", "")
    if not locality.domain_of:
        yield Line(text="no compute node has a name", style=Style.WARNING)
    besides = list(_besides(topology, width))
    yield from [Line(text=""), *besides] if besides else []
    commands = _commands(topology, file)
    yield from [Line(text=""), *next_lines(commands)] if commands else []


def _title(topology: ClusterTopology, locality: Locality) -> Iterator[str]:
    name = f"{topology.source}"
    yield name if topology.name is None else f"{name} {visible(topology.name)}"
    levels = {switch.level for switch in topology.switches if switch.level is not None}
    yield _count(len(locality.domain_of), "node", "nodes")
    if topology.switches:
        yield _count(len(topology.switches), "switch", "switches")
        yield from _leaves(locality)
    counts = (
        (len(levels), "level", "levels"),
        (len(topology.rails), "rail", "rails"),
        (len(topology.planes), "plane", "planes"),
        (sum(not one.is_aggregated for one in topology.blocks), "block", "blocks"),
    )
    yield from (_count(count, one, many) for count, one, many in counts if count)


def _leaves(locality: Locality) -> Iterator[str]:
    """`8 leaves`; where several hold the same nodes `31 leaf switches in 8 groups`."""
    lowest = [one for one in locality.domains if one.level == 1]
    switches = sum(len(names_in(one.name)) for one in lowest)
    if switches > len(lowest):
        yield f"{switches} leaf switches in {_count(len(lowest), 'group', 'groups')}"
    elif lowest:
        yield _count(len(lowest), "leaf", "leaves")


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _tree(branch: Branch, width: int, first: str, further: str) -> Iterator[Line]:
    """A branch and all below it, a line each, broken where it is too long."""
    parts = [branch_name(branch), branch_count(branch), *branch_up(branch)]
    if branch.own_nodes and not branch.is_rest:
        parts.append(branch_nodes(branch, _NAMES))
    indent = further + ("│    " if branch.children else "     ")
    texts = wrapped(tuple(parts), width, first=first, further=indent, between="  ")
    style = Style.FAINT if branch.is_rest else Style.PLAIN
    yield from (Line(text=text, style=style) for text in texts)
    for at, child in enumerate(branch.children):
        is_last = at == len(branch.children) - 1
        stem = further + ("└─ " if is_last else "├─ ")
        yield from _tree(child, width, stem, further + ("   " if is_last else "│  "))


def _besides(topology: ClusterTopology, width: int) -> Iterator[Line]:
    facts = (
        ("rails", _rails(topology)),
        ("planes", _planes(topology)),
        ("blocks", _blocks(topology)),
        ("for", _partitions(topology)),
        ("also", _others(topology)),
    )
    for label, texts in facts:
        for at, text in enumerate(texts):
            yield from labelled(label if at == 0 else "", _words(text), width, Style.PLAIN)


def _words(text: str) -> tuple[str, ...]:
    return tuple(visible(text, _LONG).split(" "))


def _rails(topology: ClusterTopology) -> Iterator[str]:
    for rail in topology.rails[:_MOST_RAILS]:
        nics = f" {short_names(rail.nics, _NAMES)}" if rail.nics else ""
        yield f"{rail.index}:{nics} on {short_names(rail.switches, _NAMES)}"
    left = len(topology.rails) - _MOST_RAILS
    if left > 0:
        yield f"… and {left} more"


def _planes(topology: ClusterTopology) -> Iterator[str]:
    if topology.planes:
        count = len(topology.planes)
        yield f"{count} that no cable joins, of {_sizes(map(len, topology.planes))} switches"


def _sizes(sizes: Iterable[int]) -> str:
    found = sorted(set(sizes))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _blocks(topology: ClusterTopology) -> Iterator[str]:
    own = [block for block in topology.blocks if not block.is_aggregated]
    above = [block for block in topology.blocks if block.is_aggregated]
    nvlink = [block for block in own if block.domain is not None]
    plain = [block for block in own if block.domain is None]
    words = (
        (nvlink, "NVLink domain", "NVLink domains"),
        (plain, "block", "blocks"),
        (above, "aggregated block", "aggregated blocks"),
    )
    for found, one, many in words:
        if found:
            sizes = _sizes(len(block.nodes) for block in found)
            yield f"{_count(len(found), one, many)} of {sizes} nodes"
    if topology.block_sizes:
        yield f"block sizes {', '.join(map(str, topology.block_sizes))}"


def _partitions(topology: ClusterTopology) -> Iterator[str]:
    if topology.partitions:
        yield f"partitions {short_names(topology.partitions, _LONG // 2)}"


def _others(topology: ClusterTopology) -> Iterator[str]:
    """What hangs there and is no compute node with a name; a switch's own SHARP node is nothing."""
    ends = topology.ports
    unnamed = sum(
        one.kind is EndKind.ANONYMOUS or (one.kind is EndKind.COMPUTE and one.node is None)
        for one in ends
    )
    others = {one.node or one.description or one.guid for one in ends if one.kind is EndKind.OTHER}
    if unnamed:
        yield f"{_count(unnamed, 'port', 'ports')} of adapters that name no node"
    if others:
        yield f"{_count(len(others), 'host that does', 'hosts that do')} not compute"
    if topology.unplaced:
        yield f"{_count(len(topology.unplaced), 'node', 'nodes')} in no domain"


def _commands(topology: ClusterTopology, file: str | None) -> Sequence[str]:
    named = "" if topology.name is None else f" --topology {shlex.quote(topology.name)}"
    read = "" if file is None else shlex.quote(file)
    if visible(read + named, _LONG) != read + named:
        return ()
    nodes = topology.nodes
    commands = [" ".join(("hpckit fabric check", *([read] if read else []))) + named]
    if nodes:
        listed = shlex.quote(fold_hosts(nodes))
        listed = listed if visible(listed, _LIST) == listed else "LIST"
        where = f" --fabric {read}" if read else ""
        mesh = f"--gpus-per-node 8 --mesh tensor=8,data={len(nodes) if listed != 'LIST' else 'N'}"
        commands.append(f"hpckit place --nodelist {listed} {mesh}{where}{named}")
    return commands
