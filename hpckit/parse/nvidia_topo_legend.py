"""The legend of `nvidia-smi topo -m` that gives NIC0, NIC1 and the others a name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from hpckit.parse.excerpt import refusal
from hpckit.parse.nvidia_topo_row import TOOL
from hpckit.parse.nvidia_topo_text import is_blank

_HEADING: Final = re.compile(r"\s*\W{0,4}NIC\s*Legend\b")
_ENTRY: Final = re.compile(r"\b(NIC[0-9]{1,4})\s*:")
_FIRST_ENTRY: Final = re.compile(r"\W*NIC[0-9]{1,4}\s*:")
_NAME: Final = re.compile(r"[A-Za-z][\w.@-]{0,63}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class NicLegend:
    """The names by label; `unnamed` are the labels behind which stands something else.

    nvidia-smi writes there what it has just printed (`NIC1: NUMA Affinity`) where the matrix is
    very wide.
    """

    names: Mapping[str, str] = field(default_factory=dict)
    unnamed: tuple[str, ...] = ()
    line_nos: Mapping[str, int] = field(default_factory=dict)


def read_legend(lines: list[str], start: int, end: int) -> NicLegend:
    """The legend within lines[start:end]. Raises ParseError where it contradicts itself."""
    values: dict[str, str] = {}
    line_nos: dict[str, int] = {}
    is_open = False
    for at in range(start, end):
        line = lines[at]
        if is_open and _FIRST_ENTRY.match(line):
            for label, value in _entries(line):
                if values.setdefault(label, value) != value:
                    raise refusal(
                        f"{label} has a second name",
                        tool=TOOL,
                        line_no=at + 1,
                        line=line,
                        column=line.index(label) + 1,
                        expected=f"{values[label][:60]} alone",
                    )
                line_nos.setdefault(label, at + 1)
        elif not is_blank(line):
            is_open = _HEADING.match(line) is not None
    return _legend(values, line_nos)


def _entries(line: str) -> list[tuple[str, str]]:
    parts = _ENTRY.split(line)
    return [(parts[at], parts[at + 1].strip()) for at in range(1, len(parts) - 1, 2)]


def _legend(values: dict[str, str], line_nos: dict[str, int]) -> NicLegend:
    names = {label: value for label, value in values.items() if _NAME.fullmatch(value)}
    if len(names) < len(values):
        # A legend that is overwritten has single words of other text too, such as the A of N/A.
        names = {label: name for label, name in names.items() if re.search("[0-9]", name)}
    unnamed = tuple(label for label in values if label not in names)
    return NicLegend(names=names, unnamed=unnamed, line_nos=line_nos)
