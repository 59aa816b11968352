"""Which NCCL a job will load and what is set already, in lines for the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from hpckit.model.comm_already import ENVIRONMENT, Already, AlreadySet
from hpckit.model.nccl_found import FoundNccl, NcclCandidate
from hpckit.model.node_words import visible
from hpckit.report.line import Line, Style, wrapped

_LABEL: Final = 8
_NARROWEST: Final = 40
_LONGEST: Final = 4000
_LONGEST_VALUE: Final = 400
_MOST_LOST: Final = 8
_MOST_SET: Final = 64
_MOST_NOTES: Final = 32


def nccl_found_lines(found: FoundNccl, *, width: int = 80) -> list[Line]:
    """The library that is loaded, what lost and why, in lines of 40 or more.

    What is not known is said so. All that came from files is shown without control characters.
    """
    width = max(width, _NARROWEST)
    rows = [("NCCL", _chosen(found), Style.PLAIN if found.chosen else Style.WARNING)]
    label = "lost" if found.chosen else "either"
    rows += [(label, _lost(other), Style.FAINT) for other in found.others[:_MOST_LOST]]
    if len(found.others) > _MOST_LOST:
        rows.append(("", f"and {len(found.others) - _MOST_LOST} more that lost", Style.FAINT))
    rows += _noted(found.notes)
    return list(_lines(rows, width))


def already_lines(already: Already, *, width: int = 80) -> list[Line]:
    """What is set already, by whom, and what that overrides; one line says that nothing is."""
    width = max(width, _NARROWEST)
    rows = [("set", _setting(one), Style.PLAIN) for one in already.settings[:_MOST_SET]]
    if len(already.settings) > _MOST_SET:
        rows.append(("", f"and {len(already.settings) - _MOST_SET} more", Style.FAINT))
    if not rows:
        rows.append(
            ("set", "nothing, by the job's environment or by a file of NCCL's", Style.PLAIN)
        )
    rows += _noted(already.notes)
    return list(_lines(rows, width))


def unseen_lines(unseen: Iterable[str], *, width: int = 80) -> list[Line]:
    """What was not looked at, a note each, in lines of 40 or more."""
    return list(_lines(_noted(tuple(unseen)), max(width, _NARROWEST)))


def _noted(notes: Sequence[str]) -> list[tuple[str, str, Style]]:
    rows = [("note", note, Style.NOTE) for note in notes[:_MOST_NOTES]]
    if len(notes) > _MOST_NOTES:
        rows.append(("note", f"and {len(notes) - _MOST_NOTES} more: --json has all", Style.FAINT))
    return rows


def _chosen(found: FoundNccl) -> str:
    chosen = found.chosen
    if chosen is None:
        return f"not known: {found.because}"
    return f"{_named(chosen)}, {chosen.path} · {chosen.how} · {_version_words(chosen)}"


def _named(candidate: NcclCandidate) -> str:
    return f"{candidate.library.upper()} {candidate.version or 'of unknown version'}"


def _version_words(candidate: NcclCandidate) -> str:
    return f"version {'by' if candidate.version else 'is'} {candidate.version_from}"


def _lost(candidate: NcclCandidate) -> str:
    reason = f": {candidate.lost}" if candidate.lost else ""
    return f"{_named(candidate)}, {candidate.path} ({candidate.how}){reason}"


def _setting(one: AlreadySet) -> str:
    text = f"{one.name}={_value(one.value)} · {_by(one.set_by)}"
    if one.overrides:
        lost = (f"{_value(other.value)} ({_by(other.set_by)})" for other in one.overrides)
        text += f" · overrides {', '.join(lost)}"
    return f"{text} · {one.remark}" if one.remark else text


def _by(set_by: str) -> str:
    """Who set it; the environment is the job's: of the shell's much is held back."""
    return "the job's environment" if set_by == ENVIRONMENT else set_by


def _value(value: str) -> str:
    """A value as a shell would need it, so that spaces in it are seen."""
    return visible(shlex.quote(value), _LONGEST_VALUE)


def _lines(rows: Iterable[tuple[str, str, Style]], width: int) -> Iterator[Line]:
    further = " " * (_LABEL + 2)
    before = None
    for label, text, style in rows:
        shown = "" if label == before else label
        before = label
        parts = tuple(visible(text, _LONGEST).split(" "))
        for line in wrapped(parts, width, first=f" {shown:<{_LABEL}} ", further=further):
            yield Line(text=line, style=style)
