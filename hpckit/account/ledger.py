"""What a rank's ledger says: who it was, and its counters when it began and when it ended."""

from __future__ import annotations

import json
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal
from hpckit.spec.folder import LEDGER_SCHEMA


class Moment(Struct, frozen=True, kw_only=True):
    """One moment in nanoseconds: CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME."""

    realtime_ns: int
    monotonic_ns: int
    boottime_ns: int


class EnergyReading(Struct, frozen=True, kw_only=True):
    """A GPU's energy counter at a moment of the monotonic clock.

    `energy_mj` is millijoules since the driver was loaded, None with the reason in `refused`
    (nvml.h's error in pynvml's spelling). `uuid` is NVML's, or `GPU-<unique_id>` of AMD's sysfs.
    """

    uuid: str
    monotonic_ns: int
    energy_mj: int | None
    refused: str | None = None


class RankStart(Struct, frozen=True, kw_only=True):
    """A rank's first line. `gpus` are those that are taken to be this rank's; `claim` says by what.

    `claim` is `visible` (it sees these alone), `local-rank` (it sees its node's GPUs, and has the
    share of its LOCAL_RANK as frameworks do), `all` (it sees more than one can be told apart) or
    `none`. `visible` is CUDA_VISIBLE_DEVICES or ROCR_VISIBLE_DEVICES as it stood. `nvml_refused`
    is why NVML told nothing: an error of nvml.h in pynvml's spelling, or `late` where it had not
    answered when the command had to start.
    """

    rank: int
    local_rank: int | None
    world_size: int | None
    node: str
    pid: int
    boot_id: str | None
    at: Moment
    gpus: tuple[EnergyReading, ...] = ()
    claim: str = "none"
    visible: str | None = None
    job_id: str | None = None
    cpus: str | None = None
    nvml_init_ms: float | None = None
    nvml_refused: str | None = None

    @property
    def identity(self) -> tuple[str, str | None, int, int, int]:
        """What no other life has: a process of one boot that began at this nanosecond."""
        return self.node, self.boot_id, self.rank, self.pid, self.at.monotonic_ns


class RankEnd(Struct, frozen=True, kw_only=True):
    """A rank's last line; what could not be read is None.

    CPU seconds, memory peak (bytes, the largest process) and IO (bytes, /proc/PID/io) are of the
    command and of all descendants that it waited for. `exit_code` is 128+N after signal N.
    `updates` are changes of the counters, at the moment they were seen at, within 4 ms: the first
    after the start, the last before the end, and the one after the end. One of the energy that
    `gpus` has, at a later moment, is no change: the counter was still the same then. `readings`
    are other readings: the first ones where the start says `late`, and what was read just before
    changes, by which it is known whether any between two of them was missed. `pid` is that of the
    start, which tells whose end it is; older files have none.
    """

    at: Moment
    pid: int | None = None
    exit_code: int | None = None
    gpus: tuple[EnergyReading, ...] = ()
    updates: tuple[EnergyReading, ...] = ()
    readings: tuple[EnergyReading, ...] = ()
    cpu_user_s: float | None = None
    cpu_system_s: float | None = None
    max_rss_bytes: int | None = None
    read_chars_bytes: int | None = None
    write_chars_bytes: int | None = None
    read_bytes: int | None = None
    write_bytes: int | None = None


class RankLedger(Struct, frozen=True, kw_only=True):
    """Both ends of a rank; `end` None is one that was killed, or still runs."""

    start: RankStart
    end: RankEnd | None = None


T = TypeVar("T")

TOOL: Final = "rank ledger"
_EXPECTED: Final = "a line of a ledger, see docs/reference/account-files.md"


def read_ledger(text: str) -> tuple[tuple[RankLedger, ...], ParseError | None]:
    """The lives of a rank in their order, and what is wrong with the first line that is none.

    torchrun appends another life when it starts ranks anew, and steps that run at once write to
    one file where their ranks have the same number: an end is that of the last life without one
    that has its `pid`, or, in older files, of the last without one. A life without an end was
    killed, or still runs; of a last line that was cut short nothing is taken. Records that this
    version does not know are passed over. Behind a line that is wrong nothing is read.
    """
    lives: list[RankLedger] = []
    lines = text.split("\n")
    try:
        for line_no, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            tree = _object(line, line_no, is_last=line_no == len(lines))
            if tree is None:
                break
            _take(lives, tree, line, line_no)
    except ParseError as error:
        return tuple(lives), error
    return tuple(lives), None


def _finish(lives: list[RankLedger], end: RankEnd) -> bool:
    """Give an end to its life; False if it is nobody's."""
    for place in reversed(range(len(lives))):
        life = lives[place]
        if life.end is None and end.pid in (None, life.start.pid):
            lives[place] = replace(life, end=end)
            return True
    return False


def _take(lives: list[RankLedger], tree: dict[str, Any], line: str, line_no: int) -> None:
    record = tree.get("record")
    if record == "start":
        if tree.get("schema") != LEDGER_SCHEMA:
            message = f"schema is {tree.get('schema')!r}"
            raise _refuse(message, line, line_no, "schema", f'"{LEDGER_SCHEMA}"')
        lives.append(RankLedger(start=_converted(tree, RankStart, line, line_no)))
    elif record == "end":
        if not _finish(lives, _converted(tree, RankEnd, line, line_no)):
            raise _refuse("an end without a start", line, line_no, "record", '"start" before it')
    elif not isinstance(record, str):
        raise _refuse(f"record is {record!r}", line, line_no, "record", '"start" or "end"')


def _object(line: str, line_no: int, *, is_last: bool) -> dict[str, Any] | None:
    """The object of a line, None where it is the last of a file and not whole."""
    try:
        tree = json.loads(line)
    except json.JSONDecodeError as error:
        again = line.rfind('{"schema"')
        if again > 0:  # the line was cut short, and another life began behind it
            return _object(line[again:], line_no, is_last=is_last)
        if is_last:
            return None
        raise _refusal(error.msg, line, line_no, error.pos + 1, _EXPECTED) from error
    except (RecursionError, ValueError) as error:
        raise _refusal(f"not readable: {error}", line, line_no, 1, _EXPECTED) from None
    if isinstance(tree, dict):
        return tree
    raise _refusal(f"got {type(tree).__name__}", line, line_no, 1, "a JSON object")


def _converted(tree: dict[str, Any], cls: type[T], line: str, line_no: int) -> T:
    try:
        return msgspec.convert(tree, cls)
    except (msgspec.ValidationError, RecursionError) as error:
        key = str(error).rpartition("$.")[2].split("`")[0].split(".")[0].split("[")[0]
        raise _refuse(str(error), line, line_no, key, _EXPECTED) from error


def _refuse(message: str, line: str, line_no: int, key: str, expected: str) -> ParseError:
    return _refusal(message, line, line_no, max(line.find(f'"{key}"'), 0) + 1, expected)


def _refusal(message: str, line: str, line_no: int, column: int, expected: str) -> ParseError:
    return refusal(message, tool=TOOL, line_no=line_no, line=line, column=column, expected=expected)
