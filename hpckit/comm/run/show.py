"""A run of nccl-tests or of a job against what its machine should give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from hpckit.comm.bandwidth.predict import BY_SWITCH, predicted
from hpckit.comm.bandwidth.values import BusbwPrediction
from hpckit.comm.facts import CommFacts
from hpckit.comm.run.log_lines import NcclLog, NicList, PluginEvent, Transport
from hpckit.comm.run.nccl_tests import parse_nccl_run
from hpckit.comm.run.result import NcclRun, NcclTest
from hpckit.comm.run.rules import shortfall_findings
from hpckit.comm.run.rules_result import RING, SOCKET, ExpectedRun
from hpckit.comm.seen import job_nics
from hpckit.core.finding_lines import finding_lines, labelled, more_lines, next_lines, words_of
from hpckit.core.findings import Severity, SourcedFinding
from hpckit.core.hostlist import natural_order
from hpckit.core.text import Line, Style, names_shown, wrapped
from hpckit.core.units import counted, short_bytes
from hpckit.core.values import dataclass
from hpckit.node.topology import LinkKind, NodeTopology
from hpckit.spec.platform import NcclVersion, Platform, architecture_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """What ran, which link or setting explains what it lacks, and bytes/s that were predicted.

    `unpredicted` is why nothing was, or not of all tests, where a test measured something.
    """

    run: NcclRun
    findings: tuple[SourcedFinding, ...]
    predicted: Mapping[str, float]
    unpredicted: str | None = None


def compare_run(
    data: bytes,
    facts: CommFacts,
    platform: Platform,
    topology: NodeTopology | None,
    settings: tuple[tuple[str, str], ...] = (),
) -> ComparedRun:
    """What the output of a run shows, beside what its machine has. Raises ParseError.

    What was predicted is there where a machine is known, and the run tells its GPUs; algorithms
    that the run's own variables turn off do not count. `settings` are the variables that hpckit
    itself sets there.
    """
    run = parse_nccl_run(data.decode(errors="replace"))
    ran_with = _settings_of(run, settings)
    other = _other_machine(run, platform, topology)
    why_not = other or _why_not_one(run)
    free, all_ways = (
        () if why_not else _predicted(run, facts, platform, topology, set_)
        for set_ in ((), ran_with)
    )
    figures = _figures(all_ways)
    nodes = run.test_nodes or (run.log.nodes if run.log else None)
    expected = replace(
        ExpectedRun() if other else _of_machine(facts, platform, topology),
        is_multi_node=None if nodes is None else nodes > 1,
        busbw=tuple(figures.items()),
        bounds=tuple(str(one.collective) for one in all_ways if one.is_bound),
        has_nvls=any(one.algorithm in BY_SWITCH for one in free) if figures else None,
        settings=settings,
        is_profiled=platform.profile is not None,
    )
    is_answered = figures or not run.tests
    return ComparedRun(
        run=run,
        findings=shortfall_findings(run, expected),
        predicted=figures,
        unpredicted=_others(run) if is_answered else why_not or _unpredicted(run, all_ways),
    )


def _figures(all_ways: Iterable[BusbwPrediction]) -> dict[str, float]:
    best = ((str(one.collective), one.busbw_bytes_per_s) for one in all_ways if one.is_best)
    return {collective: figure for collective, figure in best if figure is not None}


def _of_machine(facts: CommFacts, platform: Platform, topology: NodeTopology | None) -> ExpectedRun:
    """What is known of the machine that a run was on; how many nodes there were says the run."""
    nics = None if topology is None else job_nics(topology)
    links = () if topology is None else topology.gpu_links
    has_nvlink = any(link.kind is LinkKind.NVLINK for link in links)
    return ExpectedRun(
        nics=nics or tuple(name.partition(":")[0] for name in facts.hcas) or None,
        nic_count=platform.nics,
        plugin=facts.plugin,
        has_nvlink=has_nvlink or None,
    )


def _other_machine(run: NcclRun, platform: Platform, topology: NodeTopology | None) -> str | None:
    """Why nothing that is known of the machine is of the run: its GPUs are others."""
    known = platform.gpu
    if topology is not None:
        known = next((gpu.name for gpu in topology.gpus if not gpu.is_hidden), None)
    ran = next((rank.gpu for test in run.tests for rank in test.ranks), None)
    told = {architecture_of(ran), architecture_of(known)}
    if None in told or len(told) == 1:
        return None
    return f"it ran on {ran}, but the machine given here has {known}"


def _why_not_one(run: NcclRun) -> str | None:
    """Why its ranks did not run as one, so that no figure is of all of them."""
    copies = max((test.copies for test in run.alike), default=1)
    if copies > 1:
        return f"{copies} copies of one run wrote into one table: compare one file per copy"
    if any(test.groups > 1 for test in run.alike):
        return "several groups ran side by side (NCCL_TESTS_SPLIT)"
    return None


def _others(run: NcclRun) -> str | None:
    """That tests ran on other nodes or ranks than what was predicted is of."""
    others = len(run.tests) - len(run.alike)
    if not others:
        return None
    return (
        f"{counted(others, 'test')} on other nodes or ranks than the first: use one file per test"
    )


def _unpredicted(run: NcclRun, all_ways: tuple[BusbwPrediction, ...]) -> str:
    if all_ways:
        return all_ways[0].because
    if not _nodes_and_ranks(run)[0]:
        return "the output does not show how many nodes and GPUs it ran on"
    return "the machine is unknown; give --topology or --site"


def _settings_of(run: NcclRun, known: tuple[tuple[str, str], ...]) -> tuple[tuple[str, str], ...]:
    """The variables that a run names: NCCL does where it says its network; else those known."""
    log = run.log or NcclLog(lines=0)
    said = [(one.what.name, one.what.value) for one in log.settings]
    said += [pair for test in run.tests for pair in test.environment]
    return tuple(said) if said or log.networks else known


def _predicted(
    run: NcclRun,
    facts: CommFacts,
    platform: Platform,
    topology: NodeTopology | None,
    settings: tuple[tuple[str, str], ...],
) -> tuple[BusbwPrediction, ...]:
    nodes, ranks = _nodes_and_ranks(run)
    if not nodes:
        return ()
    version = _release(run) or facts.version
    return predicted(
        platform, topology, version, settings, nodes=nodes, gpus_per_node=ranks // nodes or 1
    )


def _release(run: NcclRun) -> NcclVersion | None:
    """The release that ran, of most lines where they differ; what was told may be another."""
    counts: Counter[NcclVersion] = Counter()
    for one in () if run.log is None else run.log.versions:
        counts[one.what.version] += one.count
    if counts:
        return counts.most_common(1)[0][0]
    return next((test.library for test in run.tests if test.library), None)


def _nodes_and_ranks(run: NcclRun) -> tuple[int, int]:
    """Those of the first test that tells its devices, else of NCCL's log; 0 where none does."""
    told = [(test.nodes, test.rank_count) for test in run.tests if test.hosts]
    if run.log is not None and run.log.nodes and run.log.ranks:
        told.append((run.log.nodes, run.log.ranks))
    return told[0] if told else (0, 0)


# --- What a run of NCCL really used, in words: network, NICs, links, channels, algorithms.

SUBSYSTEMS: Final = "INIT,ENV,NET,GRAPH,TUNING"
"""What NCCL_DEBUG_SUBSYS needs to hold for all that hpckit reads."""

_GBIT_BYTES: Final = 1e9 / 8


def used_rows(log: NcclLog) -> Iterator[tuple[str, str]]:
    """(label, words) of what a log tells; a last one for what it does not."""
    meeting = {one.what.interface for one in log.bootstraps}
    rows = (
        ("network", _network(log)),
        ("NICs", _nics(log)),
        ("plugins", _plugins(log)),
        ("GPUs", _gpus(log)),
        ("channels", _channels(log)),
        ("algorithm", _algorithms(log)),
        ("bootstrap", ", ".join(sorted(meeting, key=natural_order))),
    )
    yield from ((label, words) for label, words in rows if words)
    askable = ("network", "GPUs", "channels", "algorithm")
    lacking = [label for label, words in rows if not words and label in askable]
    if lacking:
        yield (
            "unknown",
            f"{', '.join(lacking)}: not in this log;"
            f" NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS={SUBSYSTEMS} shows them",
        )


def _network(log: NcclLog) -> str:
    names = Counter[str]()
    for one in log.networks:
        names[one.what.name] += one.count
    words = [name for name, _ in names.most_common()]
    words += [f"libfabric {one.what.provider}" for one in log.providers]
    direct = _direct(log)
    return " · ".join([*dict.fromkeys(words), *([direct] if direct and words else [])])


def _direct(log: NcclLog) -> str:
    """GPU Direct RDMA as connections have it, else as NICs allow."""
    received = [
        one.what.is_gdr
        for one in log.connections
        if one.what.transport is Transport.NET and not one.what.is_send and one.what.how != SOCKET
    ]
    allowed = [one.what.is_enabled for one in log.gpu_direct if one.what.gpu is None]
    states = set(received or allowed)
    words = {(True,): "on", (False,): "off", (False, True): "partly on"}
    return f"GPU Direct RDMA {words[tuple(sorted(states))]}" if states else ""


def _nics(log: NcclLog) -> str:
    """The lists of NICs by the hosts that have them; one that all have is told once."""
    hosts: dict[tuple[str, ...], list[str]] = {}
    for one in log.nic_lists:
        if one.what.nics or one.what.network == "IB":
            hosts.setdefault(_list_words(one.what), []).append(one.what.host or "")
    used = {one.what.name for one in log.networks}
    if len(hosts) > 1 and SOCKET not in used:
        hosts = {words: each for words, each in hosts.items() if words[0] != SOCKET}
    rates = {one.what.rate_bytes_per_s for one in log.virtual_nics}
    rate = f" at {max(rates) / _GBIT_BYTES:g} Gb/s" if len(rates) == 1 else ""
    is_one = len(hosts) == 1
    parts = []
    for words, each in hosts.items():
        where = "" if is_one or len(set(each)) == len(log.hosts) else f" on {_shown(each)}"
        parts.append(f"{' '.join(words[1:])}{where}")
    return " · ".join(parts) + rate if parts else ""


def _list_words(one: NicList) -> tuple[str, ...]:
    if not one.nics:
        return (one.network, "NET/IB found none")
    links = sorted({nic.link for nic in one.nics if nic.link})
    link = f" ({', '.join(links)})" if links else ""
    names = [nic.name for nic in one.nics]
    return (one.network, f"{len(names)}: {', '.join(names)}{link}")


def _plugins(log: NcclLog) -> str:
    loaded = {
        f"{one.what.kind} {one.what.name}": None
        for one in log.plugins
        if one.what.event is PluginEvent.LOADED and one.what.name
    }
    return ", ".join(loaded)


def _gpus(log: NcclLog) -> str:
    local = Counter[str]()
    for one in log.connections:
        if one.what.transport in (Transport.P2P, Transport.SHM):
            local[f"{one.what.transport.value}/{one.what.how}"] += one.count
    total = local.total()
    words = [
        how if count == total else f"{how} ({100 * count / total:.0f} %)"
        for how, count in local.most_common(3)
    ]
    types = {one.what.intra_type for one in log.graphs if one.what.pattern == RING}
    if types:
        words.append(f"rings over {', '.join(sorted(types))}")
    if log.nvls:
        has = all(one.what.is_available for one in log.nvls)
        words.append("NVLS available" if has else "NVLS not on all GPUs")
    if any(one.what.is_mnnvl for one in log.shares):
        words.append("NVLink between nodes (MNNVL)")
    return " · ".join(words)


def _channels(log: NcclLog) -> str:
    counts = {
        "{}": {one.what.collective for one in log.channels if one.what.collective > 0},
        "{} for NVLS": {one.what.nvls for one in log.channels if one.what.nvls},
        "search found {}": {one.what.channels for one in log.graphs if one.what.pattern == RING},
    }
    return " · ".join(words.format(_range(found)) for words, found in counts.items() if found)


def _range(values: set[int]) -> str:
    least, most = min(values), max(values)
    return str(least) if least == most else f"{least} to {most}"


def _algorithms(log: NcclLog) -> str:
    groups: dict[str, dict[str, None]] = {}
    for one in log.algorithms:
        name = one.what.collective or "all"
        groups.setdefault(name, {})[f"{one.what.algorithm} {one.what.protocol}"] = None
    return " · ".join(f"{name}: {', '.join(each)}" for name, each in groups.items())


def _shown(hosts: Iterable[str]) -> str:
    names = sorted({host for host in hosts if host}, key=natural_order)
    return names_shown(names) if names else counted(1, "host")


# --- A run of NCCL for people: what was measured beside what was predicted, what was used, and why.

_GB: Final = 1e9
_MOST_FINDINGS: Final = 12


def nccl_run_lines(compared: ComparedRun, *, width: int) -> list[Line]:
    """The screen in lines of at most `width` columns."""
    run, findings = compared.run, compared.findings
    title = wrapped(tuple(_title(run, findings)), width, further="  ", between=" · ")
    lines = [Line(text=text, style=Style.TITLE) for text in title]
    for test in run.tests:
        wanted = compared.predicted.get(test.collective or "") if test in run.alike else None
        lines += _row("measured", _measured(test, wanted), width)
    if compared.unpredicted:
        lines += _row("predicted", f"unknown: {compared.unpredicted}", width, Style.FAINT)
    for label, words in () if run.log is None else used_rows(run.log):
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


def _row(label: str, words: str, width: int, style: Style = Style.PLAIN) -> list[Line]:
    """A label may be as wide as the gap; it then stands with one blank more."""
    shown = label if len(label) < len("findings ") else f"{label} "
    return labelled(shown, words_of(words), width, style)


def _title(run: NcclRun, findings: Sequence[SourcedFinding]) -> Iterator[str]:
    """How many findings, then what ran."""
    grave = [one for one in findings if one.severity is not Severity.NOTE]
    notes = len(findings) - len(grave)
    yield counted(len(grave), "finding") if grave else "no findings"
    if notes:
        yield counted(notes, "note")
    ranks = (run.log.ranks if run.log else None) or max(
        (test.rank_count for test in run.tests), default=0
    )
    nodes = (run.log.nodes if run.log else None) or run.test_nodes
    if ranks:
        yield counted(ranks, "rank") + (f" on {counted(nodes, 'node')}" if nodes else "")
    releases = [f"NCCL {test.library}" for test in run.tests if test.library]
    if run.log:
        releases = [f"{one.what.library.upper()} {one.what.text}" for one in run.log.versions]
    yield from dict.fromkeys(releases)


def _measured(test: NcclTest, wanted: float | None) -> str:
    name = test.collective or test.program or "unnamed test:"
    plateau = test.plateau_bytes_per_s
    if plateau is None:
        return f"{name.removesuffix(':')}: no bandwidth"
    most = max(row.size_bytes for row in test.rows)
    words = f"{name} {plateau / _GB:.4g} GB/s bus bandwidth, up to {short_bytes(most)}"
    if not wanted:
        return words
    share = 100 * plateau / wanted
    return f"{words} · {share:.0f} % of the predicted {wanted / _GB:.4g} GB/s"


def _unread(run: NcclRun, width: int) -> list[Line]:
    parts = []
    rows = sum(test.unread for test in run.tests)
    if rows:
        parts.append(counted(rows, "incomplete table row"))
    if run.log is not None and run.log.unread_lines:
        count = counted(run.log.unread_lines, "NCCL line")
        parts.append(f"{count} of unknown form, the first at line {run.log.unread[0].line_no}")
    if run.log is not None and run.log.cut_lines:
        parts.append(f"{counted(run.log.cut_lines, 'line')} too long, cut")
    return _row("not read", "; ".join(parts), width, Style.FAINT) if parts else []


def _next(run: NcclRun, findings: Sequence[SourcedFinding]) -> Iterator[str]:
    if run.log is None or not run.log.networks:
        yield f"NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS={SUBSYSTEMS} COMMAND"
    if not run.tests:
        yield "all_reduce_perf -b 8M -e 8G -f 2"
    if any(one.severity is not Severity.NOTE for one in findings):
        yield "hpckit inspect"
