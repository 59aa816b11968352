"""One row of nccl-tests' table, by the names of its columns."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from hpckit.model.nccl_run import BusbwFigures, BusbwRow

COLUMNS: Final = (
    *("size", "count", "type", "redop", "root"),
    *("time", "algbw", "busbw", "#wrong"),
    *("time", "algbw", "busbw", "#wrong"),
)
"""The columns of 2.10 to 2.19."""

MOST_COUNTED: Final = 2**63 - 1
"""nccl-tests counts in 64 bits: a number beyond is a broken one."""

_Places = Mapping[tuple[str, int | None], int]
"""(name of a column, side) → which word it is; the side is 0 out of place, 1 in place."""

_PER_ROW: Final = frozenset({"size", "count", "type", "redop", "root"})
_TIMED: Final = frozenset({"time", "cputime"})
_NAMES: Final = _PER_ROW | _TIMED | {"algbw", "busbw", "#wrong", "error", "timestamp"}
_STAMP_WORDS: Final = 2
_WHOLE: Final = re.compile(r"[0-9]{1,19}", re.ASCII)
_FIGURE: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?(?:e[+-]?[0-9]{1,3})?", re.ASCII)
_ROOT: Final = re.compile(r"-?[0-9]{1,7}", re.ASCII)
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,30}", re.ASCII)
_US: Final = 1e-6
_GB: Final = 1e9
_LEAST_LIKE: Final = 3


def columns_of(text: str) -> tuple[str, ...] | None:
    """The names in a table's head, None for a line that is none."""
    words = text.split()
    start = next((at for at, word in enumerate(words) if word.lstrip("#") == "size"), None)
    if start is None:
        return None
    names = ("size", *words[start + 1 :])
    is_whole = names.count("busbw") in (1, 2) and names.count("algbw") == names.count("busbw")
    is_clear = len(dict(_sided(names))) == len(names)
    return names if is_whole and is_clear and all(_is_name(name) for name in names) else None


def _is_name(name: str) -> bool:
    return name in _NAMES or name.startswith("i_")


def row_of(words: Sequence[str], columns: tuple[str, ...], line_no: int) -> BusbwRow | None:
    """The row at the end of a line's words, None where there is none.

    A row without what was measured out of place is shorter: nccl-tests leaves blanks there.
    """
    end = len(words) - (_STAMP_WORDS if "timestamp" in columns else 0)
    for count, places in _layouts(columns):
        if count <= end:
            row = _row(places, words[end - count : end], line_no)
            if row is not None:
                return row
    return None


@lru_cache(maxsize=64)
def _layouts(columns: tuple[str, ...]) -> tuple[tuple[int, _Places], ...]:
    """How many words a row has and which is which: of a whole one, then of one in place alone."""
    whole = dict(_sided(name for name in columns if name != "timestamp"))
    layouts = [(len(whole), whole)]
    if any(side == 1 for _, side in whole):
        only = {key: at for at, key in enumerate(key for key in whole if key[1] != 0)}
        layouts.append((len(only), only))
    return tuple(layouts)


def is_like_row(words: Sequence[str], columns: Sequence[str]) -> bool:
    """Whether a line begins as a row does, with a size, a count and a type, and is none."""
    for at in range(min(2, len(words))):
        head = words[at : at + _LEAST_LIKE]
        if len(head) == _LEAST_LIKE and _is_head(head):
            return len(words) - at <= len(columns) + _STAMP_WORDS
    return False


def _is_head(head: Sequence[str]) -> bool:
    is_sized = _WHOLE.fullmatch(head[0]) is not None and _WHOLE.fullmatch(head[1]) is not None
    return is_sized and _WORD.fullmatch(head[2]) is not None


def _sided(names: Iterable[str]) -> Iterable[tuple[tuple[str, int | None], int]]:
    """(name, side) of each column: None for those of the row, 0 out of place, 1 in place."""
    side = -1
    for at, name in enumerate(names):
        if name in _TIMED:
            side += 1
        plain = "time" if name in _TIMED else name
        yield (plain, None if name in _PER_ROW else side), at


def _row(places: _Places, words: Sequence[str], line_no: int) -> BusbwRow | None:
    cells = {key: words[at] for key, at in places.items()}
    if not _are_row_cells(cells):
        return None
    sides: dict[int, BusbwFigures] = {}
    for side in {side: None for _, side in places if side is not None}:
        figures = _figures(cells, side)
        if figures is None:
            return None
        sides[side] = figures
    root = cells.get(("root", None))
    return BusbwRow(
        size_bytes=int(cells["size", None]),
        elements=int(cells["count", None]),
        type=cells.get(("type", None)),
        redop=cells.get(("redop", None)),
        root=None if root is None else int(root),
        out_of_place=sides.get(0),
        in_place=sides.get(1),
        line_no=line_no,
    )


_CELLS: Final = (
    ("size", _WHOLE), ("count", _WHOLE), ("type", _WORD), ("redop", _WORD), ("root", _ROOT)
)  # fmt: skip


def _are_row_cells(cells: Mapping[tuple[str, int | None], str]) -> bool:
    if ("size", None) not in cells or ("count", None) not in cells:
        return False
    return all(
        pattern.fullmatch(cells[name, None]) is not None
        for name, pattern in _CELLS
        if (name, None) in cells
    )


def _figures(cells: Mapping[tuple[str, int | None], str], side: int) -> BusbwFigures | None:
    """What was measured; None for a cell that is no number."""
    found = [_figure(cells.get((name, side), "")) for name in ("time", "algbw", "busbw")]
    wrong = cells.get(("#wrong", side))
    time, algbw, busbw = found
    if time is None or algbw is None or busbw is None:
        return None
    if wrong is not None and wrong != "N/A" and _figure(wrong) is None:
        return None
    return BusbwFigures(
        time_s=time * _US,
        algbw_bytes_per_s=algbw * _GB,
        busbw_bytes_per_s=busbw * _GB,
        wrong=_wrong(wrong),
    )


def _wrong(word: str | None) -> int | None:
    value = None if word is None else _figure(word)
    return None if value is None else min(round(value), MOST_COUNTED)


def _figure(word: str) -> float | None:
    if _FIGURE.fullmatch(word) is None:
        return None
    value = float(word)
    return value if math.isfinite(value) else None
