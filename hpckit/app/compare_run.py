"""A run of nccl-tests or of a job against what its machine should give."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpckit.decide.nccl_shortfall import shortfall_findings
from hpckit.model.comm_facts import CommFacts
from hpckit.model.nccl_finding import ExpectedRun, GpuTransport, RunFinding
from hpckit.model.nccl_run import NcclRun
from hpckit.parse.nccl_run import parse_nccl_run

if TYPE_CHECKING:
    from hpckit.model.hardware import NodeTopology


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedRun:
    """What ran, and which link or setting explains what it lacks."""

    run: NcclRun
    findings: tuple[RunFinding, ...]


def compare_run(data: bytes, facts: CommFacts, topology: NodeTopology | None) -> ComparedRun:
    """What the output of a run shows, beside what its machine has. Raises ParseError."""
    run = parse_nccl_run(data.decode(errors="replace"))
    expected = expected_run(run, facts, topology)
    return ComparedRun(run=run, findings=shortfall_findings(run, expected))


def expected_run(run: NcclRun, facts: CommFacts, topology: NodeTopology | None) -> ExpectedRun:
    """What is known of the machine that the run was on; how many nodes there were says the run."""
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
        plugin=facts.plugin,
        gpu_transport=transport,
        is_multi_node=_is_multi_node(run),
    )


def _is_multi_node(run: NcclRun) -> bool | None:
    hosts = {host for test in run.tests for host in test.hosts}
    if hosts:
        return len(hosts) > 1
    if run.log is None or run.log.nodes is None:
        return None
    return run.log.nodes > 1
