"""A run of nccl-tests or of a job against what its machine should give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from hpckit.app.predicted import Allocation, predicted
from hpckit.core.findings import SourcedFinding
from hpckit.decide.busbw_platform import architecture_of
from hpckit.decide.nccl_shortfall import shortfall_findings
from hpckit.model.busbw import Algorithm, BusbwPrediction
from hpckit.model.comm import NcclVersion
from hpckit.model.comm_facts import CommFacts
from hpckit.model.nccl_finding import ExpectedRun, GpuTransport
from hpckit.model.nccl_run import NcclRun
from hpckit.model.platform import Platform
from hpckit.model.words import counted
from hpckit.parse.nccl_run import parse_nccl_run

if TYPE_CHECKING:
    from hpckit.model.hardware import NodeTopology

_BY_SWITCH: Final = (Algorithm.NVLS, Algorithm.NVLS_TREE)


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
    ran_with = tuple(_logged(run)) if _tells_settings(run) else settings
    other = _other_machine(run, platform, topology)
    why_not = other or _why_not_one(run)
    free = () if why_not else _predicted(run, facts, platform, topology)
    all_ways = () if why_not else _predicted(run, facts, platform, topology, ran_with)
    figures = {
        str(one.collective): one.busbw_bytes_per_s
        for one in all_ways
        if one.is_best and one.busbw_bytes_per_s is not None
    }
    has_nvls = any(one.algorithm in _BY_SWITCH for one in free) if figures else None
    known = ExpectedRun() if other else expected_run(facts, platform, topology)
    expected = replace(
        known,
        is_multi_node=_is_multi_node(run),
        busbw=tuple(figures.items()),
        bounds=tuple(str(one.collective) for one in all_ways if one.is_bound),
        has_nvls=has_nvls,
        settings=settings,
        is_profiled=platform.profile is not None,
    )
    findings = shortfall_findings(run, expected)
    is_answered = figures or not run.tests
    unpredicted = _others(run) if is_answered else why_not or _unpredicted(run, all_ways)
    return ComparedRun(run=run, findings=findings, predicted=figures, unpredicted=unpredicted)


def _other_machine(run: NcclRun, platform: Platform, topology: NodeTopology | None) -> str | None:
    """Why nothing that is known of the machine is of the run: its GPUs are others."""
    known = platform.gpu
    if topology is not None:
        known = next((gpu.name for gpu in topology.gpus if not gpu.is_hidden), None)
    ran = next((rank.gpu for test in run.tests for rank in test.ranks), None)
    told = {architecture_of(ran), architecture_of(known)}
    if None in told or len(told) == 1:
        return None
    return f"it ran on {ran}, and what is known is of {known}"


def _why_not_one(run: NcclRun) -> str | None:
    """Why its ranks did not run as one, so that no figure is of all of them."""
    copies = max((test.copies for test in run.alike), default=1)
    if copies > 1:
        return f"{copies} copies of one run wrote one table: compare a file of each"
    if any(test.groups > 1 for test in run.alike):
        return "several groups ran side by side (NCCL_TESTS_SPLIT)"
    return None


def _others(run: NcclRun) -> str | None:
    """That tests ran on other nodes or ranks than what was predicted is of."""
    others = len(run.tests) - len(run.alike)
    if not others:
        return None
    return f"{counted(others, 'test')} on other nodes or ranks than the first: a file for each"


def _unpredicted(run: NcclRun, all_ways: tuple[BusbwPrediction, ...]) -> str:
    if all_ways:
        return all_ways[0].because
    if _allocation(run) is None:
        return "the output does not tell on how many nodes and GPUs it ran"
    return "nothing tells on what machine it ran; --topology or --site does"


def _tells_settings(run: NcclRun) -> bool:
    """Whether a run names its variables: NCCL does where it says which network it uses."""
    log = run.log
    is_told = log is not None and bool(log.settings or log.networks)
    return is_told or any(test.environment for test in run.tests)


def _logged(run: NcclRun) -> Iterator[tuple[str, str]]:
    """The variables that the run names, in its log and in the JSON of nccl-tests."""
    for one in run.log.settings if run.log else ():
        yield one.what.name, one.what.value
    for test in run.tests:
        yield from test.environment


def _predicted(
    run: NcclRun,
    facts: CommFacts,
    platform: Platform,
    topology: NodeTopology | None,
    settings: tuple[tuple[str, str], ...] = (),
) -> tuple[BusbwPrediction, ...]:
    allocation = _allocation(run)
    if allocation is None:
        return ()
    return predicted(allocation, platform, topology, _release(run) or facts.version, settings)


def _release(run: NcclRun) -> NcclVersion | None:
    """The release that ran, of most lines where they differ; what was told may be another."""
    counts: Counter[NcclVersion] = Counter()
    for one in () if run.log is None else run.log.versions:
        counts[one.what.version] += one.count
    if counts:
        return counts.most_common(1)[0][0]
    return next((test.library for test in run.tests if test.library), None)


def _allocation(run: NcclRun) -> Allocation | None:
    """The nodes and GPUs of the first test that tells its devices, else those of NCCL's log."""
    told = [(test.nodes, test.rank_count) for test in run.tests if test.hosts]
    if run.log is not None and run.log.nodes and run.log.ranks:
        told.append((run.log.nodes, run.log.ranks))
    for nodes, ranks in told:
        return Allocation(nodes=nodes, gpus_per_node=ranks // nodes or 1)
    return None


def expected_run(
    facts: CommFacts, platform: Platform, topology: NodeTopology | None
) -> ExpectedRun:
    """What is known of the machine that a run was on; how many nodes there were says the run."""
    from hpckit.decide.comm_seen import job_nics  # noqa: PLC0415  few calls compare
    from hpckit.model.hardware import LinkKind  # noqa: PLC0415

    nics = None if topology is None else job_nics(topology)
    if not nics and facts.hcas:
        nics = tuple(one.partition(":")[0] for one in facts.hcas)
    transport = None
    if topology is not None and any(one.kind is LinkKind.NVLINK for one in topology.gpu_links):
        transport = GpuTransport.NVLINK
    return ExpectedRun(
        nics=nics or None,
        nic_count=platform.nics,
        plugin=facts.plugin,
        gpu_transport=transport,
    )


def _is_multi_node(run: NcclRun) -> bool | None:
    nodes = max((test.nodes for test in run.tests), default=0)
    if nodes:
        return nodes > 1
    if run.log is None or run.log.nodes is None:
        return None
    return run.log.nodes > 1
