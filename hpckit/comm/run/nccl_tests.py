"""The table that a program of nccl-tests or rccl-tests prints, in whatever file it ends up.

Columns are read by the names in the table's own head: 2.9 has none for `redop` or `root` where a
collective lacks them and calls the check `error`, 2.19 may have `i_min …` and a time stamp. Where
the head is missing the columns of 2.10 to 2.19 are taken. Launchers write labels before a line and
other programs lines between, so a row is the words at the end of a line.

Sources: nccl-tests 2.9.0 to 2.19.6, src/common.cu, src/util.cu (writeResultHeader,
writeBenchmarkLineBody, writeDeviceReport); doc/PERFORMANCE.md: algbw and busbw are in 10^9 bytes/s.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

from hpckit.comm.run.log import LogReader, refuse
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
from hpckit.core.foreign_text import JsonObject, json_objects
from hpckit.spec.platform import NcclVersion

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
_LIKE: Final = (_WHOLE, _WHOLE, _WORD)
"""How a row begins: size, count, type."""


def columns_of(text: str) -> tuple[str, ...] | None:
    """The names in a table's head, None for a line that is none."""
    words = text.split()
    start = next((at for at, word in enumerate(words) if word.lstrip("#") == "size"), None)
    if start is None:
        return None
    names = ("size", *words[start + 1 :])
    is_whole = names.count("busbw") in (1, 2) and names.count("algbw") == names.count("busbw")
    are_known = all(name in _NAMES or name.startswith("i_") for name in names)
    is_clear = len(dict(_sided(names))) == len(names)
    return names if is_whole and is_clear and are_known else None


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
        head = zip(_LIKE, words[at : at + len(_LIKE)], strict=False)
        if len(words) - at >= len(_LIKE) and all(like.fullmatch(word) for like, word in head):
            return len(words) - at <= len(columns) + _STAMP_WORDS
    return False


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
    time, algbw, busbw = (
        _figure(cells.get((name, side), "")) for name in ("time", "algbw", "busbw")
    )
    word = cells.get(("#wrong", side), "N/A")
    wrong = _figure(word)
    return None if wrong is None and word != "N/A" else _measured(time, algbw, busbw, wrong)


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


def _figure(word: str) -> float | None:
    if _FIGURE.fullmatch(word) is None:
        return None
    value = float(word)
    return value if math.isfinite(value) else None


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
        unknown = f"{program} is no program of nccl-tests that is known" if program else NO_PROGRAM
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
    ("average_busbw_bytes_per_s", _AVERAGE, lambda text: float(text) * _GB),
    ("out_of_bounds", _BOUNDS, int),
)


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

VERSIONS: Final = (1, 2, 3)
_PREFIXES: Final = ("NCCL_", "RCCL_", "FI_", "OFI_NCCL_")
_EXPECTED: Final = "what nccl-tests writes with -J, version 1 to 3"
TOOL: Final = "nccl-tests"
_MOST_LOCAL: Final = 1024


def is_nccl_tests_json(text: str) -> bool:
    """Whether a text is a JSON object with the keys of nccl-tests' output."""
    head = text[:200].lstrip()
    return head.startswith("{") and '"results"' in text and '"args"' in text


def parse_nccl_tests_json(text: str) -> tuple[NcclTest, ...]:
    """The tests of a document, or of several one behind the other.

    Raises ParseError for what is no JSON of nccl-tests, or of another version.
    """
    return tuple(_test(one) for one in json_objects(text, TOOL))


def _test(one: JsonObject) -> NcclTest:
    tree = one.tree
    if tree.get("version") not in VERSIONS:
        raise one.refuse("version", f"got {str(tree.get('version'))[:20]}", _EXPECTED)
    results = tree.get("results")
    if not isinstance(results, list):
        raise one.refuse("results", "no list of results", _EXPECTED)
    config = _part(tree, "config")
    program = _program(tree.get("args"))
    name = (program or "").removesuffix("_mpi").removesuffix("_perf")
    collective = COLLECTIVES.get(name)
    return NcclTest(
        program=program,
        collective=collective,
        collective_unknown=None if collective else NO_PROGRAM,
        library=_json_version(tree.get("nccl_version")),
        ranks=tuple(_json_rank(rank, one) for rank in _objects(config.get("devices"))),
        gpus_per_rank=_few(config, "nthreads", one) * _few(config, "ngpus", one),
        rows=tuple(_json_row(row, one) for row in _objects(results)),
        unread=sum(_is_broken(row, one) for row in _objects(results)),
        average_busbw_bytes_per_s=_average(tree),
        out_of_bounds=_json_whole(_part(tree, "out_of_bounds").get("count")),
        most_bytes=_json_whole(config.get("maximum_bytes")),
        environment=_environment(tree.get("env")),
    )


def _program(args: Any) -> str | None:
    first = args[0] if isinstance(args, list) and args else None
    return first.rpartition("/")[2] or None if isinstance(first, str) else None


def _environment(env: Any) -> tuple[tuple[str, str], ...]:
    lines = [one for one in env if isinstance(one, str)] if isinstance(env, list) else []
    pairs = (line.partition("=") for line in lines if line.startswith(_PREFIXES))
    return tuple((name, value) for name, _, value in pairs)


def _average(tree: dict[str, Any]) -> float | None:
    for key, inner in (
        ("average_bus_bandwidth", "bandwidth"),
        ("average_bus_bandwidith", "bandwidith"),
    ):
        value = _float(_part(tree, key).get(inner))
        if value is not None:
            return value * _GB
    return None


def _json_rank(tree: dict[str, Any], one: JsonObject) -> RankDevice:
    return RankDevice(
        rank=_needed(tree, "rank", one),
        group=_json_whole(tree.get("group")),
        pid=_needed(tree, "pid", one),
        host=str(tree.get("hostname") or ""),
        device=_needed(tree, "device", one),
        bus=str(tree.get("device_hex") or ""),
        gpu=str(tree.get("device_info") or ""),
    )


def _json_row(tree: dict[str, Any], one: JsonObject) -> BusbwRow:
    root = tree.get("root")
    number = None
    with suppress(TypeError, ValueError):
        number = int(str(root)[:12])
    return BusbwRow(
        size_bytes=_needed(tree, "size", one),
        elements=_needed(tree, "count", one),
        type=_word(tree.get("type")),
        redop=_word(tree.get("redop")),
        root=number,
        out_of_place=_json_figures(tree.get("out_of_place"), one),
        in_place=_json_figures(tree.get("in_place"), one),
    )


def _is_broken(tree: dict[str, Any], one: JsonObject) -> bool:
    """Whether a placement that was measured has a figure that is none."""
    sides = [tree.get("out_of_place"), tree.get("in_place")]
    return any(side is not None and _json_figures(side, one) is None for side in sides)


def _json_figures(tree: Any, one: JsonObject) -> BusbwFigures | None:
    if tree is None:
        return None
    if not isinstance(tree, dict):
        raise one.refuse("out_of_place", "no object", _EXPECTED)
    time = tree.get("time", tree.get("cpu_time"))
    figures = (time, tree.get("alg_bw"), tree.get("bus_bw"), tree.get("nwrong"))
    return _measured(*map(_float, figures))


def _objects(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _part(tree: dict[str, Any], key: str) -> dict[str, Any]:
    value = tree.get(key)
    return value if isinstance(value, dict) else {}


def _few(config: dict[str, Any], key: str, one: JsonObject) -> int:
    """Threads or GPUs of a process, 1 where they are not told."""
    value = config.get(key, 1)
    if _json_whole(value) is None or not 1 <= value <= _MOST_LOCAL:
        raise one.refuse(key, f"got {str(value)[:40]}", f"a number from 1 to {_MOST_LOCAL}")
    return int(value)


def _needed(tree: dict[str, Any], key: str, one: JsonObject) -> int:
    value = _json_whole(tree.get(key))
    if value is None:
        raise one.refuse(key, f"got {str(tree.get(key))[:40]}", "a whole number, 0 or more")
    return value


def _json_whole(value: Any) -> int | None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 <= value <= MOST_COUNTED else None


def _float(value: Any) -> float | None:
    """A figure; JSON has numbers that no float holds."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value <= sys.float_info.max else None


def _word(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _json_version(value: Any) -> NcclVersion | None:
    with suppress(ValueError):
        return NcclVersion.of_code(value) if isinstance(value, int) else None
    return None


RUN_TOOL: Final = "nccl run"
RUN_EXPECTED: Final = (
    "the table or JSON (-J) of nccl-tests, or NCCL's log (NCCL_DEBUG=INFO: lines of `NCCL INFO …`)"
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
        raise refuse(
            text, "neither a table of nccl-tests nor a line of NCCL's", RUN_EXPECTED, RUN_TOOL
        )
    return run
