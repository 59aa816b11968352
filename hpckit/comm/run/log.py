"""NCCL's and RCCL's log at NCCL_DEBUG=INFO, from 2.18 to 2.30.

A line that begins as one that is read, and is not of its form, is counted and kept, never an error:
each release has new ones. All other lines are passed over.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import Any, Final

from hpckit.comm.run.log_forms import (
    JOB_FORMS,
    NET_FORMS,
    PATH_FORMS,
    PLUGIN_FORMS,
    VERSION,
    begins_as_form,
    by_first_word,
    facts_of,
    version_fact,
)
from hpckit.comm.run.log_lines import (
    FACT_LISTS,
    NcclLine,
    NcclLog,
    RawLine,
    Seen,
    Warned,
    nccl_lines,
)

UNREAD_KEPT: Final = 100
"""Texts in another form than the one that is read which are kept."""

_FORMS: Final = by_first_word((*NET_FORMS, *PLUGIN_FORMS, *PATH_FORMS, *JOB_FORMS))
_ERRORS: Final = ("NCCL error in: ", "NCCL error in ", "Failed, NCCL error ", "Test NCCL failure ")
_KEPT_CHARS: Final = 300
_MOST_CHARS: Final = 4096
_MOST_LABEL: Final = 40


class LogReader:
    """Takes the lines of a file one by one; `log` is what they say of NCCL."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, list[int]] = {}
        self._unread: dict[str, list[int]] = {}
        self._hosts: dict[str, None] = {}
        self._processes: dict[tuple[str, int | None], None] = {}
        self._by_pid: dict[int, dict[str, None]] = {}
        self._lines = self._unread_lines = self._cut = self._other = 0

    def take(self, line: RawLine) -> bool:
        """Read a line; whether it is one of NCCL's."""
        said = nccl_lines(line) if "NCCL " in line.text else []
        self._cut += line.is_cut
        for one in said:
            self._take_one(replace(one, host=self._host(one)))
        is_one = bool(said) or self._take_error(line) or self._take_bare(line)
        self._other += not is_one
        return is_one

    def log(self) -> NcclLog | None:
        """What was read, None where no line is one of NCCL's."""
        if not self._lines:
            return None
        return NcclLog(
            lines=self._lines,
            unread_lines=self._unread_lines,
            cut_lines=self._cut,
            other_lines=self._other,
            hosts=tuple(self._hosts),
            processes=len(self._processes),
            **{name: self._all(kind) for name, kind in FACT_LISTS.items()},
            unread=tuple(Seen(text, *at) for text, at in self._unread.items())[:UNREAD_KEPT],
        )

    def _host(self, line: NcclLine) -> str | None:
        """The host, without another program's words that touch it where a newline was lost.

        Behind another process's words only a host is believed that wrote before.
        """
        if line.host is None or line.pid is None or (line.host, line.pid) in self._processes:
            return line.host
        known = (one for one in self._by_pid.get(line.pid, ()) if line.host.endswith(one))
        is_believed = not line.is_glued or line.host in self._hosts
        return max(known, key=len, default=line.host if is_believed else None)

    def _take_one(self, line: NcclLine) -> None:
        self._lines += 1
        if line.host is not None:
            self._hosts[line.host] = None
            self._processes[line.host, line.pid] = None
            if line.pid is not None:
                self._by_pid.setdefault(line.pid, {})[line.host] = None
        text = line.text[:_MOST_CHARS]
        if line.is_warning:
            self._note(Warned(host=line.host, text=text[:_KEPT_CHARS]), line.line_no)
            return
        facts = facts_of(line, _FORMS) if len(line.text) <= _MOST_CHARS else None
        if facts is None and begins_as_form(text, _FORMS):
            self._unread_lines += 1
            self._unread.setdefault(text[:_KEPT_CHARS], [line.line_no, 0])[1] += 1
        for fact in facts or ():
            self._note(fact, line.line_no)

    def _take_error(self, line: RawLine) -> bool:
        """What PyTorch or nccl-tests says of an error that NCCL gave it."""
        starts = (line.text.find(mark, 0, _MOST_CHARS) for mark in _ERRORS)
        at = min((start for start in starts if start >= 0), default=-1)
        if at < 0:
            return False
        self._lines += 1
        text = line.text[at : at + _KEPT_CHARS].strip()
        self._note(Warned(host=None, text=text), line.line_no)
        return True

    def _take_bare(self, line: RawLine) -> bool:
        """Rank 0 prints its release without a prefix, behind a launcher's label at most."""
        at = line.text.find("CCL version", 0, _MOST_LABEL + len("NCCL version")) - 1
        match = VERSION.fullmatch(line.text[at : at + _MOST_CHARS].strip()) if at >= 0 else None
        before = line.text[: max(at, 0)].split()
        if match is None or len(before) > 1 or len(line.text) > _MOST_CHARS:
            return False
        fact = version_fact(match, None)
        if fact is not None:
            self._lines += 1
            self._note(fact, line.line_no)
        return fact is not None

    def _note(self, fact: Hashable, line_no: int) -> None:
        self._seen.setdefault(fact, [line_no, 0])[1] += 1

    def _all(self, kind: type) -> tuple[Seen[Any], ...]:
        return tuple(Seen(fact, *at) for fact, at in self._seen.items() if isinstance(fact, kind))
