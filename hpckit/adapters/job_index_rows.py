"""A line of the job index as an entry and back; every column is checked where it is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from hpckit.model.slurm import JobEntry, JobId, JobPart, JobState, is_job_id
from hpckit.units import MAX_EPOCH_S

_PARTS: Final = re.compile(r"(?:[0-9]{1,9}:[A-Za-z0-9_.+-]{1,64} )*")
_MOST_BYTES: Final = 4096  # PATH_MAX of linux/limits.h
_NOT_TOLD: Final = "?"
_SHOWN: Final = 60
_KEYS: Final = ("submission", "job_id", "folder")


class UnsoundRow(Exception):
    """A column holds what it cannot; `entry` is what can be read, None where that is no job."""

    def __init__(self, column: str, got: object, entry: JobEntry | None) -> None:
        shown = repr(got)
        shown = shown if len(shown) <= _SHOWN else f"{shown[:_SHOWN]}…"
        super().__init__(f"column {column} of jobs holds {shown}, expected {_EXPECTED[column]}")
        self.entry = entry


def _is_text(value: object) -> bool:
    # Bytes that are no UTF-8 were read as lone surrogates.
    return isinstance(value, str) and not any("\ud800" <= char <= "\udfff" for char in value)


def _is_text_or_none(value: object) -> bool:
    return value is None or _is_text(value)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and is_job_id(value)


def _is_folder(value: object) -> bool:
    return (
        isinstance(value, str)
        and _is_text(value)
        and value.startswith("/")
        and "\0" not in value
        and len(value.encode()) < _MOST_BYTES
    )


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and 0 <= value < MAX_EPOCH_S


def _is_code(value: object) -> bool:
    return value is None or isinstance(value, int)


def _is_parts(value: object) -> bool:
    return isinstance(value, str) and _PARTS.fullmatch(value) is not None


_TEXT: Final = "text in UTF-8"
_ID: Final = "letters, digits and _ . + - of an id, 64 at most"
_Column = tuple[str, Callable[[object], bool], str, object]
_RULES: Final[Sequence[_Column]] = (
    # name, rule, what it expects, what stands for a value that cannot be read
    ("submission", _is_id, _ID, None),
    ("job_id", _is_id, _ID, None),
    ("cluster", _is_text_or_none, _TEXT, None),
    ("name", _is_text, _TEXT, _NOT_TOLD),
    ("site", _is_text, _TEXT, _NOT_TOLD),
    ("folder", _is_folder, "the path of a folder from / on", None),
    ("created_s", _is_time, "seconds since the epoch", 0.0),
    ("state", _is_text, "the word of a state", JobState.PENDING),
    ("exit_code", _is_code, "a whole number or nothing", None),
    ("parts", _is_parts, "OFFSET:ID and a blank for each part", ""),
    ("chain", _is_text_or_none, _TEXT, None),
    ("stage", _is_text_or_none, _TEXT, None),
)
_EXPECTED: Final = {name: expected for name, _, expected, _ in _RULES}
COLUMNS: Final = tuple(_EXPECTED)


def row_of(entry: JobEntry) -> tuple[object, ...]:
    """An entry as the values of COLUMNS."""
    parts = "".join(f"{part.offset}:{part.job_id} " for part in entry.parts)
    written = replace(entry, parts=())
    values = {name: getattr(written, name) for name in COLUMNS}
    return tuple({**values, "state": str(entry.state), "parts": parts}.values())


def entry_of(row: Sequence[Any]) -> JobEntry:
    """The entry of a row. Raises UnsoundRow with what of it can be read."""
    values, wrong = {}, []
    for (name, is_sound, _, instead), value in zip(_RULES, row, strict=True):
        values[name] = value if is_sound(value) else instead
        if not is_sound(value):
            wrong.append((name, value))
    if not wrong:
        return _entry(values)
    is_job = not any(name in _KEYS for name, _ in wrong)
    raise UnsoundRow(*wrong[0], _entry(values) if is_job else None)


def _entry(values: dict[str, Any]) -> JobEntry:
    known = values["state"] in JobState.__members__.values()
    return JobEntry(
        **{
            **values,
            "state": JobState(values["state"]) if known else JobState.UNKNOWN,
            "parts": _parts(values["parts"]),
        }
    )


def _parts(text: str) -> tuple[JobPart, ...]:
    """The parts of an array, from `0:4242 1000:4243 `."""
    pairs = (word.split(":") for word in text.split())
    return tuple(JobPart(offset=int(offset), job_id=JobId(job_id)) for offset, job_id in pairs)
