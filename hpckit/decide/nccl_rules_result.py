"""Whether the result of a run can be used, and whether all its ranks ran the same thing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from hpckit.core.findings import Evidence, Severity
from hpckit.decide.nccl_rule import RunFacts, logged, named
from hpckit.model.nccl_finding import ExpectedRun
from hpckit.model.nccl_log import LibraryVersion, Seen
from hpckit.model.nccl_run import BusbwRow, NcclTest
from hpckit.model.words import counted
from hpckit.units import short_bytes

RISING_FROM: Final = 1.1
"""More bus bandwidth at the largest size than at half of it by this factor is no plateau."""

LEAST_OF_PREDICTED: Final = 0.85
"""NCCL's model of bandwidth is within 15 % of what was published of machines that it covers."""

PLATEAU_FROM_BYTES: Final = 2**30
"""From 1 GiB on published figures are within 15 % of the plateau; 512 MiB are 19 % below it.

Source: stas00, ml-engineering, network benchmarks: AWS P6, 8 B200 on one node and on 4.
"""

_PROFILED: Final = ", and what the provider's profile sets is not known"
_LEAST_TOLD: Final = 0.05e9
_MOST_WARNINGS: Final = 5


def wrong_results(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `wrong-results`: nccl-tests found elements that are not what they should be."""
    for test in facts.run.tests:
        rows = [row for row in test.rows if row.wrong]
        if rows:
            count = sum(row.wrong for row in rows)
            yield logged(
                f"{_name(test)}: {counted(count, 'wrong element')} at"
                f" {counted(len(rows), 'size')}, first at {short_bytes(rows[0].size_bytes)}",
                rows[0].line_no,
            )
        elif test.out_of_bounds:
            yield logged(
                f"{_name(test)}: {counted(test.out_of_bounds, 'value')} out of bounds", test.line_no
            )


def still_rising(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `still-rising`: the largest message is too small to show the plateau."""
    for test in facts.run.tests:
        yield from _rising_of(test)


def _rising_of(test: NcclTest) -> Iterator[Evidence]:
    rows = sorted((row for row in test.rows if row.size_bytes), key=lambda row: row.size_bytes)
    smaller = [row for row in rows if 2 * row.size_bytes <= rows[-1].size_bytes]
    if smaller:
        yield from _rising(test, smaller[-1], rows[-1])


def _rising(test: NcclTest, before: BusbwRow, last: BusbwRow) -> Iterator[Evidence]:
    less, more = before.busbw_bytes_per_s, last.busbw_bytes_per_s
    if less and more and more > RISING_FROM * less:
        yield logged(
            f"{_name(test)}: {more / 1e9:.4g} GB/s at {short_bytes(last.size_bytes)},"
            f" {less / 1e9:.4g} GB/s at {short_bytes(before.size_bytes)}",
            last.line_no,
        )


def below_predicted(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `below-predicted`: the plateau is far below what the machine should give."""
    wanted = dict(facts.expected.busbw)
    for test in facts.run.alike:
        reached, most = test.plateau_bytes_per_s, wanted.get(test.collective or "")
        if reached and most and reached < LEAST_OF_PREDICTED * most:
            excuse = _excuse(test, facts.expected)
            yield logged(
                f"{_name(test)}: {reached / 1e9:.4g} GB/s of the {most / 1e9:.4g} GB/s that were"
                f" predicted ({100 * reached / most:.0f} %){excuse}",
                test.line_no,
                Severity.NOTE if excuse else None,
            )


def _excuse(test: NcclTest, expected: ExpectedRun) -> str:
    """Why a healthy run may be so far below; nothing where it is not."""
    if test.collective in expected.bounds:
        return ", which is what the links allow: no model says how much of it is reached"
    largest = max(row.size_bytes for row in test.rows)
    if largest < PLATEAU_FROM_BYTES:
        return f", which is of large messages: {short_bytes(largest)} is small"
    if any(_rising_of(test)):
        return ", and larger messages may reach more"
    return _PROFILED if expected.is_profiled else ""


def alone(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `alone`: a bus bandwidth of 0 beside bytes that moved is that of one rank.

    The factor of bus bandwidth is 0 for one rank and at least 1/2 for more (PERFORMANCE.md).
    """
    for test in facts.run.tests:
        figures = [one for row in test.rows for one in row.figures]
        moved = [one for one in figures if one.algbw_bytes_per_s >= _LEAST_TOLD]
        if moved and not any(one.busbw_bytes_per_s for one in moved):
            copies = len(test.ranks)
            who = f"{copies} ranks ran, each alone" if copies > 1 else "one rank ran alone"
            yield logged(f"{_name(test)}: {who}", test.line_no)


def unfinished(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `unfinished`: the output of a test ends before its summary."""
    for test in facts.run.tests:
        if test.average_busbw_bytes_per_s is None:
            last = max((row.size_bytes for row in test.rows), default=0)
            at = f" after {short_bytes(last)}" if last else " before its first row"
            to = f" of {short_bytes(test.most_bytes)}" if test.most_bytes else ""
            yield logged(f"{_name(test)} ends{at}{to}", test.line_no)


def _name(test: NcclTest) -> str:
    return test.collective or test.program or "a test"


def versions_differ(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `versions-differ`: ranks that loaded another release."""
    groups: dict[str, list[Seen[LibraryVersion]]] = {}
    for one in facts.log.versions:
        groups.setdefault(f"{one.what.library.upper()} {one.what.version}", []).append(one)
    if len(groups) < 2:  # noqa: PLR2004  one release
        return
    usual = max(groups, key=lambda name: sum(one.count for one in groups[name]))
    for name, each in groups.items():
        if name != usual:
            hosts = named(one.what.host for one in each if one.what.host)
            at = f" on {hosts}" if hosts else ""
            yield logged(f"{name}{at}, {usual} elsewhere", each[0].line_no)


def warned(facts: RunFacts) -> Iterator[Evidence]:
    """Rule `warned`: NCCL's own warnings, each text once, the first few."""
    texts: dict[str, list[int]] = {}
    for one in facts.log.warnings:
        seen = texts.setdefault(one.what.text, [one.line_no, 0])
        seen[1] += one.count
    for text, (line_no, count) in list(texts.items())[:_MOST_WARNINGS]:
        times = f" ({count} times)" if count > 1 else ""
        yield logged(f"{text}{times}", line_no)
    more = len(texts) - _MOST_WARNINGS
    if more > 0:
        yield logged(f"{counted(more, 'more warning')}", None, Severity.NOTE)
