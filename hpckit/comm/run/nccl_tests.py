"""The table that a program of nccl-tests or rccl-tests prints, in whatever file it ends up.

2.9 has no column `redop` or `root` where a collective lacks them and calls the check `error`, 2.19
may have `i_min …` and a time stamp. Launchers write labels before a line and other programs lines
between, so a row is the words at the end of a line.

Sources: nccl-tests 2.9.0 to 2.19.6, src/common.cu, src/util.cu (writeResultHeader,
writeBenchmarkLineBody, writeDeviceReport); doc/PERFORMANCE.md: algbw and busbw are in 10^9 bytes/s.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Annotated, Any, Final, Literal

import msgspec

from hpckit.comm.run.log import LogReader
from hpckit.comm.run.log_lines import RawLine, raw_lines
from hpckit.comm.run.result import (
    COLLECTIVES,
    BusbwFigures,
    BusbwRow,
    NcclRun,
    NcclTest,
    RankDevice,
    collective_of,
)
from hpckit.core.excerpt import refuse_text
from hpckit.core.foreign_text import JsonObject, json_objects
from hpckit.core.late import regex
from hpckit.spec.platform import NcclVersion

MOST_COUNTED: Final = 2**63 - 1
"""nccl-tests counts in 64 bits: a number beyond is a broken one."""

_WHOLE: Final = r"[0-9]{1,19}"
_FIGURE: Final = r"[0-9]{1,15}(?:\.[0-9]{1,9})?(?:e[+-]?[0-9]{1,2})?"
_WORD: Final = r"[A-Za-z_][A-Za-z0-9_]{0,30}"
_ROOT: Final = r"-?[0-9]{1,7}"
_BEGIN_OF_ROW: Final = regex(rf"(?:\S+ )?{_WHOLE} {_WHOLE} {_WORD}(?: |$)", re.ASCII)
_SIDE: Final = rf"{_FIGURE} {_FIGURE} {_FIGURE} (?:{_FIGURE}|N/A)(?:(?: {_FIGURE}){{4}})?"
_ROW: Final = regex(
    rf"(?:^| )(?P<size>{_WHOLE}) (?P<count>{_WHOLE}) (?P<type>{_WORD})(?: (?P<redop>{_WORD}))?"
    rf"(?: (?P<root>{_ROOT}))?(?: (?P<out>{_SIDE}))? (?P<in>{_SIDE})"
    r"(?: [0-9]+-[0-9]+-[0-9]+ [0-9]+:[0-9:]+)?$",
    re.ASCII,
)
"""A row with single blanks. Where nothing was measured out of place nccl-tests leaves blanks."""
_HEAD: Final = regex(r"\bsize +count +.*\bbusbw\b", re.ASCII)
_MOST_WORDS: Final = 23
_US: Final = 1e-6
_GB: Final = 1e9


def row_of(text: str, head: Sequence[str], line_no: int) -> BusbwRow | None:
    """The row at the end of a line, None where there is none; `head` are the words above it."""
    row = _ROW.search(text)
    if row is None or (row["root"] is not None) is not ("root" in head):
        return None
    has_errors = "error" in head
    return BusbwRow(
        size_bytes=int(row["size"]),
        elements=int(row["count"]),
        type=row["type"],
        redop=row["redop"],
        root=None if row["root"] is None else int(row["root"]),
        out_of_place=_figures(row["out"], has_errors=has_errors),
        in_place=_figures(row["in"], has_errors=has_errors),
        line_no=line_no,
    )


def _figures(side: str | None, *, has_errors: bool) -> BusbwFigures | None:
    """What was measured on one side, None where the row does not have it."""
    if side is None:
        return None
    time, algbw, busbw, wrong = side.split()[:4]
    count = None if has_errors or wrong == "N/A" else float(wrong)
    return _measured(float(time), float(algbw), float(busbw), count)


def _measured(
    time_us: float | None, algbw: float | None, busbw: float | None, wrong: float | None
) -> BusbwFigures | None:
    """One measurement, from what is printed; None where a figure of it is missing."""
    if time_us is None or algbw is None or busbw is None:
        return None
    return BusbwFigures(
        time_s=time_us * _US,
        algbw_bytes_per_s=algbw * _GB,
        busbw_bytes_per_s=busbw * _GB,
        wrong=None if wrong is None else min(round(wrong), MOST_COUNTED),
    )


NO_PROGRAM: Final = "the output does not name its program (nccl-tests does since 2.17.4)"

_MOST_CHARS: Final = 4096
_PROGRAM: Final = regex(r"\b([a-z_]{4,24})_perf(?:_mpi)?\b", re.ASCII)
_RANK: Final = regex(
    r"# +Rank +(?P<rank>[0-9]{1,7})(?: +Group +(?P<group>-?[0-9]{1,9}))? +Pid +(?P<pid>[0-9]{1,10})"
    r" +on +(?P<host>\S{1,255}) +device +(?P<device>[0-9]{1,4}) +\[(?P<bus>[0-9a-fA-Fx:.]{1,20})\]"
    r" *(?P<gpu>.{0,100})",
    re.ASCII,
)


class TableReader:
    """Takes the lines of a file one by one; `tests` are the programs that wrote into it."""

    def __init__(self) -> None:
        self._done: list[NcclTest] = []
        self._head: Sequence[str] = ("root",)
        self._command: str | None = None
        self._begin(1)

    def take(self, line: RawLine) -> bool:
        """Read a line that is not NCCL's; whether it is one of nccl-tests."""
        text = line.text[:_MOST_CHARS]
        at = text.find("#")
        if at >= 0 and self._take_head(text[at:], line.line_no):
            return True
        if "busbw" in text and _HEAD.search(text):
            self._next(line.line_no)
            self._head = text.split()
            self._has_head = True
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
        self._facts: dict[str, Any] = {}
        self._line_no = line_no
        self._unread = 0
        self._has_head = self._is_over = False

    def _end(self) -> None:
        if not (self._rows or self._has_head or self._ranks):
            return
        program = self._facts.pop("program", None)
        name = program.removesuffix("_mpi").removesuffix("_perf") if program else self._command
        collective = COLLECTIVES.get(name or "")
        if name is None and len({one.group for one in self._ranks}) == 1:
            collective = collective_of(self._rows, len({one.rank for one in self._ranks}))
        unknown = f"{program} is not a known nccl-tests program" if program else NO_PROGRAM
        self._command = None
        self._done.append(
            NcclTest(
                program=program or (f"{name}_perf" if name else None),
                collective=collective,
                collective_unknown=None if collective else unknown,
                ranks=tuple(self._ranks),
                rows=tuple(self._rows),
                unread=self._unread,
                line_no=self._line_no,
                **self._facts,
            )
        )

    def _next(self, line_no: int) -> None:
        """A line that stands above a table: the test before it is over, if there is one."""
        if self._rows or self._is_over:
            self._end()
            self._begin(line_no)

    def _take_head(self, text: str, line_no: int) -> bool:
        """A line of comment, from its `#` on."""
        rank = _RANK.match(text)
        if rank is not None:
            self._ranks.append(_rank(rank))
            return True
        for pattern, is_head, is_foot, facts in _COMMENTS:
            match = pattern.search(text)
            if match is not None:
                if is_head:
                    self._next(line_no)
                self._facts |= facts(match)
                self._is_over |= is_foot
                return True
        return False

    def _take_row(self, text: str, line_no: int) -> bool:
        words = text.split()
        row = row_of(" ".join(words), self._head, line_no)
        if row is not None:
            self._rows.append(row)
            return True
        is_begun = len(words) <= _MOST_WORDS and _BEGIN_OF_ROW.match(" ".join(words[:4]))
        is_broken = self._has_head and not self._is_over and bool(is_begun)
        self._unread += is_broken
        return is_broken


def _library(code: int) -> NcclVersion | None:
    with suppress(ValueError):
        return NcclVersion.of_code(code)
    return None


def _comment(
    pattern: str, facts: Callable[[re.Match[str]], dict[str, Any]], *, is_head: bool = False,
    is_foot: bool = False,
) -> tuple[re.Pattern[str], bool, bool, Callable[[re.Match[str]], dict[str, Any]]]:  # fmt: skip
    return re.compile(pattern, re.ASCII), is_head, is_foot, facts


_COMMENTS: Final = (
    _comment(r"^# nccl-tests version (\S{1,40}).*?nccl-library=([0-9]{4,5})", is_head=True,
             facts=lambda match: {"version": match[1], "library": _library(int(match[2]))}),
    _comment(r"nThread [0-9]{1,9} nGpus .{1,60}maxBytes ([0-9]{1,18})\b", is_head=True,
             facts=lambda match: {"most_bytes": int(match[1])}),
    _comment(rf"^# Avg bus bandwidth +: +({_FIGURE})", is_foot=True,
             facts=lambda match: {"average_busbw_bytes_per_s": float(match[1]) * _GB}),
    _comment(r"^# Out of bounds values +: +([0-9]{1,18})", is_foot=True,
             facts=lambda match: {"out_of_bounds": int(match[1])}),
    _comment(r"^# Collective test starting: *(\S{1,80})", is_head=True,
             facts=lambda match: {"program": match[1].rpartition("/")[2]}),
    _comment(r"^# Collective test concluded: *(\S{1,80})",
             facts=lambda match: {"program": match[1].rpartition("/")[2]}),
)  # fmt: skip


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


# --- nccl-tests' JSON (`-J FILE`), of which there are versions 1 to 3.
# Source: nccl-tests 2.17.4 to 2.19.6, src/util.cu. Version 1 wrote `bandwidith`. `devices` has the
# first GPU of each process alone. Of the environment only what NCCL and its plugins read is kept.

_PREFIXES: Final = ("NCCL_", "RCCL_", "FI_", "OFI_NCCL_")
_EXPECTED: Final = "JSON that nccl-tests writes with -J, version 1 to 3"
TOOL: Final = "nccl-tests"

_Whole = Annotated[int, msgspec.Meta(ge=0, le=MOST_COUNTED)]
_Few = Annotated[int, msgspec.Meta(ge=1, le=1024)]
_Figure = Annotated[float, msgspec.Meta(ge=0)]


class _Side(msgspec.Struct):
    time: _Figure | None = None
    cpu_time: _Figure | None = None
    alg_bw: _Figure | None = None
    bus_bw: _Figure | None = None
    nwrong: _Figure | None = None


def _side(side: _Side | None) -> BusbwFigures | None:
    if side is None:
        return None
    time = side.cpu_time if side.time is None else side.time
    return _measured(time, side.alg_bw, side.bus_bw, side.nwrong)


class _Result(msgspec.Struct):
    size: _Whole
    count: _Whole
    type: str | None = None
    redop: str | None = None
    root: str | int | None = None
    out_of_place: _Side | None = None
    in_place: _Side | None = None

    def row(self) -> BusbwRow:
        root = str(self.root).strip()
        return BusbwRow(
            size_bytes=self.size,
            elements=self.count,
            type=self.type,
            redop=self.redop,
            root=int(root) if re.fullmatch(_ROOT, root) else None,
            out_of_place=_side(self.out_of_place),
            in_place=_side(self.in_place),
        )


class _Device(msgspec.Struct):
    rank: _Whole
    pid: _Whole
    device: _Whole
    group: int | None = None
    hostname: str = ""
    device_hex: str = ""
    device_info: str = ""

    def rank_device(self) -> RankDevice:
        return RankDevice(
            rank=self.rank, group=self.group, pid=self.pid, host=self.hostname,
            device=self.device, bus=self.device_hex, gpu=self.device_info,
        )  # fmt: skip


class _Config(msgspec.Struct):
    nthreads: _Few = 1
    ngpus: _Few = 1
    maximum_bytes: _Whole | None = None
    devices: tuple[_Device, ...] = ()


class _Document(msgspec.Struct):
    version: Literal[1, 2, 3]
    results: tuple[_Result, ...]
    args: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    nccl_version: int = 0
    config: _Config = msgspec.field(default_factory=_Config)
    out_of_bounds: dict[str, Any] = {}
    average_bus_bandwidth: dict[str, Any] = {}
    average_bus_bandwidith: dict[str, Any] = {}


def is_nccl_tests_json(text: str) -> bool:
    """Whether a text is a JSON object with the keys of nccl-tests' output."""
    head = text[:200].lstrip()
    return head.startswith("{") and '"results"' in text and '"args"' in text


def parse_nccl_tests_json(text: str) -> tuple[NcclTest, ...]:
    """The tests of a document, or of several one behind the other.

    Raises ParseError for what is no JSON of nccl-tests, or of another version.
    """
    return tuple(_test(_document(one)) for one in json_objects(text, TOOL))


def _document(one: JsonObject) -> _Document:
    try:
        return msgspec.convert(one.tree, _Document)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at `$.")
        raise one.refuse(path.rstrip("`"), message, _EXPECTED) from None


def _test(document: _Document) -> NcclTest:
    config, results = document.config, document.results
    program = document.args[0].rpartition("/")[2] if document.args else ""
    collective = COLLECTIVES.get(program.removesuffix("_mpi").removesuffix("_perf"))
    average = document.average_bus_bandwidth.get("bandwidth")
    average = document.average_bus_bandwidith.get("bandwidith", average)
    wrong = document.out_of_bounds.get("count")
    sides = [side for result in results for side in (result.out_of_place, result.in_place)]
    variables = (line.partition("=") for line in document.env if line.startswith(_PREFIXES))
    return NcclTest(
        program=program or None,
        collective=collective,
        collective_unknown=None if collective else NO_PROGRAM,
        library=_library(document.nccl_version),
        ranks=tuple(device.rank_device() for device in config.devices),
        gpus_per_rank=config.nthreads * config.ngpus,
        rows=tuple(result.row() for result in results),
        unread=sum(side is not None and _side(side) is None for side in sides),
        average_busbw_bytes_per_s=average * _GB if isinstance(average, int | float) else None,
        out_of_bounds=wrong if isinstance(wrong, int) else None,
        most_bytes=config.maximum_bytes,
        environment=tuple((name, value) for name, _, value in variables),
    )


RUN_EXPECTED: Final = (
    "the table or JSON (-J) of nccl-tests, or an NCCL log (NCCL_DEBUG=INFO: `NCCL INFO …` lines)"
)


def parse_nccl_run(text: str) -> NcclRun:
    """The tests and the log in a text, read once; each may be absent.

    Decode a file with `errors="replace"`: jobs write any bytes. Raises ParseError for a text with
    neither.
    """
    text = text.removeprefix("\ufeff")
    if is_nccl_tests_json(text):
        return NcclRun(tests=parse_nccl_tests_json(text))
    log, tests = LogReader(), TableReader()
    for line in raw_lines(text):
        if not log.take(line):
            tests.take(line)
    run = NcclRun(tests=tests.tests(), log=log.log())
    if not run.tests and run.log is None:
        raise refuse_text(
            "neither an nccl-tests table nor an NCCL log line",
            tool="nccl run",
            lines=text.split("\n"),
            expected=RUN_EXPECTED,
        )
    return run
