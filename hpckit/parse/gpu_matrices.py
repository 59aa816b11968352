"""Matrices of GPUs against GPUs, as rocm-smi and amd-smi print them in blocks of text.

Rows are read as words, not by columns, so what a terminal or a web form wrapped is taken too;
lines of other programs in between are passed over, and a matrix that lacks a cell is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from hpckit.errors import ParseError
from hpckit.model.hardware import (
    Gpu,
    GpuLink,
    GpuVendor,
    LinkKind,
    NodeTopology,
    Source,
    Unknown,
)
from hpckit.model.node_limits import MOST_GPUS
from hpckit.model.path import PathKind, PathTable
from hpckit.parse.excerpt import refusal
from hpckit.parse.xgmi import PairReport, path_cell, said_kind, unknown_of_links, xgmi_link

_LONGEST_TITLE: Final = 200
_NONE: Final = "N/A"

_CELL = re.compile(r"\d{1,10}(?:-\d{1,10}|,\d\d)?|N/A|[A-Za-z]{1,12}", re.ASCII)
_RANGE = re.compile(r"(\d{1,10})-(\d{1,10})", re.ASCII)
_NUMBER = re.compile(r"\d{1,10}", re.ASCII)
_STATUS: Final = "AMDSMI_STATUS_"
_AFTER_ERROR = re.compile(r"(?:N/A|(?<!\d)\d{1,10}-\d{1,10}|AMDSMI_STATUS_[A-Z_]{1,40})$", re.ASCII)
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
                expected = f"those of the matrix before: {' '.join(labels)}"
                raise self.refuse(at, f"got columns {' '.join(found)[:60]}", 1, expected)
            labels, at = found, following
        return labels, rows

    def read(self, at: int, title: str) -> tuple[tuple[str, ...], Rows, int]:
        """The labels and rows below the title at line `at` (from 0), and the line after them.

        Raises ParseError with the line where the matrix is not one.
        """
        labels, at = self._header(at, title)
        rows: list[list[str]] = []
        while not (len(rows) == len(labels) and len(rows[-1]) == len(labels)):
            if at >= len(self.lines) or self.ends(self.lines[at]):
                raise self.refuse(
                    min(at, len(self.lines) - 1),
                    f"the matrix of {title!r} ends after {len(rows)} of {len(labels)} rows",
                    1,
                    f"{len(labels)} rows of {len(labels)} cells",
                )
            self._feed(at, labels, rows)
            at += 1
        return labels, tuple(tuple(row) for row in rows), at

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
            expected = f"a row with the names of 1 to {MOST_GPUS} GPUs"
            raise self.refuse(title_at, f"{title!r} has {what}", 1, expected)
        return tuple(labels), at

    def _feed(self, at: int, labels: tuple[str, ...], rows: list[list[str]]) -> None:
        words = self._words(at)
        if not words or not self._belongs([word for word, _ in words], labels, rows):
            return
        for word, column in words:
            if self._is_label(word):
                self._open_row(at, word, column, labels, rows)
            elif not _CELL.fullmatch(word):
                raise self.refuse(at, f"got {word[:40]!r}", column, "a cell such as 15 or XGMI")
            elif len(rows[-1]) == len(labels):
                expected = f"{len(labels)} cells, as there are columns"
                raise self.refuse(at, f"got one more, {word[:40]!r}", column, expected)
            else:
                rows[-1].append(word)

    def _belongs(self, words: list[str], labels: tuple[str, ...], rows: list[list[str]]) -> bool:
        """Whether a line is part of the matrix: a row, or the rest of one that was wrapped."""
        if self._is_label(words[0]):
            return True
        is_open = bool(rows) and len(rows[-1]) < len(labels)
        return is_open and all(map(self._is_cell, words))

    def _open_row(
        self, at: int, word: str, column: int, labels: tuple[str, ...], rows: list[list[str]]
    ) -> None:
        if rows and len(rows[-1]) < len(labels):
            got = f"the row of {labels[len(rows) - 1]} has {len(rows[-1])} cells"
            raise self.refuse(at, got, column, f"{len(labels)}, as there are columns")
        expected = labels[len(rows)] if len(rows) < len(labels) else "the end of the matrix"
        if word != expected:
            raise self.refuse(at, f"got the row of {word[:40]!r}", column, expected)
        rows.append([])

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
    pairs = _pairs(said)
    index = [gpu.index for gpu in said.gpus]
    links = sorted(
        (
            xgmi_link(index[a], index[b], pairs[a, b], pairs[b, a])
            for a, b in pairs
            if index[a] < index[b] and pairs[a, b].kind is pairs[b, a].kind is LinkKind.XGMI
        ),
        key=lambda link: (link.a, link.b),
    )
    paths = _paths(said, pairs) if said.rows else None
    return NodeTopology(
        source=said.source,
        gpus=tuple(sorted(said.gpus, key=lambda gpu: gpu.index)),
        gpu_links=tuple(links),
        paths=paths,
        unknown=said.unknown + _unknown(said, links, pairs, paths),
    )


def _pairs(said: GpuMatrices) -> dict[tuple[int, int], PairReport]:
    indices = range(len(said.gpus)) if said.rows else range(0)
    return {(a, b): _pair(said, a, b) for a in indices for b in indices if a != b}


def _pair(said: GpuMatrices, a: int, b: int) -> PairReport:
    word = said.word(Matrix.TYPE, a, b)
    weight, hops = said.number(Matrix.WEIGHT, a, b), said.number(Matrix.HOPS, a, b)
    kind = said_kind(word and word.upper(), weight, hops)
    figures = _RANGE.fullmatch(said.word(Matrix.BANDWIDTH, a, b) or "")
    access = (said.word(Matrix.ACCESS, a, b) or "").upper()
    return PairReport(
        kind=kind.kind,
        is_pcie=kind.is_pcie,
        weight=weight,
        hops=hops,
        min_mbytes_per_s=int(figures[1]) if figures else None,
        max_mbytes_per_s=int(figures[2]) if figures else None,
        is_p2p={"ENABLED": True, "TRUE": True, "DISABLED": False, "FALSE": False}.get(access),
    )


def _paths(said: GpuMatrices, pairs: Mapping[tuple[int, int], PairReport]) -> PathTable:
    numa = [gpu.numa_index for gpu in said.gpus]
    indices = range(len(said.gpus))
    return PathTable(
        devices=tuple(f"GPU{gpu.index}" for gpu in said.gpus),
        cells=tuple(
            tuple(
                PathKind.SELF if a == b else path_cell(pairs[a, b], (numa[a], numa[b]))
                for b in indices
            )
            for a in indices
        ),
        is_recorded=True,
    )


def _unknown(
    said: GpuMatrices,
    links: Sequence[GpuLink],
    pairs: Mapping[tuple[int, int], PairReport],
    paths: PathTable | None,
) -> tuple[Unknown, ...]:
    found = list(unknown_of_links(links, because=f"{said.source.format} does not print it"))
    if paths is None:
        because = f"{said.source.format} was not asked for weights, hops or types"
        return (*found, Unknown(subject="GPUs", what="paths", because=because))
    blank = {at for at, one in pairs.items() if paths.cells[at[0]][at[1]] is None}
    if any(pairs[at].is_pcie for at in blank):
        because = "it is not said which PCIe bridge the GPUs of a NUMA node share"
        found.append(Unknown(subject="GPUs", what="paths over PCIe", because=because))
    if any(not pairs[at].is_pcie for at in blank):
        because = f"{said.source.format} does not name the type of link of some pairs"
        found.append(Unknown(subject="GPUs", what="paths", because=because))
    return tuple(found)


def amd_gpu(index: int) -> Gpu:
    """A GPU of which only the index is known."""
    return Gpu(index=index, vendor=GpuVendor.AMD)
