"""What a rank's ledger says: who it was, and its counters when it began and when it ended."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from hpckit.core.errors import ParseError
from hpckit.core.excerpt import refusal
from hpckit.spec.folder_in_job import LEDGER_SCHEMA


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
    for line_no, line in enumerate(lines, start=1):
        try:
            if line.strip():
                _take(lives, _tree(line))
        except (ValueError, msgspec.MsgspecError, RecursionError) as error:
            if line_no == len(lines) and isinstance(error, json.JSONDecodeError):
                break
            column = getattr(error, "pos", 0) + 1
            return tuple(lives), refusal(
                str(error), tool=TOOL, line_no=line_no, line=line, column=column, expected=_EXPECTED
            )
    return tuple(lives), None


def _tree(line: str) -> Any:
    try:
        return json.loads(line)
    except json.JSONDecodeError:
        again = line.rfind('{"schema"')
        if again <= 0:
            raise
        return json.loads(line[again:])  # the line was cut short, and another life began behind it


def _take(lives: list[RankLedger], tree: Any) -> None:
    if not isinstance(tree, dict):
        raise ValueError(f"got {type(tree).__name__}")  # noqa: TRY004  told as all that is wrong
    record = tree.get("record")
    if record == "start":
        if tree.get("schema") != LEDGER_SCHEMA:
            raise ValueError(f"schema is {tree.get('schema')!r}, not {LEDGER_SCHEMA!r}")
        lives.append(RankLedger(start=msgspec.convert(tree, RankStart)))
    elif record == "end":
        if not _finish(lives, msgspec.convert(tree, RankEnd)):
            raise ValueError("an end without a start")
    elif not isinstance(record, str):
        raise ValueError(f"record is {record!r}")


def _finish(lives: list[RankLedger], end: RankEnd) -> bool:
    """Give an end to its life; False if it is nobody's."""
    for place in reversed(range(len(lives))):
        life = lives[place]
        if life.end is None and end.pid in (None, life.start.pid):
            lives[place] = replace(life, end=end)
            return True
    return False
