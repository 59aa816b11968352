"""The node of a job as a picture: its ranks on its GPUs, how useful each was, and what was odd."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from hpckit.account.energy import share_sum
from hpckit.account.finding import ReportFinding, Subject
from hpckit.account.page.figures import clean, job_title, percent, transferred
from hpckit.account.values import GpuAccount, JobReport, NodeAccount, Share, ranks_by_gpu
from hpckit.core.errors import HpckitError
from hpckit.core.findings import Finding
from hpckit.core.hostlist import fold_hosts, natural_order
from hpckit.core.index_list import expand_indices
from hpckit.core.late import regex
from hpckit.node.picture.job import GpuUse, JobOnNode, NicTraffic
from hpckit.node.picture.picture import node_svg
from hpckit.node.rules.rule import gpu_name
from hpckit.node.rules.rules import node_findings
from hpckit.node.topology import Gpu, GpuUuid, NodeTopology, Source

_SLOW: Final = frozenset({"straggler", "thermal-throttling", "power-brake"})
"""The rules about a GPU that holds up its peers, or whose clock is held down."""
_GPUS: Final = regex(r"GPU([0-9][0-9,-]*)")


def job_nodes(report: JobReport) -> tuple[str, ...]:
    """Return the nodes of a job, in natural order; the one with the gravest finding first."""
    nodes = {gpu.node for gpu in report.gpus} | {node.node for node in report.nodes}
    graves = _graves(report)
    ordered = sorted(nodes, key=natural_order)
    first = max(ordered, key=lambda node: graves.get(node, -1), default=None)
    return tuple(node for node in (first, *(node for node in ordered if node != first)) if node)


def _graves(report: JobReport) -> dict[str, int]:
    """Return the nodes with a finding about a GPU, each with the weight of the gravest."""
    graves: dict[str, int] = {}
    for finding in report.findings:
        weight = finding.severity.rank + (finding.rule in _SLOW)
        for node in finding.about.nodes if _GPUS.match(finding.about.what) else ():
            graves[node] = max(graves.get(node, -1), weight)
    return graves


def job_pictures(
    report: JobReport, topologies: Mapping[str, NodeTopology], most: int
) -> Iterator[tuple[str, str]]:
    """Yield the nodes with findings about their GPUs, else one, each with its picture."""
    nodes, graves = job_nodes(report), _graves(report)
    for node in ([one for one in nodes if one in graves] or nodes[:1])[:most]:
        yield node, node_of_job_svg(report, topologies, node)


def node_of_job_svg(
    report: JobReport, topologies: Mapping[str, NodeTopology], node: str | None = None
) -> str:
    """Return a node of the job as an SVG file in itself: by default the one of the worst finding.

    A node that is not among the topologies is a row of the GPUs that were measured. Raises
    HpckitError for a node that the job had not, and where nothing was measured on any.
    """
    nodes = job_nodes(report) or tuple(topologies)
    if not nodes:
        raise HpckitError(
            "no node of this job was measured", hint="it ran without the sampler (--no-measure)?"
        )
    chosen = nodes[0] if node is None else node
    if chosen not in nodes:
        hint = f"its nodes: {fold_hosts(nodes)}"
        raise HpckitError(f"{clean(chosen)} is not a node of this job", hint=hint)
    restart = max((one.restart for one in report.gpus if one.node == chosen), default=0)
    gpus = [one for one in report.gpus if (one.node, one.restart) == (chosen, restart)]
    topology = topologies.get(chosen)
    boxes = {} if topology is None else _boxes(topology, gpus)
    found = [] if topology is None else node_findings(topology)
    if topology is None or (gpus and not boxes):
        topology, found = _of_samples(gpus), []
        boxes = _boxes(topology, gpus)
    about = [one for one in _on_node(report, chosen) if one.about.restart == restart]
    findings = [*_on_boxes(about, boxes), *found]
    return node_svg(topology, findings, _job(report, topology, chosen, gpus, boxes))


_Boxes = Mapping[int, int]
"""The index of a GPU's box by that of its account."""


def _boxes(topology: NodeTopology, gpus: Sequence[GpuAccount]) -> _Boxes:
    by_uuid = {gpu.uuid: gpu.index for gpu in topology.gpus if gpu.uuid is not None}
    there = {gpu.index for gpu in topology.gpus}
    boxes = {
        gpu.index: by_uuid.get(GpuUuid(gpu.uuid), gpu.index)
        for gpu in gpus
        if gpu.index is not None
    }
    return {index: box for index, box in boxes.items() if box in there}


def _of_samples(gpus: Sequence[GpuAccount]) -> NodeTopology:
    names = {gpu.index: gpu.name for gpu in gpus if gpu.index is not None}
    return NodeTopology(
        source=Source(format=""),
        gpus=tuple(Gpu(index=index, name=names[index]) for index in sorted(names)),
    )


def _on_node(report: JobReport, node: str) -> Iterator[ReportFinding]:
    """The findings about GPUs of a node."""
    for one in report.findings:
        if node in one.about.nodes and _GPUS.match(one.about.what):
            yield one


def _indices(about: Subject) -> tuple[int, ...]:
    named = _GPUS.match(about.what)
    return () if named is None else expand_indices(named[1])


def _on_boxes(findings: Sequence[ReportFinding], boxes: _Boxes) -> Iterator[Finding]:
    for one in findings:
        for index in _indices(one.about):
            if index in boxes:
                yield Finding(
                    rule=one.rule,
                    severity=one.severity,
                    subject=gpu_name(boxes[index]),
                    because=one.because,
                    remedy=one.remedy,
                )


def _job(
    report: JobReport,
    topology: NodeTopology,
    node: str,
    gpus: Sequence[GpuAccount],
    boxes: _Boxes,
) -> JobOnNode:
    spent = share_sum([gpu.waste for gpu in gpus])
    useful = f" · {percent(_useful_frac(spent))} useful" if spent.is_measured else ""
    slow = {
        index
        for one in _on_node(report, node)
        if one.rule in _SLOW
        for index in _indices(one.about)
    }
    ranks = ranks_by_gpu(report)
    uses = {}
    for index, box in boxes.items():
        its = [gpu for gpu in gpus if gpu.index == index]  # instances of MIG share an index
        uses[box] = GpuUse(
            ranks=tuple(sorted({rank for gpu in its for rank in ranks.get(gpu.place, ())})),
            useful_frac=_useful_frac(share_sum([gpu.waste for gpu in its])),
            is_slow=index in slow,
        )
    return JobOnNode(
        title=f"{job_title(report)} on {clean(node)}{useful}",
        gpus=uses,
        nics=_traffic(topology, [one for one in report.nodes if one.node == node]),
        is_synthetic=report.job.synthetic,
    )


def _useful_frac(spent: Share) -> float | None:
    return spent.useful_gpu_s / spent.total_gpu_s if spent.is_measured else None


def _traffic(topology: NodeTopology, runs: Sequence[NodeAccount]) -> dict[str, NicTraffic]:
    """What the NICs sent and received in the last run, over all ports of each."""
    sums: dict[str, dict[str, int]] = {}
    for name, size_bytes in runs[-1].network_bytes.items() if runs else ():
        device, _, way = name.rpartition(".")
        both = sums.setdefault(device.partition(".")[0], {})
        both[way] = both.get(way, 0) + size_bytes
    most = max((sum(both.values()) for both in sums.values()), default=0)
    found = {}
    for nic in topology.nics:
        both = sums.get(re.sub(r"\W", "_", nic.name), {})
        if both and most:
            sent, received = (transferred(both.get(way)) for way in ("tx_bytes", "rx_bytes"))
            number, _, unit = sent.rpartition(" ")
            shown = number if received.endswith(f" {unit}") else sent
            text = f"↑ {shown} ↓ {received}"
            found[nic.name] = NicTraffic(text=text, load_frac=sum(both.values()) / most)
    return found
