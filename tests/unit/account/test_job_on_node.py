"""The node of a job as a picture: who ran where, how usefully, and what was odd."""

from __future__ import annotations

from typing import Any
from xml.etree.ElementTree import Element

import pytest
from defusedxml.ElementTree import fromstring
from msgspec.structs import replace

from hpckit.account.finding import Subject, finding, said
from hpckit.account.page.job_on_node import job_nodes, node_of_job_svg
from hpckit.account.values import JobReport, Share
from hpckit.core.errors import HpckitError
from hpckit.core.findings import Severity
from hpckit.node.topology import NodeTopology
from tests.fakes import measured_jobs as jobs
from tests.fakes.machines import dgx_h100
from tests.svg_boxes import SVG, boxes, faint_texts

USEFUL = (1.0, 0.9, 0.0, 0.59)
TRAFFIC = {"mlx5_0.1.tx_bytes": 4_200_000_000_000, "mlx5_0.1.rx_bytes": 3_600_000_000_000}
BEHIND = "16 % behind its peers: slowed by heat"


def report(**fields: Any) -> JobReport:
    """A job of GPUs 0-3 of n1, a rank on each; GPU1 was hot, and GPU2 had no process."""
    gpus = [
        jobs.gpu("n1", at, waste=Share(useful_gpu_s=3600 * part, idle_gpu_s=3600 * (1 - part)))
        for at, part in enumerate(USEFUL)
    ]
    found = finding(
        "straggler", Severity.WARNING, Subject(what="GPU1", nodes=("n1",)), said(BEHIND), "cool it"
    )
    made = jobs.report(
        gpus=gpus,
        ranks=tuple(jobs.rank(at, "n1", gpus=(gpu.uuid,)) for at, gpu in enumerate(gpus)),
        nodes=(jobs.node("n1", network_bytes=TRAFFIC),),
        findings=(found,),
    )
    return replace(made, job=replace(made.job, name="train"), **fields)


def drawn(made: JobReport, topology: NodeTopology | None = None, **chosen: str) -> Element:
    """The picture of n1, of which the job kept this topology."""
    kept = {} if topology is None else {"n1": topology}
    root: Element = fromstring(node_of_job_svg(made, kept, **chosen))
    return root


def texts(root: Element) -> list[str]:
    """All that is written."""
    return [text.text or "" for text in root.iter(f"{SVG}text")]


@pytest.mark.parametrize("topology", [None, dgx_h100()], ids=["samples", "topology"])
def test_a_gpu_has_its_rank_and_useful_share(topology: NodeTopology | None) -> None:
    """Each box of the job holds both in words, and its fill is by the share."""
    root = drawn(report(), topology)
    found = boxes(root, "gpu")[:4]
    assert [box.words() for box in found] == [
        "GPU0 rank 0 · 100 %",
        "GPU1 rank 1 · 90 %",
        "GPU2 rank 2 · 0 %",
        "GPU3 rank 3 · 59 %",
    ]
    groups = [group for group in root.iter(f"{SVG}g") if group.get("class") == "gpu"]
    fills = [group.findall(f"{SVG}rect")[0].get("fill") for group in groups][:4]
    assert fills[0] == fills[1]
    assert len(set(fills)) == 3
    assert "train 4242 on n1 · 62 % useful" in texts(root)
    assert faint_texts(root) == []


@pytest.mark.parametrize("topology", [None, dgx_h100()], ids=["samples", "topology"])
def test_a_straggler_has_a_ring_and_a_numbered_sentence(topology: NodeTopology | None) -> None:
    """Its number stands at its corner, and before what the report found."""
    root = drawn(report(), topology)
    box = boxes(root, "gpu")[1]
    (ring,) = (rect for rect in root.findall(f"{SVG}rect") if rect.get("fill") == "none")
    x, y = (float(ring.get(name, "nan")) for name in ("x", "y"))
    assert box.x - 4 < x < box.x
    assert box.y - 4 < y < box.y
    discs = {(disc.get("cx"), disc.get("cy")) for disc in root.iter(f"{SVG}circle")}
    assert (f"{box.right - 2:g}", f"{box.y + 1:g}") in discs
    assert f"warning: GPU1: {BEHIND}" in texts(root)


def test_gpus_that_others_had_are_not_the_jobs() -> None:
    """A GPU of the node that no account names says so."""
    words = [box.words() for box in boxes(drawn(report(), dgx_h100()), "gpu")]
    assert words[4:] == [f"GPU{at} not in job" for at in range(4, 8)]


def test_nics_tell_their_traffic() -> None:
    """A NIC with counters says what went over it; the others say what they are."""
    words = {box.words() for box in boxes(drawn(report(), dgx_h100()), "nic")}
    assert {"mlx5_0 ↑ 4.2 ↓ 3.6 TB", "mlx5_1 400 Gb/s IB"} <= words


def test_the_worst_node_comes_first() -> None:
    """By default the node with the gravest finding about a GPU is drawn."""
    more = report()
    more = replace(more, gpus=(jobs.gpu("n0"), *more.gpus))
    assert job_nodes(more) == ("n1", "n0")
    assert any("on n1" in text for text in texts(drawn(more)))
    assert any("on n0" in text for text in texts(drawn(more, node="n0")))


def test_another_jobs_node_is_refused() -> None:
    """The error names the nodes of the job."""
    with pytest.raises(HpckitError, match="n7 is not a node of this job") as caught:
        drawn(report(), node="n7")
    assert caught.value.hint == "its nodes: n1"
