"""A matrix of `nvidia-smi topo -m` whose cells are read."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hpckit.errors import ParseError
from hpckit.parse.nvidia_topo_header import COLUMNS, TopoHeader, read_header
from hpckit.parse.nvidia_topo_legend import NicLegend, read_legend
from hpckit.parse.nvidia_topo_place import FoundRow, TopoPlace, begins_with_cell, label_of
from hpckit.parse.nvidia_topo_row import CELL_EXPECTED, CELL_WORD, TopoLine, TopoRow, read_row

_ROW_WORD: Final = re.compile(f"{CELL_WORD}+[0-9,-]*|[0-9][0-9,-]*(?:N/A)?|N/A")

MOST_DEVICES: Final = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class TopoTable:
    """A matrix: `rows` by device, without those that the text lacks."""

    devices: tuple[str, ...]
    rows: dict[str, TopoRow]
    header: TopoHeader
    legend: NicLegend


def read_table(lines: list[str], place: TopoPlace, end: int) -> TopoTable:
    """The matrix at a place, with its legend before lines[end]. Raises ParseError."""
    _check_header(place)
    devices = _devices(place)
    rows = [_row(found, place, len(devices)) for found in place.rows]
    _check_rows(rows, devices)
    _check_short(rows, len(devices), is_narrow=place.header.is_cut)
    _check_behind(lines, place.end, end, devices)
    legend = read_legend(lines, place.end, end)
    lost = tuple(label for label in legend.names if label not in devices)
    if lost and not place.header.is_cut and len(rows) == len(devices):
        line_no = legend.line_nos[lost[0]]
        line = TopoLine(line_no=line_no, label=lost[0], text=lines[line_no - 1], start=0)
        raise line.refuse(f"the matrix has no {lost[0]}", 0, "a NIC that heads a column")
    by_label = {row.line.label: row for row in rows}
    return TopoTable(devices=devices + lost, rows=by_label, header=place.header, legend=legend)


def _check_header(place: TopoPlace) -> None:
    header, head = place.header, place.head
    if header.surplus_at is not None:
        expected = f"{', '.join(COLUMNS)}, in this order, and nothing else"
        raise head.refuse("this is no column of the matrix", header.surplus_at, expected)
    if not place.rows:
        raise head.refuse("a header without rows", 0, "the row of a device below it")
    if len(header.devices) > MOST_DEVICES or len(place.rows) > MOST_DEVICES:
        raise head.refuse("a matrix too large", 0, f"at most {MOST_DEVICES} devices")


def _devices(place: TopoPlace) -> tuple[str, ...]:
    """The columns in order; the rows' labels tell names apart that have run into one another."""
    header = place.header
    names = header.devices
    labels = tuple(row.line.label for row in place.rows)
    if "".join(names) == "".join(labels):
        names = labels
    elif header.columns == 0:
        # The last name may be a part of one: NIC1 of NIC10.
        is_whole = names[-1] in labels and names.index(names[-1]) == len(names) - 1
        names = names if is_whole else names[:-1]
    for row in place.rows:
        if row.line.label not in names:
            if not header.is_cut:
                message = f"no column is {row.line.label}"
                raise row.line.refuse(message, 0, f"one of {len(names)} from {names[0]} on")
            names = (*names, row.line.label)
    if len(set(names)) < len(names):
        raise place.head.refuse("a name heads two columns", 0, "each device once")
    return names


def _row(found: FoundRow, place: TopoPlace, device_count: int) -> TopoRow:
    """The row, with the lines that a terminal broke off it if it is not whole without them."""
    line, header = found.line, place.header
    columns = header.columns if line.label.startswith("GPU") else 0
    if not found.parts:
        return read_row(line, device_count, columns, is_open=header.is_cut)
    failure: ParseError | None = None
    for joint in (None, " ", ""):
        text = line.text if joint is None else joint.join((line.text, *found.parts))
        whole = TopoLine(line_no=line.line_no, label=line.label, text=text, start=line.start)
        try:
            row = read_row(whole, device_count, columns, is_open=header.is_cut)
        except ParseError as error:
            failure = failure or error
            continue
        if len(row.cells) == device_count and not row.affinity.is_cut:
            is_last = found is place.rows[-1]
            if joint is None and (not is_last or begins_with_cell(found.parts[0])):
                at = line.line_no + 1
                part = TopoLine(line_no=at, label="", text=found.parts[0], start=0)
                raise part.refuse("this is no row", 0, "the row of the next device")
            return row
    message = f"{line.label} is no row, with or without what follows it"
    raise failure or line.refuse(message, 0, CELL_EXPECTED)


def _check_rows(rows: list[TopoRow], devices: tuple[str, ...]) -> None:
    places = {name: index for index, name in enumerate(devices)}
    seen: set[str] = set()
    for row in rows:
        label = row.line.label
        if label in seen:
            raise row.line.refuse(f"a second row of {label}", 0, "each device once")
        seen.add(label)
        for index, cell in enumerate(row.cells):
            is_self = index == places[label]
            if (cell == "X") != is_self and not (is_self and cell is None):
                message = f"{label} and {devices[index]} cannot be this"
                expected = "X where a device meets itself and nowhere else"
                raise row.line.refuse(message, row.start_of(index), expected)


def _check_short(rows: list[TopoRow], device_count: int, *, is_narrow: bool) -> None:
    """A paste cuts the last row, or the header and every row at one width; other rows are wrong."""
    short = [row for row in rows if len(row.cells) < device_count]
    counts = {len(row.cells) for row in rows}
    if is_narrow and max(counts) - min(counts) <= 1:
        return
    if short and short[0] is not rows[-1]:
        line = short[0].line
        message = f"{line.label} has {len(short[0].cells)} of {device_count} cells"
        raise line.refuse(message, len(line.text), CELL_EXPECTED)


def _check_behind(lines: list[str], start: int, end: int, devices: tuple[str, ...]) -> None:
    """Refuses rows that something parts from their matrix."""
    for at in range(start, end):
        if read_header(lines[at]) is not None:
            return
        found = label_of(lines[at])
        if found is None or found[0] not in devices:
            continue
        words = lines[at][found[1] :].split()
        if words and all(_ROW_WORD.fullmatch(word) for word in words):
            line = TopoLine(line_no=at + 1, label=found[0], text=lines[at], start=0)
            raise line.refuse("a row apart from its matrix", 0, "nothing between the rows")
