"""Whether the result of a run can be used, and whether all its ranks ran the same thing."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

from hpckit.comm.run.log_lines import (
    LoggedSetting,
    NcclLog,
    NicList,
    OfHost,
    SearchedGraph,
    Seen,
    Transport,
)
from hpckit.comm.run.result import NcclRun, NcclTest
from hpckit.core.findings import Evidence, Severity
from hpckit.core.hostlist import named
from hpckit.core.late import regex
from hpckit.core.units import counted, short_bytes
from hpckit.core.values import dataclass
from hpckit.spec.platform import NetPlugin


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpectedRun:
    """What a caller knows of the machine; None is what nobody knows, and no rule then guesses.

    `nics` are the names of the NICs for jobs of a node, () where it has none; `nic_count` how many
    there are where their names are not known. `has_nvlink` is whether
    NVLink joins the GPUs of a node, `has_nvls` whether its switch can add up. `busbw` is the bus
    bandwidth in bytes/s to be expected of each collective, as nccl-tests names it; of those in
    `bounds` it is what the links allow at most, and no model says what is reached. `settings` are
    variables that are set there on purpose; `is_profiled` is whether a file of the provider sets
    more, which nobody here reads.
    """

    nics: tuple[str, ...] | None = None
    nic_count: int | None = None
    plugin: NetPlugin | None = None
    has_nvlink: bool | None = None
    is_multi_node: bool | None = None
    has_nvls: bool | None = None
    busbw: tuple[tuple[str, float], ...] = ()
    bounds: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    is_profiled: bool = False


SOCKET: Final = "Socket"
"""NCCL's name of its network over TCP."""

OWN_NETWORKS: Final = frozenset({"IB", SOCKET})
"""Networks that are no plugin's."""

NVLINK_TYPES: Final = frozenset({"LOC", "NVL", "NVB", "C2C"})
"""NCCL's path types between GPUs that no PCIe is part of. Source: NCCL, src/graph/topo.h."""

RING: Final = 4
"""NCCL_TOPO_PATTERN_RING, src/include/graph.h."""

_Value = TypeVar("_Value", bound=Hashable)


Hosted = TypeVar("Hosted", bound=OfHost)


_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Return items by their key, in the order in which they come."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run beside what was expected of it."""

    run: NcclRun
    expected: ExpectedRun

    @property
    def log(self) -> NcclLog:
        """The log; one without facts where the file has none."""
        return self.run.log or NcclLog(lines=0)

    @property
    def is_multi_node(self) -> bool | None:
        """Whether ranks are on more than one node, as expected, else as the file says."""
        if self.expected.is_multi_node is not None:
            return self.expected.is_multi_node
        nodes = max(self.log.nodes or 0, self.run.test_nodes)
        if nodes:
            return nodes > 1
        over_net = any(one.what.transport is Transport.NET for one in self.log.connections)
        return True if over_net else None

    @property
    def networks(self) -> set[str]:
        """The names of the networks that were used."""
        return {one.what.name for one in self.log.networks}

    @property
    def rings(self) -> list[Seen[SearchedGraph]]:
        """What the search found for rings: by channel."""
        return [one for one in self.log.graphs if one.what.pattern == RING]

    @property
    def is_by_plugin(self) -> bool:
        """Whether a plugin carries the traffic: as the log says, else as expected."""
        if self.networks:
            return bool(self.networks - OWN_NETWORKS)
        return self.expected.plugin not in (None, NetPlugin.NONE)

    @property
    def has_p2p(self) -> bool:
        """Whether some GPUs of a node reach each other, so that their ranks see each other's."""
        return any(one.what.transport is Transport.P2P for one in self.log.connections)

    @property
    def limits_p2p(self) -> bool:
        """Whether somebody set P2P off, or to fewer pairs than NCCL takes by itself.

        That is PXB, or what NVLink joins, which is nearer than any level of PCIe.

        Source: NCCL, src/graph/paths.cc, ncclTopoCheckP2p.
        """
        off = {one.what.value for one, _ in self.settings("NCCL_P2P_DISABLE")} - {"0"}
        levels = {one.what.value.upper() for one, _ in self.settings("NCCL_P2P_LEVEL")}
        fewer = {"LOC", "0"}
        fewer |= set() if self.is_nvlink else {"NVL", "NVB", "C2C", "PIX", "1"}
        return bool(off or levels & fewer)

    @property
    def is_nvlink(self) -> bool | None:
        """Whether NVLink joins the GPUs of a node, as expected, else as NCCL found it."""
        if self.expected.has_nvlink is not None:
            return self.expected.has_nvlink
        types = {one.what.intra_type for one in self.log.graphs}
        if any(one.what.is_available for one in self.log.nvls) or types & {"NVL", "NVB"}:
            return True
        return False if types - NVLINK_TYPES else None

    @property
    def rdma_lists(self) -> list[Seen[NicList]]:
        """The lists of RDMA NICs that are not empty."""
        return [one for one in self.log.nic_lists if one.what.network == "IB" and one.what.nics]

    @property
    def is_omni_path(self) -> bool:
        """Whether all RDMA NICs are Omni-Path's, whose verbs have no GPU Direct."""
        names = {nic.name for one in self.rdma_lists for nic in one.what.nics}
        return bool(names) and all(name.startswith("hfi1_") for name in names)

    @property
    def is_efa(self) -> bool:
        """Whether EFA carries the traffic between nodes.

        Since 1.7.4 the plugin fails without GPU Direct RDMA on instances that it knows to have it.
        Source: aws-ofi-nccl, src/platform-aws.cpp, gdr_required.
        """
        return any(one.what.provider.partition(";")[0] == "efa" for one in self.log.providers)

    def settings(self, *names: str) -> Iterator[tuple[Seen[LoggedSetting], str]]:
        """Variables by name that somebody set, each value once, and a word for where."""
        listed = (
            Seen(LoggedSetting(host=None, name=name, value=value), test.line_no)
            for test in self.run.tests
            for name, value in test.environment
        )
        by_plugin = {(one.what.name, one.what.value.lower()) for one in self.log.plugin_settings}
        wanted = (
            one
            for one in (*self.log.settings, *listed)
            if one.what.name in names and (one.what.name, one.what.value.lower()) not in by_plugin
        )
        for each in grouped(wanted, lambda one: (one.what.name, one.what.value)).values():
            yield each[0], self.where(each)

    def unwanted(self, *names: str) -> Iterator[tuple[Seen[LoggedSetting], str]]:
        """The same without the values that are set there on purpose."""
        for one, where in self.settings(*names):
            if (one.what.name, one.what.value) not in self.expected.settings:
                yield one, where

    def where(self, seen: Iterable[Seen[Hosted]]) -> str:
        """Return the hosts that said something, for a sentence: nothing where it is all of them."""
        hosts = {one.what.host for one in seen if one.what.host is not None}
        return "" if not hosts or hosts >= set(self.log.hosts) else f" on {named(hosts)}"

    def told(
        self,
        because: str,
        seen: Sequence[Seen[Hosted]],
        more: str = "",
        severity: Severity | None = None,
    ) -> tuple[Evidence, ...]:
        """Return what hosts said, at its first line; nothing where none of them did."""
        evidence = logged(f"{because}{self.where(seen)}{more}", first_line(seen), severity)
        return (evidence,) if seen else ()


def logged(because: str, line_no: int | None, severity: Severity | None = None) -> Evidence:
    """Return what a run's file shows in a line; a run has no other subject than itself."""
    return Evidence("", because, severity=severity, line_no=line_no)


def first_line(seen: Sequence[Seen[_Value]]) -> int | None:
    """The first line that shows one of them."""
    return min((one.line_no for one in seen), default=None)


RISING_FROM: Final = 1.1
"""More bus bandwidth at the largest size than at half of it by this factor is no plateau."""

LEAST_OF_PREDICTED: Final = 0.85
"""NCCL's model of bandwidth is within 15 % of what was published of machines that it covers."""

PLATEAU_FROM_BYTES: Final = 2**30
"""From 1 GiB on published figures are within 15 % of the plateau; 512 MiB are 19 % below it.

Source: stas00, ml-engineering, network benchmarks: AWS P6, 8 B200 on one node and on 4.
"""

_PROFILED: Final = "; the settings of the provider's profile are unknown"
_LEAST_TOLD: Final = 0.05e9
_MOST_WARNINGS: Final = 5
_HARMLESS: Final = regex(
    r"\[Service thread\] (?:Accept failed|Could not receive type)"
    r"|\[Proxy Service \d+\] Failed to execute operation Close|MSCCL\+\+: Cannot enable"
    r"|(?:Call to |\w{1,40}: )(?:connect|accept) (?:to \S{1,80} )?returned (?!.*exceeded)",
    re.ASCII,
)
"""What follows the end of a process, good or bad; a feature that is not there; one more attempt."""
_ATTEMPT: Final = regex(r"(?<=, retrying) (?:\(|after ).*", re.ASCII)
"""Which attempt it is: all are one line."""


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
        yield from _rising(test)


def _rising(test: NcclTest) -> Iterator[Evidence]:
    rows = sorted((row for row in test.rows if row.size_bytes), key=lambda row: row.size_bytes)
    smaller = [row for row in rows if 2 * row.size_bytes <= rows[-1].size_bytes]
    if not smaller:
        return
    before, last = smaller[-1], rows[-1]
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
                f"{_name(test)}: {reached / 1e9:.4g} GB/s of the predicted {most / 1e9:.4g} GB/s"
                f" ({100 * reached / most:.0f} %){excuse}",
                test.line_no,
                Severity.NOTE if excuse else None,
            )


def _excuse(test: NcclTest, expected: ExpectedRun) -> str:
    """Why a healthy run may be so far below; nothing where it is not."""
    if test.collective in expected.bounds:
        return "; the prediction is only an upper bound, set by the links"
    largest = max(row.size_bytes for row in test.rows)
    if largest < PLATEAU_FROM_BYTES:
        return f"; the prediction is for large messages, and {short_bytes(largest)} is small"
    if any(_rising(test)):
        return "; larger messages may reach more"
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
    groups = grouped(
        facts.log.versions, lambda one: f"{one.what.library.upper()} {one.what.version}"
    )
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
        text = _ATTEMPT.sub("", one.what.text)
        seen = texts.setdefault(text, [one.line_no, 0])
        seen[1] += one.count
    graver = sorted(texts.items(), key=lambda item: _HARMLESS.match(item[0]) is not None)
    for text, (line_no, count) in graver[:_MOST_WARNINGS]:
        times = f" ({count} times)" if count > 1 else ""
        severity = Severity.NOTE if _HARMLESS.match(text) else None
        yield logged(f"{text}{times}", line_no, severity)
    more = len(texts) - _MOST_WARNINGS
    if more > 0:
        yield logged(f"{counted(more, 'more warning')}", None, Severity.NOTE)
