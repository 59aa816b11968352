"""`nvidia-smi topo -m`: what lies between the GPUs and NICs of a node, and the CPUs beside them.

Sources: nvidia-smi(1), "TOPOLOGY"; the legend that it prints; nvml.h, nvmlGpuTopologyLevel_t.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refuse_text
from hpckit.core.index_list import expand_indices
from hpckit.core.late import regex
from hpckit.core.values import dataclass
from hpckit.node.capture.nvidia_smi_row import (
    CELL_EXPECTED,
    CELL_WORD,
    TOOL,
    TopoLine,
    TopoRow,
    read_row,
)
from hpckit.node.path import PathTable, link_count
from hpckit.node.topology import (
    Gpu,
    GpuLink,
    GpuVendor,
    LinkKind,
    Nic,
    NodeTopology,
    Source,
    Unknown,
)

COLUMNS: Final = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")

_COLUMN: Final = regex("CPU *Affinity|NUMA *Affinity|GPU *NUMA *ID")
_FIRST_DEVICE: Final = regex(r"\s*GPU[0-9]")
_GLUED: Final = regex(r"(?<=[0-9])(?=GPU[0-9]|NIC[0-9])")
_NAME: Final = regex(r"[A-Za-z][\w.@-]{0,63}", re.ASCII)
_CELLS: Final = regex(rf"{CELL_WORD}+")
_CUT_WORD: Final = regex(r"\s(?:CPU +A[a-z]{0,7}|CPU?|C|NIC?|N|GPU?|G) *$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopoHeader:
    """The devices of a header in order, and how many of COLUMNS it has.

    `rest_at` is where something else stands behind them; `is_part` says that it begins a column.
    """

    devices: tuple[str, ...]
    columns: int = 0
    rest_at: int | None = None
    is_part: bool = False


def read_header(text: str) -> TopoHeader | None:
    """The header that a line is; None if it is none."""
    if not _FIRST_DEVICE.match(text):
        return None
    first = _COLUMN.search(text)
    head = text[: first.start()] if first else _CUT_WORD.sub("", text)
    devices = tuple(name for word in head.split() for name in _GLUED.split(word))
    if not all(_NAME.fullmatch(name) and not _CELLS.fullmatch(name) for name in devices):
        return None
    if first is not None:
        return _with_columns(text, devices, first.start())
    # Without the columns behind them, only what is surely a name tells a header from prose.
    return TopoHeader(devices=devices) if _have_digits(devices) else None


def _have_digits(names: Iterable[str]) -> bool:
    return all(re.search("[0-9]", name) for name in names)


def _with_columns(text: str, devices: tuple[str, ...], at: int) -> TopoHeader:
    columns = 0
    while columns < len(COLUMNS) and (match := _COLUMN.match(text, at)):
        if match[0].replace(" ", "") != COLUMNS[columns].replace(" ", ""):
            break
        columns, at = columns + 1, len(text) - len(text[match.end() :].lstrip())
    rest = text[at:].strip()
    is_part = bool(rest) and any(name.startswith(rest) for name in COLUMNS[columns : columns + 1])
    rest_at = at if rest else None
    return TopoHeader(devices=devices, columns=columns, rest_at=rest_at, is_part=is_part)


# Colours and underlines (ECMA-48), also where the paste has lost their ESC or spells it ^[.
_ESCAPE: Final = regex(r"(?:\x1b|\^\[|\u241b)\[[0-9;?]{0,16}[A-Za-z]|\[(?:[0147]|0?1|24)?m")
# Quotes, tables and fences of Markdown, and what no terminal shows.
_MARKUP: Final = regex(r"[>|`\u2502]|[^\S\n ]|[\x00-\x08\x0e-\x1f\x7f]")
_RULER: Final = regex(r"[\s:=+-]*")


def plain_lines(text: str) -> list[str]:
    """The lines with spaces alone for whitespace, as wide as tabs make them; comments are blank."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if "[" in text:
        text = _ESCAPE.sub("", text)
    lines = _MARKUP.sub(" ", text.expandtabs(8)).split("\n")
    return ["" if line.startswith("#") else line for line in lines]


def is_blank(line: str) -> bool:
    """Whether a line has nothing but spaces, or is a ruler of a table."""
    return _RULER.fullmatch(line) is not None


_LABEL: Final = regex(
    r" *((?:GPU|NIC)[0-9]{1,4}(?![0-9])|[A-Za-z][\w.@-]{0,63}(?![\w.@-]))(?! *:)", re.ASCII
)
_NUMBERED: Final = regex(" *(?:GPU|NIC)[0-9]")
_CELL_START: Final = regex(f" *{CELL_WORD}")
_BROKEN_OFF: Final = regex("[XNVPIBHSYODECA/0-9, -]+")

_MOST_PARTS: Final = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class TopoPlace:
    """A matrix before its cells are read; lines[end] is the first behind its last row."""

    header: TopoHeader
    head: TopoLine
    rows: tuple[TopoLine, ...]
    end: int


def find_places(lines: list[str]) -> list[TopoPlace]:
    """Where the matrices stand; those without columns of affinity only if no other is there.

    The tables of `topo -p2p` and of other vendors' tools look like these, but for their cells.
    """
    places, bare = [], []
    at = 0
    while at < len(lines):
        header = read_header(lines[at])
        place = None if header is None else _place(lines, at, header)
        if place and place.header.columns:
            places.append(place)
        elif place and place.rows and all(map(_has_links, place.rows)):
            bare.append(place)
        at = max(place.end, at + 1) if place else at + 1
    return [place for place in places if place.rows] or bare or places


def _has_links(row: TopoLine) -> bool:
    words = row.text[row.start :].split()
    return all(map(_CELLS.fullmatch, words)) and not {"X", "N/A"}.issuperset(words)


def begins_with_cell(text: str, at: int = 0) -> bool:
    """Whether the next word is a cell, or begins with one."""
    return _CELL_START.match(text, at) is not None


def label_of(line: str) -> tuple[str, int] | None:
    """What a row would be labelled with, and the offset behind it; None if nothing can be."""
    match = _LABEL.match(line)
    return None if match is None else (match[1], match.end())


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
        if joined is None or (joined.rest_at is not None and not joined.is_part):
            continue
        # Half a word is a name only to one who does not see the other half.
        names = joined.devices
        if _have_digits(names) and len(set(names)) == len(names):
            return text, joined
    return None


def _found_rows(lines: list[str], at: int, header: TopoHeader) -> tuple[list[TopoLine], int]:
    rows: list[TopoLine] = []
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
        while at < min(len(lines), start + _MOST_PARTS):
            part = lines[at]
            if not _BROKEN_OFF.fullmatch(part) or is_blank(part) or _NUMBERED.match(part):
                break
            at += 1
        rows.append(replace(line, parts=tuple(lines[start:at])))
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
    is_lost = bool(_NUMBERED.match(label) or label in "".join(header.devices))
    if not (is_known or (has_cell and is_lost)):
        return None
    return TopoLine(line_no=line_no, label=label, text=text, start=start)


_HEADING: Final = regex(r"\s*\W{0,4}NIC\s*Legend\b")
_ENTRY: Final = regex(r"\b(NIC[0-9]{1,4})\s*:")
_FIRST_ENTRY: Final = regex(r"\W*NIC[0-9]{1,4}\s*:")


def read_legend(
    lines: list[str], devices: tuple[str, ...], start: int, end: int
) -> dict[str, str | None]:
    """The NICs' names by label within lines[start:end]; None is something else than a name.

    nvidia-smi writes there what it has just printed (`NIC1: NUMA Affinity`) where the matrix is
    very wide. Raises ParseError where the legend contradicts itself.
    """
    values: dict[str, str] = {}
    is_open = False
    for at in range(start, end):
        line = lines[at]
        if is_open and _FIRST_ENTRY.match(line):
            _, *parts = _ENTRY.split(line)
            for label, value in zip(parts[::2], map(str.strip, parts[1::2]), strict=True):
                here = TopoLine(line_no=at + 1, label=label, text=line, start=0)
                if values.setdefault(label, value) != value:
                    expected = f"only {values[label][:60]}"
                    raise here.refuse(f"{label} has a second name", line.index(label), expected)
                if label not in devices and _NAME.fullmatch(value):
                    raise here.refuse(f"the matrix has no {label}", 0, "a NIC with a column")
        elif not is_blank(line):
            is_open = _HEADING.match(line) is not None
    # A legend that is overwritten has single words of other text too, such as the A of N/A.
    is_whole = all(map(_NAME.fullmatch, values.values()))
    return {
        label: value if _NAME.fullmatch(value) and (is_whole or _have_digits([value])) else None
        for label, value in values.items()
    }


_ROW_WORD: Final = regex(f"{CELL_WORD}+[0-9,-]*|[0-9][0-9,-]*(?:N/A)?|N/A")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopoTable:
    """A matrix with a row for each device, and how many of COLUMNS its header has."""

    devices: tuple[str, ...]
    rows: dict[str, TopoRow]
    columns: int
    legend: Mapping[str, str | None]


def read_table(lines: list[str], place: TopoPlace, end: int) -> TopoTable:
    """The matrix at a place, with its legend before lines[end]. Raises ParseError."""
    header, head = place.header, place.head
    if header.rest_at is not None:
        expected = f"{', '.join(COLUMNS)}, in this order, and nothing else"
        raise head.refuse("not a column of the matrix", header.rest_at, expected)
    devices = _devices(place)
    rows = {line.label: _row(line, place.header.columns, len(devices)) for line in place.rows}
    _check_behind(lines, place.end, end, devices)
    lacking = [name for name in devices if name not in rows]
    if lacking and place.rows and lacking[0] == devices[len(rows)]:
        message = f"the matrix is cut off here: {len(lacking)} of {len(devices)} rows missing"
        raise place.rows[-1].refuse(message, 0, f"a row for each device, next {lacking[0]}")
    if lacking:
        raise head.refuse(f"{lacking[0]} has no row", 0, "a row for each device")
    _check_diagonal(rows, devices)
    legend = read_legend(lines, devices, place.end, end)
    return TopoTable(devices=devices, rows=rows, columns=header.columns, legend=legend)


def _devices(place: TopoPlace) -> tuple[str, ...]:
    """The columns in order; the rows' labels tell names apart that have run into one another."""
    names = place.header.devices
    labels = tuple(line.label for line in place.rows)
    if "".join(names) == "".join(labels):
        names = labels
    seen: set[str] = set()
    for line in place.rows:
        if line.label not in names:
            message = f"no column for {line.label}"
            raise line.refuse(message, 0, f"one of {len(names)} from {names[0]}")
        if line.label in seen:
            raise line.refuse(f"a second row for {line.label}", 0, "each device once")
        seen.add(line.label)
    if len(set(names)) < len(names):
        raise place.head.refuse("two columns with the same name", 0, "each device once")
    return names


def _row(line: TopoLine, columns: int, device_count: int) -> TopoRow:
    """The row, with the lines that a terminal broke off it if it is not whole without them."""
    columns = columns if line.label.startswith("GPU") else 0
    if not line.parts:
        return read_row(line, device_count, columns)
    failure: ParseError | None = None
    for joint in (None, " ", ""):
        text = line.text if joint is None else joint.join((line.text, *line.parts))
        try:
            row = read_row(replace(line, text=text), device_count, columns)
        except ParseError as error:
            failure = failure or error
            continue
        is_whole = not row.affinity.is_cut
        if is_whole and (joint is not None or not begins_with_cell(line.parts[0])):
            return row
    raise failure or line.refuse(f"cannot read the row of {line.label}", 0, CELL_EXPECTED)


def _check_diagonal(rows: Mapping[str, TopoRow], devices: tuple[str, ...]) -> None:
    for label, row in rows.items():
        for name, cell in zip(devices, row.cells, strict=True):
            if (cell == "X") != (name == label):
                expected = "X on the diagonal and nowhere else"
                raise row.line.refuse(
                    f"wrong cell for {label} and {name}", row.line.start, expected
                )


def _check_behind(lines: list[str], start: int, end: int, devices: tuple[str, ...]) -> None:
    for at in range(start, end):
        if read_header(lines[at]) is not None:
            return
        found = label_of(lines[at])
        if found is None or found[0] not in devices:
            continue
        words = lines[at][found[1] :].split()
        if words and all(_ROW_WORD.fullmatch(word) for word in words):
            line = TopoLine(line_no=at + 1, label=found[0], text=lines[at], start=0)
            raise line.refuse("a row separate from its matrix", 0, "nothing between the rows")


_NO_NAME: Final = ("no legend with its name", "no name in the legend")
_NOT_PRINTED: Final = "nvidia-smi topo -m does not print it"


def is_topo_matrix(text: str) -> bool:
    """Whether a text holds a matrix of `nvidia-smi topo -m`, whole or not."""
    return "GPU" in text and bool(find_places(plain_lines(text)))


def parse_topo_matrix(text: str) -> tuple[NodeTopology, ...]:
    """The nodes whose matrices a text holds, one each, at least one, in the order of the text.

    What is around them is not read. Raises ParseError where there is no matrix, and for a row or
    cell that is missing or cannot be read.
    """
    lines = plain_lines(text)
    places = find_places(lines)
    if not places:
        expected = "the matrix of nvidia-smi topo -m, whose header begins with GPU0"
        raise refuse_text("no matrix found", tool=TOOL, lines=lines, expected=expected)
    ends = [place.head.line_no - 1 for place in places[1:]] + [len(lines)]
    return tuple(
        _topology(read_table(lines, place, end)) for place, end in zip(places, ends, strict=True)
    )


def _topology(table: TopoTable) -> NodeTopology:
    gpus = tuple(_gpu(name, table) for name in table.devices if _is_gpu(name))
    nics = _nics(table)
    cells = tuple(table.rows[name].cells for name in table.devices)
    paths = PathTable(devices=table.devices, cells=cells, is_recorded=True)
    links = _gpu_links(paths)
    return NodeTopology(
        source=Source(format=TOOL),
        gpus=gpus,
        gpu_links=links,
        nics=nics,
        paths=paths,
        unknown=(
            *_not_printed(bool(links), bool(nics)),
            *_lost_affinities(table),
            *(
                Unknown(name, "name", _NO_NAME[name in table.legend])
                for name in table.devices
                if name.startswith("NIC") and not table.legend.get(name)
            ),
        ),
    )


def _is_gpu(name: str) -> bool:
    return name.startswith("GPU") and name[3:].isdecimal()


def _gpu(name: str, table: TopoTable) -> Gpu:
    affinity = table.rows[name].affinity
    return Gpu(
        index=int(name[3:]),
        vendor=GpuVendor.NVIDIA,
        numa_index=expand_indices(affinity.numa)[0] if affinity.numa else None,
        own_numa_index=affinity.own_numa,
        cpus=affinity.cpus,
        memory_numa=affinity.numa,
    )


def _nics(table: TopoTable) -> tuple[Nic, ...]:
    names = [name for name in table.devices if not _is_gpu(name)]
    are_labels = all(name.startswith("NIC") and name[3:].isdecimal() for name in names)
    return tuple(
        Nic(
            index=int(name[3:]) if are_labels else at,
            name=table.legend.get(name) or name,
            label=name if table.legend.get(name) else None,
        )
        for at, name in enumerate(names)
    )


def _gpu_links(paths: PathTable) -> tuple[GpuLink, ...]:
    gpus = sorted((int(name[3:]), at) for at, name in enumerate(paths.devices) if _is_gpu(name))
    links = []
    for first, (a, row) in enumerate(gpus):
        for b, column in gpus[first + 1 :]:
            seen = [c for c in (paths.cells[row][column], paths.cells[column][row]) if c]
            count = min((link_count(cell) or 0 for cell in seen), default=0)
            if count:
                links.append(GpuLink(a=a, b=b, kind=LinkKind.NVLINK, count=count))
    return tuple(links)


def _not_printed(has_links: bool, has_nics: bool) -> Iterable[Unknown]:
    for what in ("name", "pci", "uuid", "memory_bytes"):
        yield Unknown("GPUs", what, _NOT_PRINTED)
    if has_nics:
        for what in ("pci", "state", "rate_bytes_per_s"):
            yield Unknown("NICs", what, _NOT_PRINTED)
    if has_links:
        because = "nvidia-smi topo -m counts links, but does not print their generation"
        yield Unknown("NVLinks", "bandwidth_bytes_per_s", because)
        because = "NV# is the same for direct links and for links through a switch"
        yield Unknown("NVLinks", "is_switched", because)


def _lost_affinities(table: TopoTable) -> Iterable[Unknown]:
    gpus = [name for name in table.devices if _is_gpu(name)]
    for what, why in (("cpus", _why_no_cpus), ("numa_index", _why_no_numa)):
        reasons = {name: why(table, name) for name in gpus}
        if len(set(reasons.values())) == 1:
            reasons = {"GPUs": reasons[gpus[0]]}
        for name, because in reasons.items():
            if because:
                yield Unknown(name, what, because)


_NO_COLUMN: Final = "the text has no column of CPU or NUMA affinity"
_GLUED_NUMBERS: Final = "its CPU and NUMA affinity run together into one number in the text"


def _why_no_cpus(table: TopoTable, name: str) -> str | None:
    affinity = table.rows[name].affinity
    if affinity.is_partial:
        return "nvidia-smi topo -m prints at most six CPU ranges, so there may be more"
    if affinity.is_glued:
        return _GLUED_NUMBERS
    if affinity.cpus is not None:
        return None
    if not table.columns:
        return _NO_COLUMN
    return "the CPU affinity is blank or N/A, as in a cgroup without those CPUs"


def _why_no_numa(table: TopoTable, name: str) -> str | None:
    affinity = table.rows[name].affinity
    if affinity.numa is not None:
        return None
    if not table.columns:
        return _NO_COLUMN
    if table.columns == 1:
        return "this version of nvidia-smi prints no NUMA affinity"
    if affinity.is_glued:
        return _GLUED_NUMBERS
    return "the NUMA affinity is N/A: a virtual machine, or a single NUMA node"
