"""Where the matrices of `nvidia-smi topo -m` stand in a text that may hold anything else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hpckit.parse.nvidia_topo_header import COLUMNS, TopoHeader, read_header
from hpckit.parse.nvidia_topo_row import CELL_WORD, TopoLine
from hpckit.parse.nvidia_topo_text import is_blank

_LABEL: Final = re.compile(
    r" *((?:GPU|NIC)[0-9]{1,4}(?![0-9])|[A-Za-z][\w.@-]{0,63}(?![\w.@-]))(?! *:)", re.ASCII
)
_NUMBERED: Final = re.compile(" *(?:GPU|NIC)[0-9]")
_CELL_START: Final = re.compile(f" *{CELL_WORD}")
_PATH_WORD: Final = re.compile("(?<=[ X])(?:NV[1-9]|PIX|PXB|PHB|NODE|SYS|SOC|PSB)")
_BROKEN_OFF: Final = re.compile("[XNVPIBHSYODECA/0-9, -]+")

_MOST_PARTS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundRow:
    """A row before its cells are read; `parts` are the lines that a terminal broke off it."""

    line: TopoLine
    parts: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopoPlace:
    """A matrix before its cells are read; lines[end] is the first behind its last row."""

    header: TopoHeader
    head: TopoLine
    rows: tuple[FoundRow, ...]
    end: int


def find_places(lines: list[str]) -> list[TopoPlace]:
    """Where the matrices stand.

    The tables of `topo -p2p` and of other vendors' tools have neither an affinity in their header
    nor a word for a path.
    """
    places = []
    at = 0
    while at < len(lines):
        header = read_header(lines[at])
        place = None if header is None else _place(lines, at, header)
        if place and (place.header.columns or any(_has_path(row.line) for row in place.rows)):
            places.append(place)
        at = max(place.end, at + 1) if place else at + 1
    return places


def begins_with_cell(text: str, at: int = 0) -> bool:
    """Whether the next word is a cell, or begins with one."""
    return _CELL_START.match(text, at) is not None


def label_of(line: str) -> tuple[str, int] | None:
    """What a row would be labelled with, and the offset behind it; None if nothing can be."""
    match = _LABEL.match(line)
    return None if match is None else (match[1], match.end())


def _has_path(line: TopoLine) -> bool:
    return _PATH_WORD.search(line.text, line.start) is not None


def _place(lines: list[str], at: int, header: TopoHeader) -> TopoPlace:
    head, start = lines[at], at + 1
    while start < min(len(lines), at + _MOST_PARTS):
        wider = _wider(head, header, lines[start])
        if wider is None:
            break
        head, header = wider
        start += 1
    rows, end = _found_rows(lines, start, header)
    line = TopoLine(line_no=at + 1, label="the header", text=head, start=0)
    return TopoPlace(header=header, head=line, rows=tuple(rows), end=end)


def _wider(head: str, header: TopoHeader, line: str) -> tuple[str, TopoHeader] | None:
    """The header with the line below it, where a terminal broke it in two."""
    if header.columns == len(COLUMNS) or is_blank(line):
        return None
    label = label_of(line)
    if label and (label[0] in header.devices or begins_with_cell(line, label[1])):
        return None
    for text in (f"{head} {line}", head + line):
        joined = read_header(text)
        if joined is None or joined.surplus_at is not None:
            continue
        # Half a word is a name only to one who does not see the other half.
        has_names = all(re.search("[0-9]", name) for name in joined.devices)
        if has_names and len(set(joined.devices)) == len(joined.devices):
            return text, joined
    return None


def _found_rows(lines: list[str], at: int, header: TopoHeader) -> tuple[list[FoundRow], int]:
    rows: list[FoundRow] = []
    seen: set[str] = set()
    end = at
    while at < len(lines):
        if is_blank(lines[at]):
            at += 1
            continue
        line = _row_line(lines[at], at + 1, header, seen)
        if line is None:
            break
        seen.add(line.label)
        at += 1
        start = at
        while at < min(len(lines), start + _MOST_PARTS) and _is_broken_off(lines[at]):
            at += 1
        rows.append(FoundRow(line=line, parts=tuple(lines[start:at])))
        end = at
    return rows, end


def _row_line(text: str, line_no: int, header: TopoHeader, seen: set[str]) -> TopoLine | None:
    found = label_of(text)
    if found is None or read_header(text) is not None:
        return None
    label, start = found
    has_cell = begins_with_cell(text, start)
    is_known = label in header.devices and label not in seen
    # GPU9 is a row also where the header has lost it, and mlx5_1 where it has mlx5_0mlx5_1.
    is_lost = bool(header.is_cut or _NUMBERED.match(label) or label in "".join(header.devices))
    if not (is_known or (has_cell and is_lost)):
        return None
    return TopoLine(line_no=line_no, label=label, text=text, start=start)


def _is_broken_off(line: str) -> bool:
    return (
        _BROKEN_OFF.fullmatch(line) is not None and not is_blank(line) and not _NUMBERED.match(line)
    )
