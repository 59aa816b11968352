"""A network on a screen: what it is, its domains as a tree, rails, planes, blocks, what to ask."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence, Set
from typing import Final

from hpckit.core.finding_lines import (
    finding_lines,
    labelled,
    more_lines,
    next_lines,
    verdict,
    words_of,
)
from hpckit.core.findings import Finding
from hpckit.core.hostlist import fold_hosts
from hpckit.core.text import Line, Style, figure, visible, wrapped
from hpckit.core.units import counted
from hpckit.fabric.domain_names import (
    Branch,
    branch_count,
    branch_name,
    branch_nodes,
    branch_up,
    branches,
    domain_kind,
    names_in,
    short_names,
    up_rate,
)
from hpckit.fabric.locality import ROOT, Locality
from hpckit.fabric.topology import ClusterTopology, EndKind, not_checked

COMMAND: Final = "hpckit fabric check"
_NARROWEST: Final = 40
_MOST_SHOWN: Final = 20
_LONGEST: Final = 4000


def fabric_check_lines(
    topology: ClusterTopology,
    findings: Sequence[Finding],
    *,
    width: int = 80,
    command: str | None = COMMAND,
) -> list[Line]:
    """The screen of `hpckit fabric check`, in lines of at most `width` columns (40 or more).

    `command` is what showed it; the last line says what it can show besides. Without one (standard
    input), or where it holds what a terminal hides, there is no such line.
    """
    width = max(width, _NARROWEST)
    title = (verdict(findings, "no problems found"), *_seen(topology))
    lines = _title_lines(title, width)
    lines += [Line(text=text) for text in wrapped(_unchecked(topology), width, further="  ")]
    for finding in findings[:_MOST_SHOWN]:
        texts = (finding.subject, finding.because, finding.remedy)
        head, *below = (words_of(text, _LONGEST) for text in texts)
        head = (f"{finding.rule}:", *head)
        lines += [Line(text=""), *finding_lines(finding.severity, head, *below, width=width)]
    left = more_lines(len(findings) - _MOST_SHOWN)
    lines += [Line(text=""), *left] if left else []
    shown = command if command and visible(command, _LONGEST) == command else ""
    if shown and findings:
        lines += [Line(text=""), *next_lines([f"{shown} --json"])]
    return lines


def _title_lines(parts: tuple[str, ...], width: int) -> list[Line]:
    texts = wrapped(parts, width, further="  ", between=" · ")
    return [Line(text=text, style=Style.TITLE) for text in texts]


def _unchecked(topology: ClusterTopology) -> tuple[str, ...]:
    what = not_checked(topology)
    if not what:
        return ()
    *first, last = what
    named = f"{', '.join(first)} and {last}" if first else last
    return tuple(f"not checked: {named}; {topology.source} does not have them".split(" "))


def _seen(topology: ClusterTopology) -> tuple[str, ...]:
    cables = sum(len(link.cables or ()) for link in topology.links)
    counts = (
        (len(topology.switches), "switch", "switches"),
        (cables, "cable between them", "cables between them"),
        (len(topology.nodes), "named node", "named nodes"),
        (len(topology.rails), "rail", "rails"),
        (len(topology.planes), "plane", "planes"),
    )
    return tuple(_count(count, one, many) for count, one, many in counts if count)


def uplink_words(topology: ClusterTopology, locality: Locality) -> tuple[str, ...]:
    """What leads out of the lowest domains together, what NICs there carry, and the ratio.

    All adapters on their switches count, whoever they are of; those on leaves that are no domain's,
    as for storage alone, do not. Nothing where nothing leads out.
    """
    lowest = [
        domain
        for domain in locality.domains
        if domain.level == 1 and domain.parent != ROOT and not domain.is_nvlink
    ]
    if not lowest:
        return ()
    kind = domain_kind(lowest[0], 2)
    told = [rate for one in lowest if (rate := one.uplink_bytes_per_s) is not None]
    if len(told) < len(lowest):
        return tuple(f"uplink bandwidth of {kind}: unknown".split())
    up = sum(told)
    words = f"uplink bandwidth of {kind}: {up_rate(up)}"
    nics = _carried(topology, locality, {name for one in lowest for name in names_in(one.name)})
    into = sum(rate for rate in nics if rate is not None)
    if None in nics or not nics:
        return tuple(f"{words}; NIC bandwidth unknown".split())
    ratio = f"{figure(into / up, 2)}:1" if up > 0 else "no uplink"
    return tuple(f"{words} for NICs of {up_rate(into)}, {ratio}".split())


def _carried(topology: ClusterTopology, locality: Locality, leaves: Set[str]) -> list[float | None]:
    """What each NIC on these leaves carries; each named node, where the leaves are not told."""
    if not leaves <= {switch.name for switch in topology.switches}:
        return [locality.nic_bytes_per_s.get(node) for node in locality.domain_of]
    return [
        port.bytes_per_s
        for port in topology.ports
        if port.switch in leaves and port.kind is not EndKind.AGGREGATION
    ]


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
    yield from _title_lines(title_parts(topology, locality), width)
    yield from (
        Line(text=text) for text in wrapped(uplink_words(topology, locality), width, further="  ")
    )
    yield Line(text="")
    for branch in branches(locality, 48):
        yield from _tree(branch, width, "", "")
    if not locality.domain_of:
        yield Line(text="no named compute node", style=Style.WARNING)
    besides = list(_besides(topology, width))
    yield from [Line(text=""), *besides] if besides else []
    commands = _commands(topology, file)
    yield from [Line(text=""), *next_lines(commands)] if commands else []


def title_parts(topology: ClusterTopology, locality: Locality) -> tuple[str, ...]:
    """What told of a network and what is in it: `topology.conf`, `400 nodes`, `20 leaves`."""
    name = f"{topology.source}"
    parts = [name if topology.name is None else f"{name} {visible(topology.name)}"]
    levels = {switch.level for switch in topology.switches if switch.level is not None}
    parts.append(counted(len(locality.domain_of), "node"))
    if topology.switches:
        parts += [_count(len(topology.switches), "switch", "switches"), *_leaves(locality)]
    counts = {
        "level": len(levels),
        "rail": len(topology.rails),
        "plane": len(topology.planes),
        "block": sum(not block.is_aggregated for block in topology.blocks),
    }
    return (*parts, *(counted(count, noun) for noun, count in counts.items() if count))


def _leaves(locality: Locality) -> Iterator[str]:
    """`8 leaves`; where several hold the same nodes `31 leaf switches in 8 groups`."""
    lowest = [one for one in locality.domains if one.level == 1]
    switches = sum(len(names_in(one.name)) for one in lowest)
    if switches > len(lowest):
        yield f"{switches} leaf switches in {counted(len(lowest), 'group')}"
    elif lowest:
        yield _count(len(lowest), "leaf", "leaves")


def _count(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"


def _tree(branch: Branch, width: int, first: str, further: str) -> Iterator[Line]:
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
    sizes = _sizes(map(len, topology.planes)) if topology.planes else ""
    planes = (
        [f"{len(topology.planes)} without cables between them, of {sizes} switches"]
        if sizes
        else []
    )
    partitions = [f"partitions {short_names(topology.partitions, _LONG // 2)}"]
    facts = (
        ("rails", _rails(topology)),
        ("planes", planes),
        ("blocks", _blocks(topology)),
        ("for", partitions if topology.partitions else ()),
        ("also", _others(topology)),
    )
    for label, texts in facts:
        for at, text in enumerate(texts):
            yield from labelled(label if at == 0 else "", words_of(text), width, Style.PLAIN)


def _rails(topology: ClusterTopology) -> Iterator[str]:
    for rail in topology.rails[:_MOST_RAILS]:
        nics = f" {short_names(rail.nics, _NAMES)}" if rail.nics else ""
        yield f"{rail.index}:{nics} on {short_names(rail.switches, _NAMES)}"
    left = len(topology.rails) - _MOST_RAILS
    if left > 0:
        yield f"… and {left} more"


def _sizes(sizes: Iterable[int]) -> str:
    found = sorted(set(sizes))
    return str(found[0]) if len(found) == 1 else f"{found[0]} to {found[-1]}"


def _blocks(topology: ClusterTopology) -> Iterator[str]:
    own = [block for block in topology.blocks if not block.is_aggregated]
    above = [block for block in topology.blocks if block.is_aggregated]
    nvlink = [block for block in own if block.domain is not None]
    plain = [block for block in own if block.domain is None]
    for noun, blocks in (("NVLink domain", nvlink), ("block", plain), ("aggregated block", above)):
        if blocks:
            sizes = _sizes(len(block.nodes) for block in blocks)
            yield f"{counted(len(blocks), noun)} of {sizes} nodes"
    if topology.block_sizes:
        yield f"block sizes {', '.join(map(str, topology.block_sizes))}"


def _others(topology: ClusterTopology) -> Iterator[str]:
    """What hangs there and is no compute node with a name; a switch's own SHARP node is nothing."""
    ends = topology.ports
    unnamed = sum(
        one.kind is EndKind.ANONYMOUS or (one.kind is EndKind.COMPUTE and one.node is None)
        for one in ends
    )
    others = {one.node or one.description or one.guid for one in ends if one.kind is EndKind.OTHER}
    if unnamed:
        yield f"{counted(unnamed, 'port')} without a node name"
    if others:
        yield counted(len(others), "non-compute host")
    if topology.unplaced:
        yield f"{counted(len(topology.unplaced), 'node')} in no domain"


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
