"""A run of NCCL for people: what was measured beside what was predicted, what was used, and why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from hpckit.core.findings import Severity, SourcedFinding
from hpckit.model.nccl_run import NcclRun, NcclTest
from hpckit.model.words import counted
from hpckit.report.finding_lines import finding_lines, labelled, more_lines, next_lines, words_of
from hpckit.report.line import Line, Style, wrapped
from hpckit.report.nccl_used import SUBSYSTEMS, used_rows
from hpckit.units import short_bytes

NARROWEST: Final = 40
_GB: Final = 1e9
_MOST_FINDINGS: Final = 12
_NOTHING: Final[Mapping[str, float]] = MappingProxyType({})


def nccl_run_lines(
    run: NcclRun,
    findings: Sequence[SourcedFinding],
    *,
    predicted: Mapping[str, float] = _NOTHING,
    unpredicted: str | None = None,
    width: int = 80,
) -> list[Line]:
    """The screen in lines of at most `width` columns (40 or more).

    `predicted` is bus bandwidth in bytes/s by NCCL's name of a collective (`AllReduce`),
    `unpredicted` why there is none, or not of all tests.
    """
    width = max(width, NARROWEST)
    title = wrapped(tuple(_title(run, findings)), width, further="  ", between=" · ")
    lines = [Line(text=text, style=Style.TITLE) for text in title]
    for test in run.tests:
        wanted = predicted if test in run.alike else _NOTHING
        lines += labelled("measured", words_of(_measured(test, wanted)), width, Style.PLAIN)
    if unpredicted:
        lines += _row("predicted", f"not known: {unpredicted}", width, Style.FAINT)
    if run.log is not None:
        for label, words in used_rows(run.log):
            style = Style.FAINT if label == "unknown" else Style.PLAIN
            lines += _row(label, words, width, style)
    lines += _unread(run, width)
    for one in findings[:_MOST_FINDINGS]:
        line = (f"(line {one.line_no})",) if one.line_no is not None else ()
        head = (*words_of(f"{one.rule}: {one.because}"), *line)
        remedy = words_of(f"fix: {one.remedy}")
        lines += finding_lines(one.severity, head, remedy, width=width)
    lines += more_lines(len(findings) - _MOST_FINDINGS)
    return [*lines, *next_lines(list(_next(run, findings)))]


def _row(label: str, words: str, width: int, style: Style) -> list[Line]:
    """A label may be as wide as the gap; it then stands with one blank more."""
    shown = label if len(label) < len("findings ") else f"{label} "
    return labelled(shown, words_of(words), width, style)


def _title(run: NcclRun, findings: Sequence[SourcedFinding]) -> Iterator[str]:
    """How many findings, then what ran."""
    grave = [one for one in findings if one.severity is not Severity.NOTE]
    notes = len(findings) - len(grave)
    yield counted(len(grave), "finding") if grave else "nothing odd"
    if notes:
        yield counted(notes, "note")
    ranks = (run.log.ranks if run.log else None) or max(
        (test.rank_count for test in run.tests), default=0
    )
    nodes = (run.log.nodes if run.log else None) or max(
        (test.nodes for test in run.tests), default=0
    )
    if ranks:
        yield counted(ranks, "rank") + (f" on {counted(nodes, 'node')}" if nodes else "")
    releases = (
        [f"{one.what.library.upper()} {one.what.text}" for one in run.log.versions]
        if (run.log)
        else [f"NCCL {test.library}" for test in run.tests if test.library]
    )
    yield from dict.fromkeys(releases)


def _measured(test: NcclTest, predicted: Mapping[str, float]) -> str:
    name = test.collective or test.program or "not named by the output:"
    plateau = test.plateau_bytes_per_s
    if plateau is None:
        return f"{name.removesuffix(':')}: no bandwidth"
    most = max(row.size_bytes for row in test.rows)
    words = f"{name} {plateau / _GB:.4g} GB/s bus bandwidth, to {short_bytes(most)}"
    wanted = predicted.get(test.collective or "")
    if not wanted:
        return words
    share = 100 * plateau / wanted
    return f"{words} · predicted {wanted / _GB:.4g} GB/s: {share:.0f} % of it"


def _unread(run: NcclRun, width: int) -> list[Line]:
    parts = []
    rows = sum(test.unread for test in run.tests)
    if rows:
        parts.append(f"{counted(rows, 'line')} of a table that {_are(rows)} no whole row")
    if run.log is not None and run.log.unread_lines:
        count = counted(run.log.unread_lines, "line")
        parts.append(f"{count} of NCCL in a new form, the first line {run.log.unread[0].line_no}")
    if run.log is not None and run.log.cut_lines:
        parts.append(f"{counted(run.log.cut_lines, 'line')} too long to read whole")
    return labelled("not read", words_of("; ".join(parts)), width, Style.FAINT) if parts else []


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _next(run: NcclRun, findings: Sequence[SourcedFinding]) -> Iterator[str]:
    if run.log is None or not run.log.networks:
        yield f"NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS={SUBSYSTEMS} COMMAND"
    if not run.tests:
        yield "all_reduce_perf -b 8M -e 8G -f 2"
    if any(one.severity is not Severity.NOTE for one in findings):
        yield "hpckit inspect"
