"""The header of `nvidia-smi topo -m`: the devices that its columns stand for, then affinities."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from hpckit.parse.nvidia_topo_row import CELL_WORD

COLUMNS: Final = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")

_COLUMN: Final = re.compile("CPU *Affinity|NUMA *Affinity|GPU *NUMA *ID")
_FIRST_DEVICE: Final = re.compile(r"\s*GPU[0-9]")
_GLUED: Final = re.compile(r"(?<=[0-9])(?=GPU[0-9]|NIC[0-9])")
_DEVICE: Final = re.compile(r"[A-Za-z][\w.@-]{0,63}", re.ASCII)
_CELLS: Final = re.compile(rf"{CELL_WORD}+")
_CUT_WORD: Final = re.compile(r"\s(?:CPU +A[a-z]{0,7}|CPU?|C|NIC?|N|GPU?|G) *$")


@dataclass(frozen=True, slots=True, kw_only=True)
class TopoHeader:
    """The devices of a header in order, and how many of COLUMNS it has.

    `is_cut` says that its end may be lost; `surplus_at` is where something stands that is no
    column.
    """

    devices: tuple[str, ...]
    columns: int
    is_cut: bool = False
    surplus_at: int | None = None


def read_header(text: str) -> TopoHeader | None:
    """The header that a line is; None if it is none."""
    if not _FIRST_DEVICE.match(text):
        return None
    first = _COLUMN.search(text)
    head = text[: first.start()] if first else _CUT_WORD.sub("", text)
    devices = tuple(name for word in head.split() for name in _GLUED.split(word))
    if not all(_DEVICE.fullmatch(name) and not _CELLS.fullmatch(name) for name in devices):
        return None
    if first is None:
        # Without the columns behind them, only what is surely a name tells a header from prose.
        has_digits = all(re.search("[0-9]", name) for name in devices)
        return TopoHeader(devices=devices, columns=0, is_cut=True) if has_digits else None
    return _with_columns(text, devices, first.start())


def _with_columns(text: str, devices: tuple[str, ...], at: int) -> TopoHeader:
    columns = 0
    while columns < len(COLUMNS) and (match := _COLUMN.match(text, at)):
        if match[0].replace(" ", "") != COLUMNS[columns].replace(" ", ""):
            break
        columns, at = columns + 1, len(text) - len(text[match.end() :].lstrip())
    rest = text[at:].strip()
    is_part = bool(rest) and any(name.startswith(rest) for name in COLUMNS[columns : columns + 1])
    return TopoHeader(
        devices=devices,
        columns=columns,
        is_cut=is_part,
        surplus_at=at if rest and not is_part else None,
    )
