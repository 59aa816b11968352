"""One row of `nvidia-smi topo -m`: its cells, and a GPU's affinities behind them.

Where a terminal breaks a long line, a paste loses the whitespace there: `SYSSYS`, `NODE36-71` and
`0-47,96-1430N/A` are two or three cells each.
"""

from __future__ import annotations

import re
from typing import Final

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal
from hpckit.core.index_list import EXPECTED as LIST_EXPECTED
from hpckit.core.index_list import IndexList, tidy_indices
from hpckit.core.late import regex
from hpckit.core.values import dataclass

TOOL: Final = "nvidia-smi topo -m"
CELL_EXPECTED: Final = "X, NV with its number of links, PIX, PXB, PHB, NODE, SYS or N/A"

# SOC is what old drivers print for SYS; PSB is NVML_TOPOLOGY_INTERNAL, the switch of one board.
_OTHER_WORDS: Final = {"N/A": None, "SOC": "SYS", "PSB": "PIX"}
CELL_WORD: Final = r"(?:NODE|SYS|PIX|X|NV[1-9][0-9]?|PXB|PHB|SOC|PSB|N/A)"
_CELL: Final = regex(rf"\s*({CELL_WORD})")
_WORD: Final = regex(r"N/A|(?:(?!N/A)\S)+")
_BLANK: Final = regex(r"\s*")

_NUMBER: Final = r"(?:0|[1-9][0-9]{0,3})"
_LIST: Final = regex(rf"{_NUMBER}(?:-{_NUMBER})?(?:,{_NUMBER}(?:-{_NUMBER})?)*")

_MOST_GLUED: Final = 200
_MOST_NUMA_NODES: Final = 64
"""More than a machine with GPUs has (GB200 has 34): tells NUMA nodes from the end of the CPUs."""

_WIDEST_GAP: Final = 8
"""The columns are a tab apart, so a wider gap before the affinities is a blank CPU affinity."""

_WITH_OWN_NUMA: Final = 3
"""Columns of a version that prints the GPU's own NUMA node, which is there or N/A, never blank."""

_MOST_RUNS: Final = 6
"""`topo -m` prints this many runs of CPUs and leaves the others out, also where there are 40."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopoLine:
    """A row as it stands in the text: `start` is the offset behind its label.

    `parts` are the lines that a terminal broke off it.
    """

    line_no: int
    label: str
    text: str
    start: int
    parts: tuple[str, ...] = ()

    def refuse(self, message: str, at: int, expected: str) -> ParseError:
        """The error that points at an offset in the text."""
        blank = _BLANK.match(self.text, at)
        return refusal(
            message,
            tool=TOOL,
            line_no=self.line_no,
            line=self.text,
            column=(blank.end() if blank else at) + 1,
            expected=expected,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Affinity:
    """What stands behind the cells of a GPU.

    `is_cut` says that the row ends too soon, `is_glued` that two numbers run into one another,
    `is_partial` that the tool has left CPUs out.
    """

    cpus: IndexList | None = None
    numa: IndexList | None = None
    own_numa: int | None = None
    is_cut: bool = False
    is_glued: bool = False
    is_partial: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TopoRow:
    """A row that was read, a cell for each device."""

    line: TopoLine
    cells: tuple[str | None, ...]
    affinity: Affinity = Affinity()


def read_row(line: TopoLine, device_count: int, columns: int) -> TopoRow:
    """The cells and affinities of a row; `columns` are those that the header has behind devices.

    Raises ParseError.
    """
    cells, at = _cells(line, device_count)
    if len(cells) < device_count:
        message = f"{line.label} has {len(cells)} of {device_count} cells, then this"
        raise line.refuse(message, at, CELL_EXPECTED)
    return TopoRow(line=line, cells=tuple(cells), affinity=_affinity(line, at, columns))


def _cells(line: TopoLine, device_count: int) -> tuple[list[str | None], int]:
    cells: list[str | None] = []
    at = line.start
    while len(cells) < device_count and (match := _CELL.match(line.text, at)):
        cells.append(_OTHER_WORDS.get(match[1], match[1]))
        at = match.end()
    return cells, at


def _affinity(line: TopoLine, rest: int, columns: int) -> Affinity:
    matches = list(_WORD.finditer(line.text, rest))
    if len(matches) < columns and line.text.endswith("N/A", 0, rest):
        # This N/A is an affinity, and a cell before it is missing.
        raise line.refuse(f"{line.label} lacks a cell or an affinity", rest - 3, CELL_EXPECTED)
    for index, match in enumerate(matches):
        if index == columns:
            raise line.refuse(f"extra text after {line.label}", match.start(), "the end of the row")
        if match[0] != "N/A" and not _is_list(match[0]) and not _splits(match[0]):
            raise line.refuse("not an affinity", match.start(), f"{LIST_EXPECTED}, or N/A")
    words = [match[0] for match in matches]
    if len(words) == columns:
        return _whole(line, matches)
    if not words or words == ["N/A"]:
        return Affinity(is_cut=not words)
    return _fewer(words, columns, gap=matches[0].start() - rest)


def _whole(line: TopoLine, matches: list[re.Match[str]]) -> Affinity:
    for match in matches:
        if match[0] != "N/A" and not _is_list(match[0]):
            raise line.refuse("not an affinity", match.start(), f"{LIST_EXPECTED}, or N/A")
    words = [None if match[0] == "N/A" else match[0] for match in matches] + [None] * 3
    if words[2] is not None and not words[2].isdecimal():
        raise line.refuse("not a NUMA node", matches[2].start(), "one index, or N/A")
    return Affinity(
        cpus=_indices(words[0]),
        numa=_indices(words[1]),
        own_numa=None if words[2] is None else int(words[2]),
        is_partial=bool(words[0] and words[0].count(",") == _MOST_RUNS - 1),
    )


def _fewer(words: list[str], columns: int, gap: int) -> Affinity:
    """Fewer words than columns: blank CPUs, two columns in one word, or a row that was cut."""
    has_end = columns == _WITH_OWN_NUMA and words[-1] == "N/A"
    is_one_less = len(words) == columns - 1 and (has_end or columns < _WITH_OWN_NUMA)
    splits = _splits(words[0])
    if is_one_less and (gap > _WIDEST_GAP or words[0] == "N/A"):
        return Affinity(numa=_indices(words[0]))
    if not is_one_less or not has_end:
        return Affinity(is_cut=True)
    if not splits and _is_numa_list(words[0]):
        return Affinity(numa=_indices(words[0]))
    if len(splits) != 1:
        return Affinity(is_glued=True)
    cpus, numa = splits[0]
    is_partial = cpus.count(",") == _MOST_RUNS - 1
    return Affinity(cpus=_indices(cpus), numa=_indices(numa), is_partial=is_partial)


def _splits(text: str) -> list[tuple[str, str]]:
    """The ways to read a word as CPUs and, without a gap, NUMA nodes."""
    if len(text) > _MOST_GLUED:
        return []
    pairs = ((text[:at], text[at:]) for at in range(1, len(text)))
    return [(cpus, numa) for cpus, numa in pairs if _is_list(cpus) and _is_numa_list(numa)]


def _is_list(text: str) -> bool:
    if not _LIST.fullmatch(text):
        return False
    bounds = [int(number) for number in re.split("[,-]", text)]
    return bounds == sorted(bounds)


def _is_numa_list(text: str) -> bool:
    return _is_list(text) and int(re.split("[,-]", text)[-1]) < _MOST_NUMA_NODES


def _indices(text: str | None) -> IndexList | None:
    return None if text in {None, "N/A"} else tidy_indices(str(text))
