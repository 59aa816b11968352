"""Topologies that samplers left, read for a report; all of them synthetic."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hpckit.account.gather import node_topologies
from hpckit.account.store import FileSampleStore
from hpckit.node.topology import GpuUuid, NodeTopology
from tests.fakes.account_files import (
    Columns,
    MadeJob,
    busy,
    reported,
    uuid_of,
    write_accounts,
    write_topology,
)
from tests.fakes.machines import cpu_only, dgx_h100


def of(folder: Path) -> tuple[dict[str, NodeTopology], list[str]]:
    """What is read of a job folder."""
    store = FileSampleStore()
    return node_topologies(store, store.find(folder))


def job(folder: Path, restart: int = 0) -> Path:
    """A small job; the folder of its incarnation."""
    return write_accounts(folder, MadeJob(gpus=1, duration_s=3.0, restart=restart))


def test_a_topology_is_read_as_it_was_written(tmp_path: Path) -> None:
    """By the node's name, whole."""
    write_topology(job(tmp_path), "n000", dgx_h100())
    assert of(tmp_path) == ({"n000": dgx_h100()}, [])


def test_the_last_incarnation_counts(tmp_path: Path) -> None:
    """A node that was changed between two runs is what it was in the last."""
    write_topology(job(tmp_path), "n000", cpu_only())
    write_topology(job(tmp_path, restart=1), "n000", dgx_h100())
    assert of(tmp_path)[0] == {"n000": dgx_h100()}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[",
        "7",
        '{"schema": "hpckit.job/1"}',
        '{"schema": "hpckit.topology/1", "gpus": 7}',
        '{"schema": "hpckit.topology/1", "source": {"format": "\\ud800"}}',
        "[" * 100_000,
        '{"a":' * 100_000,
    ],
)
def test_what_is_no_topology_is_a_sentence(tmp_path: Path, text: str) -> None:
    """Whatever lies there, the report is made, and says in one line what it could not read."""
    (job(tmp_path) / "node-n000.topology.json").write_text(text)
    topologies, (said,) = of(tmp_path)
    assert topologies == {}
    assert said.startswith("node-n000.topology.json is not a node topology: ")
    assert "\n" not in said


def slow_third(at_s: NDArray[np.float64], gpu: int) -> Columns:
    """GPUs that wait for the third of them, which works all the time."""
    columns = dict(busy(at_s, gpu))
    active = np.full(len(at_s), 9800) if gpu == 2 else np.full(len(at_s), 7000)
    columns["sm_active_pct100"] = active
    columns["util_pct"] = active / 100
    return columns


def named(topology: NodeTopology, links: int) -> NodeTopology:
    """With the UUIDs of the made-up job, and `links` NVLinks less at the third GPU."""
    gpus = [replace(gpu, uuid=GpuUuid(uuid_of("n000", gpu.index or 0))) for gpu in topology.gpus]
    own = gpus[2].nvlinks or ()
    gpus[2] = replace(
        gpus[2],
        nvlinks=tuple(replace(link, is_active=at >= links) for at, link in enumerate(own)),
    )
    return replace(topology, gpus=tuple(gpus))


def straggling(folder: Path) -> Path:
    """A job with a straggler; the folder of its incarnation."""
    return write_accounts(folder, MadeJob(gpus=8, duration_s=120.0, shape=slow_third))


def causes(folder: Path, links: int) -> str:
    """What the report says of the straggler of a job."""
    place = straggling(folder)
    write_topology(place, "n000", named(dgx_h100(), links))
    return " ".join(one.because for one in reported(folder).findings)


def test_a_stragglers_lost_links_are_its_cause(tmp_path: Path) -> None:
    """A GPU with fewer active NVLinks than the others is explained by its node's topology."""
    assert "active NVLinks, peers" in causes(tmp_path, 4)


def test_links_that_are_all_there_explain_nothing(tmp_path: Path) -> None:
    """The same straggler with all its links has no such cause."""
    assert "NVLinks" not in causes(tmp_path, 0)


def test_a_hostile_topology_is_among_what_is_missing(tmp_path: Path) -> None:
    """The report says so where it would explain a straggler, and is complete otherwise."""
    (straggling(tmp_path) / "node-n000.topology.json").write_text("[")
    assert any("node-n000.topology.json" in one for one in reported(tmp_path).missing)


def test_a_topology_that_explains_nothing_is_not_read(tmp_path: Path) -> None:
    """A job without stragglers does not miss what nobody wants to know."""
    (job(tmp_path) / "node-n000.topology.json").write_text("[")
    assert reported(tmp_path).missing == ()
