"""The lines of a file that NCCL wrote into, with the prefixes of whoever collected it taken off.

Source: NCCL, src/debug.cc, ncclDebugLog: `HOST:PID:TID [DEVICE] NCCL INFO text`, a warning with
`FILE:LINE` or `FILE:LINE (FUNCTION)` between, and a time before where NCCL_DEBUG_TIMESTAMP_LEVELS
says so. Two processes may write into one line; what stands before the second's host is the first's,
less a word that touches it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

MOST_CHARS: Final = 65536
"""What is read of a line; NCCL's own buffers end at 1 to 4 KiB."""

_MOST_PREFIX: Final = 400
_MARKS: Final = ("NCCL INFO ", "NCCL WARN ")
_LINE: Final = re.compile(r"[^\n]+")
_ESCAPE: Final = re.compile(r"\x1b\[[0-9;?]{0,32}[A-Za-z]|[\x00\x1b]")
_DEVICE: Final = re.compile(r"\[(-?\d{1,4})\]", re.ASCII)
_PROCESS: Final = re.compile(r"(.{1,256}):(\d{1,10}):(\d{1,10})", re.ASCII)


class RawLine(NamedTuple):
    """A line without colours and its end; `is_cut` where it was longer than MOST_CHARS."""

    line_no: int
    text: str
    is_cut: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NcclLine:
    """What one process said: `host`, `pid` and `device` are None where the line lacks them.

    `is_glued` where it stands behind another process's words in one line, of which some may touch
    its host.
    """

    line_no: int
    host: str | None
    pid: int | None
    device: int | None
    is_warning: bool
    text: str
    is_glued: bool = False


def raw_lines(text: str) -> Iterator[RawLine]:
    """The lines of a text that are not blank; only a newline ends one, and none is copied whole."""
    line_no, counted_to = 1, 0
    for match in _LINE.finditer(text):
        start, end = match.span()
        line_no += text.count("\n", counted_to, start)
        counted_to = start
        line = text[start : min(end, start + MOST_CHARS)].rstrip("\r")
        if "\x1b" in line or "\x00" in line:
            line = _ESCAPE.sub("", line)
        if line and not line.isspace():
            yield RawLine(line_no=line_no, text=line, is_cut=end - start > MOST_CHARS)


def nccl_lines(line: RawLine) -> list[NcclLine]:
    """What NCCL said in a line, mostly once; nothing for another program's line."""
    text = line.text
    marks = list(_marked(text))
    ends = [*(at for at, _ in marks[1:]), len(text)][: len(marks)]
    found: list[NcclLine] = []
    begin = 0
    for (at, mark), end in zip(marks, ends, strict=True):
        host, pid, device = _origin(text[max(begin, at - _MOST_PREFIX) : at])
        begin = at + len(mark)
        said = text[begin:end]
        if end < len(text):
            said = said[: len(said) - _prefix_chars(said)]
        found.append(
            NcclLine(
                line_no=line.line_no,
                host=host,
                pid=pid,
                device=device,
                is_warning=mark == _MARKS[1],
                text=said.strip(),
                is_glued=bool(found),
            )
        )
    return found


def _marked(text: str) -> Iterator[tuple[int, str]]:
    """Where each mark begins."""
    at = text.find("NCCL ")
    while at >= 0:
        mark = next((one for one in _MARKS if text.startswith(one, at)), None)
        if mark is not None:
            yield at, mark
        at = text.find("NCCL ", at + 1)


def _origin(before: str) -> tuple[str | None, int | None, int | None]:
    """Host, process and device of what stands before a mark."""
    words = before.split()[-4:]
    for at in range(len(words) - 1, -1, -1):
        device = _DEVICE.fullmatch(words[at])
        if device is None:
            continue
        name = words[at - 1] if at else ""
        process = _PROCESS.fullmatch(name)
        host = _host(process[1] if process else name)
        return host, int(process[2]) if process else None, int(device[1])
    return None, None, None


def _host(word: str) -> str | None:
    """A host without the label of Open MPI's --tag-output that touches it."""
    return word.rpartition(":")[2] or None


def _prefix_chars(said: str) -> int:
    """How many characters at the end are the prefix of the next line that was glued to this."""
    tail = said[-_MOST_PREFIX:]
    at = tail.rstrip().rfind(" ")
    device = tail[at + 1 :]
    if _DEVICE.fullmatch(device.strip()) is None:
        return 0
    before = tail[: max(at, 0)].rstrip()
    return len(tail) - (before.rfind(" ") + 1)
