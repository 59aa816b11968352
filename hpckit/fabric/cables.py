"""Which cables between switches are up, as a grid: lower switches × upper ones, level by level."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import partial
from typing import Final

from hpckit.core.hostlist import natural_order
from hpckit.core.late import regex
from hpckit.core.units import and_more
from hpckit.core.values import dataclass
from hpckit.fabric.ends import says_nothing
from hpckit.fabric.levels import Bundle, upward_links
from hpckit.fabric.rails import JoinedNames
from hpckit.fabric.rule import FabricView, fabric_view
from hpckit.fabric.rules_checks import empty_leaves
from hpckit.fabric.topology import ClusterTopology, EndKind


class State(StrEnum):
    """How the cables of two switches compare with those of similar pairs."""

    UP = "up"
    MORE = "more"
    FEWER = "fewer"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Cell:
    """Two switches: the cables between them that are up, and how many are expected."""

    cables: int
    expected: int

    @property
    def state(self) -> State:
        """What its colour says."""
        if self.cables == self.expected:
            return State.UP
        if self.cables > self.expected:
            return State.MORE
        return State.FEWER if self.cables else State.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A lower switch with a cell for each upper one, None where no cable is expected.

    `rack` is empty where names do not tell it. A leaf with a `note` has no cells: it is absent, or
    no cable leads from it.
    """

    switch: str
    rack: str = ""
    rail: int | None = None
    ports: int = 0
    cells: tuple[Cell | None, ...] = ()
    note: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether all is as expected."""
        return not self.note and all(one is None or one.state is State.UP for one in self.cells)


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Switches of a level that lead to the same ones above: a fabric, a plane or a pod."""

    level: int
    uppers: tuple[str, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CableGrid:
    """All sections from the leaves up; `expected` cables count those that are up or missing.

    `group` is what nodes on the same leaves are called: a rack where their names are by rack.
    `short` are the parts of switches' names that tell them apart. `weak` are upper switches that
    all lower ones reach by fewer cables, with their cables and the usual number.
    """

    sections: tuple[Section, ...]
    cables: int
    expected: int
    group: str
    short: Mapping[str, str]
    weak: tuple[tuple[str, int, int], ...] = ()

    @property
    def headline(self) -> str:
        """What is wrong, in one sentence; that all is up where nothing is."""
        is_flat = {section.level for section in self.sections} == {0}
        what = "leaf–spine cable" if is_flat else "cable between switches"
        what = what if self.expected == 1 else what.replace("cable", "cables")
        down = self.expected - self.cables
        notes = list(self._notes())
        parts = [f"{down} of {self.expected} {what} {'is' if down == 1 else 'are'} down", *notes]
        if not down:
            up = f"All {self.expected} {what} are up" if self.expected > 1 else f"1 {what} is up"
            others = f"all {self.expected} {what} of the others are up"
            parts = [*notes, others] if notes else [up]
        parts += [
            f"{self.short[upper]} has {cables} cables from below, the others {usual}"
            for upper, cables, usual in self.weak
        ]
        more = sum(any(map(_is_more, row.cells)) for row in self.rows)
        if more:
            parts.append(f"{more} switch has extra" if more == 1 else f"{more} switches have extra")
            parts[-1] += " uplinks"
        text = "; ".join(parts)
        return text[0].upper() + text[1:]

    def _notes(self) -> Iterator[str]:
        """`leaf 03-01 is absent`."""
        for note, words in _NOTES.items():
            names = [self.short[row.switch] for row in self.rows if row.note == note]
            if names:
                leaves = "leaf" if len(names) == 1 else "leaves"
                yield f"{leaves} {_and(names)} {words[len(names) > 1]}"

    @property
    def rows(self) -> Iterator[Row]:
        """The rows of all sections."""
        return (row for section in self.sections for row in section.rows)


ABSENT: Final = "absent"
UNLINKED: Final = "no cable to a spine"
_NOTES: Final = {ABSENT: ("is absent", "are absent"), UNLINKED: ("has no uplink", "have no uplink")}


def _and(names: Sequence[str]) -> str:
    if len(names) > 3:  # noqa: PLR2004  more are no headline
        return and_more(names, 2)
    return " and ".join((", ".join(names[:-1]), names[-1])) if len(names) > 1 else names[0]


def _is_more(cell: Cell | None) -> bool:
    return cell is not None and cell.state is State.MORE


def cable_grid(topology: ClusterTopology) -> CableGrid | None:
    """Return the grid; None where the source does not count cables, or nothing is cabled."""
    view = fabric_view(topology)
    if not any(bundle.uppers for bundle in view.bundles):
        return None
    racks = _racks(view)
    row_of = partial(_row, view, racks)
    sections = [_section(view, bundles, row_of) for bundles in _together(view.bundles)]
    sections[0] = _with_notes(view, sections[0], racks)
    lowers = [row.switch for section in sections for row in section.rows]
    uppers = [upper for section in sections for upper in section.uppers]
    tops = [upper for upper in dict.fromkeys(uppers) if upper not in set(lowers)]
    middles = [upper for upper in dict.fromkeys(uppers) if upper in set(lowers)]
    leaves = [lower for lower in lowers if lower not in set(uppers)]
    return CableGrid(
        sections=tuple(sections),
        cables=sum(bundle.cables for bundle in view.bundles),
        expected=sum(bundle.expected for bundle in view.bundles),
        group="rack" if _are_by_group(view) else "group",
        short={**short_forms(leaves), **short_forms(middles), **short_forms(tops)},
        weak=tuple(weak for bundle in view.bundles for weak in bundle.weak),
    )


def _together(bundles: Iterable[Bundle]) -> Iterator[list[Bundle]]:
    """Bundles of one level that share an upper switch, that with most lower ones first."""
    joined = JoinedNames()
    listed = [bundle for bundle in bundles if bundle.uppers]
    keys = {id(one): [f"{one.level} {upper}" for upper in one.uppers] for one in listed}
    for names in keys.values():
        for other in names[1:]:
            joined.join(names[0], other)
    found: defaultdict[str, list[Bundle]] = defaultdict(list)
    for one in listed:
        found[joined.find(keys[id(one)][0])].append(one)
    yield from sorted(found.values(), key=_place)


def _place(bundles: Sequence[Bundle]) -> tuple[object, ...]:
    first = min((lower for one in bundles for lower in one.lowers), key=natural_order)
    return bundles[0].level, natural_order(first)


def _section(
    view: FabricView,
    bundles: Sequence[Bundle],
    row_of: Callable[[str, tuple[Cell | None, ...]], Row],
) -> Section:
    lowers = [lower for one in bundles for lower in one.lowers]
    counts: Counter[tuple[str, str]] = Counter()
    for level, link in upward_links(view.topology):
        if level == bundles[0].level:
            active = sum(cable.is_active for cable in link.cables or ())
            counts[link.lower, link.upper] += active
    own = set(lowers)
    uppers = {upper for lower, upper in counts if lower in own}
    uppers |= {upper for one in bundles for upper in one.uppers}
    ordered = tuple(sorted(uppers, key=natural_order))
    wrong = dict(_wrong(bundles, counts))
    rows = []
    for lower in lowers:
        pairs = [(lower, upper) for upper in ordered]
        cells = [wrong.get(pair) or _plain(counts[pair]) for pair in pairs]
        rows.append(row_of(lower, tuple(cells)))
    rows.sort(key=_row_order)
    return Section(level=bundles[0].level, uppers=ordered, rows=tuple(rows))


def _plain(cables: int) -> Cell | None:
    return Cell(cables, cables) if cables else None


def _wrong(
    bundles: Iterable[Bundle], counts: Mapping[tuple[str, str], int]
) -> Iterator[tuple[tuple[str, str], Cell]]:
    """The pairs that are not as similar ones, first those of an upper switch that all miss."""
    for bundle in bundles:
        for upper, _, usual in bundle.weak:
            each = usual // len(bundle.lowers)
            pairs = [(lower, upper) for lower in bundle.lowers]
            yield from ((one, Cell(counts[one], each)) for one in pairs if counts[one] < each)
        for pair in (*bundle.missing, *bundle.uneven):
            yield (pair.lower, pair.upper), Cell(pair.cables, pair.expected)


def _row_order(row: Row) -> tuple[object, ...]:
    rail = -1 if row.rail is None else row.rail
    return natural_order(row.rack), rail, natural_order(row.switch)


def _row(
    view: FabricView, racks: Mapping[str, str], switch: str, cells: tuple[Cell | None, ...]
) -> Row:
    ends = view.ends.get(switch, ())
    return Row(
        switch=switch,
        rack=racks.get(switch, ""),
        rail=view.grid.rail_of.get(switch),
        ports=sum(port.kind is not EndKind.AGGREGATION for port in ends),
        cells=cells,
    )


def _with_notes(view: FabricView, section: Section, racks: Mapping[str, str]) -> Section:
    """The lowest section with the leaves that are not there, or from which no cable leads."""
    rows = list(section.rows)
    for one in view.absent[len(empty_leaves(view)) :]:
        beside = view.grid.groups[one.group][0]
        name = one.name or f"of rail {one.rail} next to {beside}"
        rows.append(Row(switch=name, rack=racks.get(beside, ""), rail=one.rail, note=ABSENT))
    linked = view.topology.linked
    for leaf in view.leaves:
        if leaf not in linked:
            row = _row(view, racks, leaf, ())
            rows.append(
                Row(switch=leaf, rack=row.rack, rail=row.rail, ports=row.ports, note=UNLINKED)
            )
    return Section(
        level=section.level, uppers=section.uppers, rows=tuple(sorted(rows, key=_row_order))
    )


# --- Racks, where names tell them: leaves of the same nodes that have a number of their own.
_PARTS: Final = regex(r"[0-9]+|[^0-9]+", re.ASCII)


def _racks(view: FabricView) -> dict[str, str]:
    """Leaf → what only the names of its group have: a number, or all parts in which they differ."""
    if not view.grid.rails:
        return {}
    groups = [tuple(leaf for leaf in one if leaf in view.grid.rail_of) for one in view.grid.groups]
    groups = [one for one in groups if one]
    own = _own_parts(groups)
    for labels in (*([part[-1] for part in own] for _ in own[:1]), ["-".join(one) for one in own]):
        if len(set(labels)) == len(groups) > 0 and all(labels):
            return {leaf: label for its, label in zip(groups, labels, strict=True) for leaf in its}
    return {}


def _own_parts(groups: Sequence[Sequence[str]]) -> list[list[str]]:
    """The parts that the names of a group share, and not all groups; none of unlike names."""
    split = [[_PARTS.findall(name) for name in names] for names in groups]
    if len({len(parts) for names in split for parts in names}) != 1:
        return []
    places = range(len(split[0][0]))
    same = [at for at in places if all(len({one[at] for one in names}) == 1 for names in split)]
    told = [at for at in same if len({names[0][at] for names in split}) > 1]
    return [[names[0][at] for at in told] for names in split] if told else []


def _are_by_group(view: FabricView) -> bool:
    """Whether nodes are named by where they are, as `a05-c07`: then their group is a rack."""
    grid = view.grid
    groups: defaultdict[int, list[str]] = defaultdict(list)
    for node, home in grid.home.items():
        if not says_nothing(node):
            groups[home].append(node)
    own = _own_parts(list(groups.values()))
    return len(groups) > 1 and len({tuple(one) for one in own}) == len(groups)


# --- Names of switches in a column that is narrow.
_WORDS: Final = regex(r"[-_./:\s]+")
_LONGEST: Final = 10


def short_forms(names: Iterable[str]) -> dict[str, str]:
    """The last parts of names with which they still differ; of long ones the last characters."""
    unique = list(dict.fromkeys(names))
    split = {name: _WORDS.split(name) for name in unique}
    for count in range(1, max(map(len, split.values()), default=0) + 1):
        found = {name: "-".join(parts[-count:]) for name, parts in split.items()}
        if len(set(found.values())) == len(unique):
            if max(map(len, found.values())) <= _LONGEST:
                return found
            break
    for count in range(2, max(map(len, unique), default=0)):
        ends = {name: name[-count:] for name in unique}
        if len(set(ends.values())) == len(unique):
            return ends
    return {name: name for name in unique}
