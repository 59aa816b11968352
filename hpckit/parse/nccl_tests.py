"""The table that a program of nccl-tests or rccl-tests prints, in whatever file it ends up.

Columns are read by the names in the table's own head: 2.9 has none for `redop` or `root` where a
collective lacks them and calls the check `error`, 2.19 may have `i_min …` and a time stamp. Where
the head is missing the columns of 2.10 to 2.19 are taken. Launchers write labels before a line and
other programs lines between, so a row is the words at the end of a line.

Sources: nccl-tests 2.9.0 to 2.19.6, src/common.cu, src/util.cu (writeResultHeader,
writeBenchmarkLineBody, writeDeviceReport); doc/PERFORMANCE.md: algbw and busbw are in 10^9 bytes/s.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Final

from hpckit.model.comm import NcclVersion
from hpckit.model.nccl_run import COLLECTIVES, BusbwRow, NcclTest, RankDevice
from hpckit.parse.nccl_line import RawLine
from hpckit.parse.nccl_tests_factor import collective_of
from hpckit.parse.nccl_tests_row import COLUMNS, columns_of, is_like_row, row_of

NO_PROGRAM: Final = "the output does not name its program (nccl-tests does since 2.17.4)"

_MOST_CHARS: Final = 4096
_PROGRAM: Final = re.compile(r"\b([a-z_]{4,24})_perf(?:_mpi)?\b", re.ASCII)
_TEST: Final = re.compile(r"# nccl-tests version (\S{1,40}).*?nccl-library=([0-9]{4,5})", re.ASCII)
_BEGIN: Final = re.compile(r"# Collective test (?:starting|concluded): *(\S{1,80})", re.ASCII)
_SIZES: Final = re.compile(r"nThread [0-9]{1,9} nGpus .{1,60}maxBytes ([0-9]{1,18})\b", re.ASCII)
_RANK: Final = re.compile(
    r"# +Rank +(?P<rank>[0-9]{1,7})(?: +Group +(?P<group>-?[0-9]{1,9}))? +Pid +(?P<pid>[0-9]{1,10})"
    r" +on +(?P<host>\S{1,255}) +device +(?P<device>[0-9]{1,4}) +\[(?P<bus>[0-9a-fA-Fx:.]{1,20})\]"
    r" *(?P<gpu>.{0,100})",
    re.ASCII,
)
_AVERAGE: Final = re.compile(r"# Avg bus bandwidth +: +([0-9.e+]{1,20})", re.ASCII)
_BOUNDS: Final = re.compile(r"# Out of bounds values +: +([0-9]{1,18})", re.ASCII)
_GB: Final = 1e9


class TableReader:
    """Takes the lines of a file one by one; `tests` are the programs that wrote into it."""

    def __init__(self) -> None:
        self._done: list[NcclTest] = []
        self._columns: tuple[str, ...] = COLUMNS
        self._command: str | None = None
        self._begin(1)

    def take(self, line: RawLine) -> bool:
        """Read a line that is not NCCL's; whether it is one of nccl-tests."""
        text = line.text[:_MOST_CHARS]
        at = text.find("#")
        if at >= 0 and self._take_head(text[at:], line.line_no):
            return True
        if "busbw" in text and self._take_columns(text, line.line_no):
            return True
        if "_perf" in text:
            match = _PROGRAM.search(text)
            self._command = match[1] if match and match[1] in COLLECTIVES else self._command
            return False
        return self._take_row(text, line.line_no)

    def tests(self) -> tuple[NcclTest, ...]:
        """The tests in their order; only those with a table, its head or ranks."""
        self._end()
        return tuple(self._done)

    def _begin(self, line_no: int) -> None:
        self._rows: list[BusbwRow] = []
        self._ranks: list[RankDevice] = []
        self._facts: dict[str, int | float | str | NcclVersion] = {}
        self._line_no = line_no
        self._unread = 0
        self._has_head = self._is_over = False

    def _end(self) -> None:
        if not (self._rows or self._has_head or self._ranks):
            return
        said = self._facts.get("program")
        program = said if isinstance(said, str) else None
        name = program.removesuffix("_mpi").removesuffix("_perf") if program else self._command
        collective = COLLECTIVES.get(name or "")
        if name is None and len({one.group for one in self._ranks}) == 1:
            collective = collective_of(self._rows, len({one.rank for one in self._ranks}))
        self._command = None
        self._done.append(
            NcclTest(
                program=program or (f"{name}_perf" if name else None),
                collective=collective,
                collective_unknown=None if collective else _why_unknown(program),
                version=_text(self._facts.get("version")),
                library=_version(self._facts.get("library")),
                ranks=tuple(self._ranks),
                rows=tuple(self._rows),
                average_busbw_bytes_per_s=_number(self._facts.get("average")),
                out_of_bounds=_whole(self._facts.get("bounds")),
                most_bytes=_whole(self._facts.get("most_bytes")),
                unread=self._unread,
                line_no=self._line_no,
            )
        )

    def _next(self, line_no: int) -> None:
        """A line that stands above a table: the test before it is over, if there is one."""
        if self._rows or self._is_over:
            self._end()
            self._begin(line_no)

    def _take_head(self, text: str, line_no: int) -> bool:
        """A line of comment, from its `#` on."""
        if self._take_ranks(text, line_no):
            return True
        for name, pattern, convert in _FOOTS:
            match = pattern.match(text)
            if match is not None:
                with suppress(ValueError):
                    self._facts[name] = convert(match[1])
                self._is_over = True
                return True
        match = _BEGIN.match(text)
        if match is not None:
            if "starting" in text:
                self._next(line_no)
            self._facts["program"] = match[1].rpartition("/")[2]
            return True
        return False

    def _take_ranks(self, text: str, line_no: int) -> bool:
        match = _TEST.match(text)
        if match is not None:
            self._next(line_no)
            self._facts["version"] = match[1]
            with suppress(ValueError):
                self._facts["library"] = NcclVersion.of_code(int(match[2]))
            return True
        match = _SIZES.search(text)
        if match is not None:
            self._next(line_no)
            self._facts["most_bytes"] = int(match[1])
            return True
        match = _RANK.match(text)
        if match is not None:
            self._ranks.append(_rank(match))
        return match is not None

    def _take_columns(self, text: str, line_no: int) -> bool:
        columns = columns_of(text)
        if columns is None:
            return False
        self._next(line_no)
        self._columns = columns
        self._has_head = True
        return True

    def _take_row(self, text: str, line_no: int) -> bool:
        words = text.split()
        row = row_of(words, self._columns, line_no)
        if row is not None:
            self._rows.append(row)
            return True
        is_broken = self._has_head and not self._is_over and is_like_row(words, self._columns)
        self._unread += is_broken
        return is_broken


_FOOTS: Final = (
    ("average", _AVERAGE, lambda text: float(text) * _GB),
    ("bounds", _BOUNDS, int),
)


def _why_unknown(program: str | None) -> str:
    return f"{program} is no program of nccl-tests that is known" if program else NO_PROGRAM


def _rank(match: re.Match[str]) -> RankDevice:
    group = match["group"]
    return RankDevice(
        rank=int(match["rank"]),
        group=None if group is None else int(group),
        pid=int(match["pid"]),
        host=match["host"],
        device=int(match["device"]),
        bus=match["bus"],
        gpu=match["gpu"].strip(),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _version(value: object) -> NcclVersion | None:
    return value if isinstance(value, NcclVersion) else None


def _number(value: object) -> float | None:
    return value if isinstance(value, float) else None


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) else None
