"""amd-smi topology: access, weights, hops, types and bandwidth of the links between AMD GPUs.

Sources: amdsmi, amdsmi_cli/amdsmi_commands.py (topology), amdsmi_logger.py (flatten_dict for CSV),
CHANGELOG.md (the layouts of 6.0 to 7.0). Types of links are read by name: their numbers changed.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from itertools import permutations
from typing import Any, Final

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal
from hpckit.core.foreign_text import json_with, refuse_document
from hpckit.core.late import regex
from hpckit.core.text import pasted_lines, without_colours
from hpckit.core.values import dataclass
from hpckit.node.capture.xgmi import PairReport, path_cell, said_kind, unknown_of_links, xgmi_link
from hpckit.node.path import PathKind, PathTable
from hpckit.node.pci import pci_address
from hpckit.node.topology import (
    MOST_GPUS,
    Gpu,
    GpuLink,
    GpuVendor,
    LinkKind,
    NodeTopology,
    Source,
    Unknown,
)

# Rows are read as words, not by columns, so what a terminal or a web form wrapped is taken too;
# lines of other programs in between are passed over, and a matrix that lacks a cell is refused.
_LONGEST_TITLE: Final = 200
_NONE: Final = "N/A"

_CELL = regex(r"\d{1,10}(?:-\d{1,10}|,\d\d)?|N/A|[A-Za-z]{1,12}", re.ASCII)
_RANGE = regex(r"(\d{1,10})-(\d{1,10})", re.ASCII)
_NUMBER = regex(r"\d{1,10}", re.ASCII)
_STATUS: Final = "AMDSMI_STATUS_"
_AFTER_ERROR = regex(r"(?:N/A|(?<!\d)\d{1,10}-\d{1,10}|AMDSMI_STATUS_[A-Z_]{1,40})$", re.ASCII)
_LONGEST_CELL: Final = 60
_WIDTH: Final = 13


class Matrix(StrEnum):
    """What a matrix is about; OTHER is one that tells nothing of the topology."""

    WEIGHT = "weight"
    HOPS = "hops"
    TYPE = "link type"
    ACCESS = "access"
    BANDWIDTH = "bandwidth"
    OTHER = "other"


Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuMatrices:
    """What a tool printed: its GPUs in the order of the columns, and a matrix for each subject."""

    source: Source
    gpus: tuple[Gpu, ...]
    rows: Mapping[Matrix, Rows]
    unknown: tuple[Unknown, ...] = ()

    def word(self, matrix: Matrix, a: int, b: int) -> str | None:
        """A cell by its row and column; None where there is no such matrix."""
        rows = self.rows.get(matrix)
        return rows[a][b] if rows else None

    def number(self, matrix: Matrix, a: int, b: int) -> int | None:
        """A cell that is a number; None for any other word."""
        word = self.word(matrix, a, b)
        return int(word) if word and _NUMBER.fullmatch(word) else None


def title_of(line: str, title: re.Pattern[str]) -> str | None:
    """The words of a line that is a title; a line too long for one is not looked at."""
    match = title.fullmatch(line) if len(line) < _LONGEST_TITLE else None
    return match[1] if match else None


def cell_of(value: object) -> str:
    """A value of JSON or CSV as the tables print it; what is no word or number is N/A."""
    is_word = isinstance(value, str) or (isinstance(value, int) and abs(value) < 1 << 64)
    return str(value).strip() if is_word else _NONE


def whole_matrices(
    words: Mapping[tuple[Matrix, int, int], str], indices: Sequence[int]
) -> dict[Matrix, Rows]:
    """The matrices of GPUs whose words are known by row and column; N/A where there is none."""
    return {
        matrix: tuple(tuple(words.get((matrix, a, b), _NONE) for b in indices) for a in indices)
        for matrix in {matrix for matrix, _, _ in words}
    }


@dataclass(slots=True)
class MatrixReader:
    """Reads one matrix from lines; `label` is a name at the head of rows and columns.

    `ends` knows a line that begins something else.
    """

    lines: Sequence[str]
    tool: str
    label: re.Pattern[str]
    ends: Callable[[str], bool]

    def read_all(
        self, matrix_of: Callable[[str], Matrix | None], other: Callable[[int], None]
    ) -> tuple[tuple[str, ...], dict[Matrix, Rows]]:
        """The labels, which all matrices share, and the matrices to the first that comes again.

        `matrix_of` knows titles; `other` is called for a line that is none. Raises ParseError.
        """
        labels: tuple[str, ...] = ()
        rows: dict[Matrix, Rows] = {}
        at = 0
        while at < len(self.lines):
            title = matrix_of(self.lines[at])
            if title is None:
                other(at)
                at += 1
                continue
            if title in rows and title is not Matrix.OTHER:
                break
            found, rows[title], following = self.read(at, self.lines[at].strip(" \t=:"))
            if labels and found != labels:
                expected = f"the same columns as before: {' '.join(labels)}"
                raise self.refuse(at, f"got columns {' '.join(found)[:60]}", 1, expected)
            labels, at = found, following
        return labels, rows

    def read(self, at: int, title: str) -> tuple[tuple[str, ...], Rows, int]:
        """The labels and rows below the title at line `at` (from 0), and the line after them.

        Raises ParseError with the line where the matrix is not one.
        """
        labels, at = self._header(at, title)
        width = 1 + len(labels)
        words: list[str] = []
        while len(words) < len(labels) * width:
            if at >= len(self.lines) or self.ends(self.lines[at]):
                rows = len(words) // width
                raise self.refuse(
                    min(at, len(self.lines) - 1),
                    f"the matrix of {title!r} ends after {rows} of {len(labels)} rows",
                    1,
                    f"{len(labels)} rows of {len(labels)} cells",
                )
            self._feed(at, labels, words)
            at += 1
        starts = range(1, len(words), width)
        return labels, tuple(tuple(words[start : start + width - 1]) for start in starts), at

    def _header(self, title_at: int, title: str) -> tuple[tuple[str, ...], int]:
        labels: list[str] = []
        at = title_at + 1
        while at < len(self.lines) and not self.ends(self.lines[at]):
            words = [piece for word in self.lines[at].split() for piece in self._pieces(word)]
            if words and all(map(self._is_label, words)) and labels[:1] != words[:1]:
                labels += words
            elif labels:
                break
            at += 1
        if not labels or len(labels) > MOST_GPUS:
            what = "no columns" if not labels else f"{len(labels)} columns"
            expected = f"a header with the names of 1 to {MOST_GPUS} GPUs"
            raise self.refuse(title_at, f"{title!r} has {what}", 1, expected)
        return tuple(labels), at

    def _feed(self, at: int, labels: tuple[str, ...], words: list[str]) -> None:
        """Take the words of a line that is a row, or the rest of one that was wrapped."""
        found = self._words(at)
        is_open = len(words) % (1 + len(labels)) > 0
        is_rest = is_open and all(self._is_cell(word) for word, _ in found)
        if not found or not (is_rest or self._is_label(found[0][0])):
            return
        for word, column in found:
            row, place = divmod(len(words), 1 + len(labels))
            label = labels[row] if row < len(labels) else "the end of the matrix"
            if place == 0 and word != label:
                raise self.refuse(at, f"got {word[:40]!r}", column, label)
            if place > 0 and not _CELL.fullmatch(word):
                expected = f"{len(labels)} cells such as 15 or XGMI in the row of {label}"
                raise self.refuse(at, f"got {word[:40]!r}", column, expected)
            words.append(word)

    def _words(self, at: int) -> list[tuple[str, int]]:
        """The words of a line with their columns from 1; what amd-smi failed to ask is N/A.

        In place of a figure amd-smi can print an error of several words.
        """
        found: list[tuple[str, int]] = []
        is_error = False
        for match in re.finditer(r"\S+", self.lines[at]):
            word, column = match[0], match.start() + 1
            after = _AFTER_ERROR.search(word[-_LONGEST_CELL:]) if is_error else None
            if is_error and after is None:
                continue
            word = after[0] if after else word
            is_error = word.startswith(_STATUS)
            found += [(piece, column) for piece in (["N/A"] if is_error else self._pieces(word))]
        return found

    def _pieces(self, word: str) -> list[str]:
        """The cells of a word: amd-smi fills cells up to 13, and one of 13 touches the next."""
        if len(word) <= _WIDTH or self._is_cell(word):
            return [word]
        pieces = [word[at : at + _WIDTH] for at in range(0, len(word), _WIDTH)]
        return pieces if all(map(self._is_cell, pieces)) else [word]

    def _is_cell(self, word: str) -> bool:
        return _CELL.fullmatch(word) is not None or self._is_label(word)

    def _is_label(self, word: str) -> bool:
        return self.label.fullmatch(word) is not None

    def refuse(self, at: int, message: str, column: int, expected: str) -> ParseError:
        """The error that points into line `at`."""
        line = self.lines[at] if self.lines else ""
        return refusal(
            message, tool=self.tool, line_no=at + 1, line=line, column=column, expected=expected
        )


def topology_of(said: GpuMatrices) -> NodeTopology:
    """The node: GPUs, their XGMI links, and the paths as they were printed."""
    ends = permutations(range(len(said.gpus) if said.rows else 0), 2)
    pairs = {(a, b): _pair(said, a, b) for a, b in ends}
    index = [gpu.index for gpu in said.gpus]
    links = sorted(
        (
            xgmi_link(index[a], index[b], pairs[a, b], pairs[b, a])
            for a, b in pairs
            if index[a] < index[b] and pairs[a, b].kind is pairs[b, a].kind is LinkKind.XGMI
        ),
        key=lambda link: (link.a, link.b),
    )
    paths = None
    if said.rows:
        numa, at = [gpu.numa_index for gpu in said.gpus], range(len(index))
        cells = {pair: path_cell(pairs[pair], (numa[pair[0]], numa[pair[1]])) for pair in pairs}
        paths = PathTable(
            devices=tuple(f"GPU{number}" for number in index),
            cells=tuple(tuple(cells.get((a, b), PathKind.SELF) for b in at) for a in at),
            is_recorded=True,
        )
    return NodeTopology(
        source=said.source,
        gpus=tuple(sorted(said.gpus, key=lambda gpu: gpu.index)),
        gpu_links=tuple(links),
        paths=paths,
        unknown=said.unknown + _unknown(said, links, pairs, paths),
    )


def _pair(said: GpuMatrices, a: int, b: int) -> PairReport:
    word = said.word(Matrix.TYPE, a, b)
    weight, hops = said.number(Matrix.WEIGHT, a, b), said.number(Matrix.HOPS, a, b)
    figures = _RANGE.fullmatch(said.word(Matrix.BANDWIDTH, a, b) or "")
    access = (said.word(Matrix.ACCESS, a, b) or "").upper()
    return PairReport(
        kind=said_kind(word and word.upper(), weight, hops),
        weight=weight,
        hops=hops,
        min_mbytes_per_s=int(figures[1]) if figures else None,
        max_mbytes_per_s=int(figures[2]) if figures else None,
        is_p2p={"ENABLED": True, "TRUE": True, "DISABLED": False, "FALSE": False}.get(access),
    )


def _unknown(
    said: GpuMatrices,
    links: Sequence[GpuLink],
    pairs: Mapping[tuple[int, int], PairReport],
    paths: PathTable | None,
) -> tuple[Unknown, ...]:
    found = list(unknown_of_links(links, because=f"{said.source.format} does not print it"))
    if paths is None:
        because = f"{said.source.format} was run without weights, hops and link types"
        return (*found, Unknown("GPUs", "paths", because))
    blank = {at for at, one in pairs.items() if paths.cells[at[0]][at[1]] is None}
    if any(pairs[at].kind is PathKind.SYS for at in blank):
        because = "the output does not say which PCIe bridge the GPUs of a NUMA node share"
        found.append(Unknown("GPUs", "paths over PCIe", because))
    if any(pairs[at].kind is not PathKind.SYS for at in blank):
        because = f"{said.source.format} has no link type for some pairs"
        found.append(Unknown("GPUs", "paths", because))
    return tuple(found)


AMD_SMI: Final = "amd-smi topology"

_TITLES: Final = {
    "ACCESS TABLE": Matrix.ACCESS,
    "WEIGHT TABLE": Matrix.WEIGHT,
    "HOPS TABLE": Matrix.HOPS,
    "LINK TYPE TABLE": Matrix.TYPE,
    "NUMA BW TABLE": Matrix.BANDWIDTH,
    **dict.fromkeys(("CACHE COHERANCY TABLE", "CACHE COHERENCY TABLE"), Matrix.OTHER),
    **dict.fromkeys(("ATOMICS TABLE", "DMA TABLE", "BI-DIRECTIONAL TABLE"), Matrix.OTHER),
}
_TITLE = regex(r"\s{0,8}([A-Z][A-Z0-9 -]{1,40} TABLE):\s*", re.ASCII)
_FIRST = regex(
    r"^[^\w\n]{0,20}(?:" + "|".join(_TITLES) + r"):[ \r]*\n(?:[ \t]*\r?\n)?"
    r"[^\w\n]{0,40}(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]",
    re.MULTILINE,
)
_LABEL = regex(r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7]", re.ASCII | re.IGNORECASE)
_JSON = regex(r'"(?:links"\s{0,99}:\s{0,99}\[|link_accessibility"|numa_bandwidth")')
_KEYS = regex(r'"(?:link_status|link_type|num_hops|hops|weight)"')
_CSV = regex(
    r"^gpu,(?:bdf,)?(?:link_accessibility|weight|hops|link_type|numa_bandwidth)_gpu_", re.MULTILINE
)
_OF_KEY: Final = {
    **dict.fromkeys(("link_status", "link_accessibility"), Matrix.ACCESS),
    "weight": Matrix.WEIGHT,
    **dict.fromkeys(("num_hops", "hops"), Matrix.HOPS),
    "link_type": Matrix.TYPE,
    **dict.fromkeys(("bandwidth", "numa_bandwidth"), Matrix.BANDWIDTH),
}
"""Keys of a link (since 6.1), and those of a table with a link each (before)."""
_GPU_KEY = regex(r"gpu_(\d{1,4})", re.ASCII)


def is_amd_smi_topology(text: str) -> bool:
    """Whether a text holds such an output, in words, JSON or CSV, among whatever else."""
    text = without_colours(text)
    is_json = _JSON.search(text) is not None and _KEYS.search(text) is not None
    return is_json or _FIRST.search(text) is not None or _CSV.search(text) is not None


def parse_amd_smi_topology(text: str) -> NodeTopology:
    """The node of the first output in a text; what stands around it is passed over.

    GPUs are numbered in their order. `NUMA BW` holds the least and the most bandwidth in 10^6
    bytes a second: one link, and all between the two. `is_p2p` is the ACCESS table. NUMA nodes
    are not printed. Raises ParseError.
    """
    text = without_colours(text)
    if _FIRST.search(text):
        return topology_of(_of_tables(text))
    if _CSV.search(text):
        return topology_of(_of_csv(text))
    return topology_of(_of_json(text))


def _of_tables(text: str) -> GpuMatrices:
    lines = pasted_lines(text)
    reader = MatrixReader(lines, AMD_SMI, _LABEL, lambda line: bool(title_of(line, _TITLE)))
    labels, rows = reader.read_all(
        lambda line: _TITLES.get(title_of(line, _TITLE) or ""), lambda _: None
    )
    return _matrices(tuple(enumerate(labels)), rows)


def _matrices(gpus: Sequence[tuple[int, str | None]], rows: Mapping[Matrix, Rows]) -> GpuMatrices:
    because = "amd-smi topology does not print it; amd-smi static --numa does"
    return GpuMatrices(
        source=Source(format=AMD_SMI),
        gpus=tuple(
            Gpu(index=index, vendor=GpuVendor.AMD, pci=pci_address(bdf) if bdf else None)
            for index, bdf in gpus
        ),
        rows={matrix: cells for matrix, cells in rows.items() if matrix is not Matrix.OTHER},
        unknown=(Unknown("GPUs", "numa_index", because),),
    )


def _of_csv(text: str) -> GpuMatrices:
    """One row a GPU; a column for each table and peer: `weight_gpu_1`."""
    start = _CSV.search(text)
    body = text[start.start() if start else 0 :].replace("\0", "")
    block = body.split("\n\n", 1)[0].split("\n\r\n", 1)[0]
    found: list[dict[str, Any]] = []
    try:
        for row in csv.DictReader(io.StringIO(block)):
            if _index(row.get("gpu")) is None:
                break
            one: dict[str, Any] = {"gpu": row.get("gpu"), "bdf": row.get("bdf")}
            for key, value in row.items():
                table, _, peer = (key or "").rpartition("_gpu_")
                if table:
                    one.setdefault(table, {})[f"gpu_{peer}"] = value
            found.append(one)
    except csv.Error as error:
        line = block.split("\n", 1)[0]
        raise refusal(
            f"cannot read it: {error}", tool=AMD_SMI, line_no=1, line=line, expected="CSV"
        ) from error
    return _of_objects(found, text, "gpu,")


def _of_json(text: str) -> GpuMatrices:
    match = _JSON.search(text)
    key = match[0] if match else "["
    document = json_with(text, key, f"{AMD_SMI} --json")
    if isinstance(document, dict):
        lists = [value for value in document.values() if isinstance(value, list)]
        document = lists[0] if lists else [document]
    return _of_objects(document, text, key)


def _of_objects(document: Any, text: str, key: str) -> GpuMatrices:
    """One object a GPU, its links in a list (since 6.1) or in a table a subject (before)."""
    objects = document if isinstance(document, list) else []
    gpus: list[tuple[int, str | None]] = []
    words: dict[tuple[Matrix, int, int], str] = {}
    for one in objects:
        index = _index(one.get("gpu")) if isinstance(one, dict) else None
        if index is None or index in dict(gpus):
            expected = "objects with 'gpu' and 'links'"
            raise refuse_document(text, key, "not this output", expected, AMD_SMI)
        bdf = one.get("bdf")
        is_bdf = isinstance(bdf, str) and _LABEL.fullmatch(bdf.strip())
        gpus.append((index, bdf if is_bdf else None))
        words |= _words_of(one, index)
    if not 0 < len(gpus) <= MOST_GPUS or not words:
        message = f"found GPUs: {len(gpus)}, links: {len(words)}"
        raise refuse_document(text, key, message, f"1 to {MOST_GPUS} GPUs and their links", AMD_SMI)
    return _matrices(gpus, whole_matrices(words, [index for index, _ in gpus]))


def _words_of(one: Mapping[str, Any], index: int) -> dict[tuple[Matrix, int, int], str]:
    words: dict[tuple[Matrix, int, int], str] = {}
    links = one.get("links")
    for link in links if isinstance(links, list) else ():
        peer = _index(link.get("gpu")) if isinstance(link, dict) else None
        if peer is not None:
            keys = _OF_KEY.keys() & link.keys()
            words |= {(_OF_KEY[key], index, peer): cell_of(link[key]) for key in keys}
    for name, matrix in _OF_KEY.items():
        table = one.get(name)
        for key, value in table.items() if isinstance(table, dict) else ():
            match = _GPU_KEY.fullmatch(key)
            if match:
                words[matrix, index, int(match[1])] = cell_of(value)
    return words


def _index(value: object) -> int | None:
    is_text = isinstance(value, str) and re.fullmatch(r"\d{1,4}", value, re.ASCII)
    if not is_text and (not isinstance(value, int) or isinstance(value, bool)):
        return None
    index = int(str(value)) if is_text else value
    return index if isinstance(index, int) and 0 <= index < MOST_GPUS else None
