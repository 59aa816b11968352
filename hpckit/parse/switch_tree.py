"""Switches and blocks as Slurm describes them, put together to one topology.

What slurmctld refuses is refused here too, and what it takes with a warning is taken: several
roots, a switch below two others, a node on two leaves (switch_record.c, block_record.c; each tried
with slurmctld 22.05.8, 24.11.5 and 26.05.5).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from hpckit.model.fabric import HIGHEST_LEVEL, Block, HostPort, Switch, SwitchLink
from hpckit.parse.slurm_text import Place

_SHOWN: Final = 8
"""So many switches of a cycle are named."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockRow:
    """One block as it was written, with its line; the rest is what scontrol adds."""

    name: str
    place: Place
    nodes: tuple[str, ...] = ()
    index: int | None = None
    size: int | None = None
    is_aggregated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """The parts of a ClusterTopology that a tree of switches is."""

    switches: tuple[Switch, ...]
    links: tuple[SwitchLink, ...]
    ports: tuple[HostPort, ...]


def tree_of(rows: Sequence[SwitchRow]) -> Tree:
    """The switches in their order, what joins them and where nodes hang.

    Raises ParseError for a name that stands twice, a child that is not there and a switch above
    itself, with the line and the one that it contradicts, and for one above HIGHEST_LEVEL.
    """
    by_name = {row.name: row for row in rows}
    _refuse_twins(rows, "switch")
    for row in rows:
        for child in row.switches:
            if child not in by_name or child == row.name:
                raise _refuse_child(row, child, len(rows))
    levels = _levels(by_name)
    _refuse_high(rows, levels)
    return Tree(
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


def blocks_of(rows: Sequence[BlockRow]) -> tuple[Block, ...]:
    """The blocks in their order. Raises ParseError for a name that stands twice."""
    _refuse_twins(rows, "block")
    return tuple(
        Block(
            name=row.name,
            nodes=tuple(dict.fromkeys(row.nodes)),
            index=row.index,
            size=row.size,
            is_aggregated=row.is_aggregated,
        )
        for row in rows
    )


def _refuse_twins(rows: Sequence[SwitchRow] | Sequence[BlockRow], what: str) -> None:
    lines: dict[str, int] = {}
    for row in rows:
        before = lines.setdefault(row.name, row.place.line_no)
        if before != row.place.line_no:
            message = f"{what} {row.name} is on line {before} already"
            raise row.place.refuse(message, f"one line a {what}")


def _refuse_child(row: SwitchRow, child: str, rows: int) -> Exception:
    if child == row.name:
        return row.place.refuse(f"switch {child} is its own child", "a child that is another one")
    message = f"{child}, a child of switch {row.name}, is none of the {rows} switches here"
    return row.place.refuse(message, f"a line SwitchName={child}")


def _refuse_high(rows: Sequence[SwitchRow], levels: Mapping[str, int]) -> None:
    for row in rows:
        level = max(levels[row.name], row.level or 0)
        if level > HIGHEST_LEVEL:
            message = f"switch {row.name} is on level {level} of {len(rows)} switches"
            raise row.place.refuse(message, f"a tree of levels 0 to {HIGHEST_LEVEL}")


def _levels(by_name: Mapping[str, SwitchRow]) -> dict[str, int]:
    """Each switch's level: 0 without children, else one above its highest child."""
    waits = {name: len(set(row.switches)) for name, row in by_name.items()}
    parents: dict[str, list[str]] = {name: [] for name in by_name}
    for name, row in by_name.items():
        for child in set(row.switches):
            parents[child].append(name)
    ready = [name for name, count in waits.items() if count == 0]
    levels = dict.fromkeys(ready, 0)
    for name in ready:  # grows while it is walked
        for parent in parents[name]:
            levels[parent] = max(levels.get(parent, 0), levels[name] + 1)
            waits[parent] -= 1
            if waits[parent] == 0:
                ready.append(parent)
    if len(ready) < len(by_name):
        raise _refuse_cycle(by_name, {name for name, count in waits.items() if count})
    return levels


def _refuse_cycle(by_name: Mapping[str, SwitchRow], within: set[str]) -> Exception:
    """The error that names a way from a switch down to itself."""
    at = next(name for name in by_name if name in within)
    way: dict[str, None] = {}
    while at not in way:
        way[at] = None
        at = next(child for child in by_name[at].switches if child in within)
    names = [*way, at][list(way).index(at) :]
    lines = [f"{name} (line {by_name[name].place.line_no})" for name in names]
    if len(lines) > _SHOWN:
        lines = [*lines[:_SHOWN], "…", lines[-1]]
    message = f"switch {at} is below itself, {len(names) - 1} switches in a ring: "
    return by_name[at].place.refuse(message + " > ".join(lines), "a tree: none below itself")
