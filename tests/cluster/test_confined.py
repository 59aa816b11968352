"""Accounts where jobs are held to their GPUs by control groups of version 1 (ConstrainDevices)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import CHECKOUT, Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import AT_GATE, gated, new_path, open_gate, reached, submit
from tests.cluster.played import on, pretending, report

PROFILE = "/tmp/files.toml"


@pytest.fixture
def cluster(cluster_of: ClusterOf) -> Cluster:
    """A cluster whose jobs open their own GPUs' devices alone."""
    if not Path("/sys/fs/cgroup/devices").is_dir():
        pytest.skip("no control groups of version 1 here")
    return cluster_of(confine="yes")


@pytest.fixture
def by_device_files(cluster: Cluster) -> Iterator[None]:
    """The fake driver of c1 shows, as the real one, what this process may open alone."""
    text = (CHECKOUT / "docker/fake-nvml/profiles/dgx-h100-busy.toml").read_text()
    text = re.sub(r"^gpus = 8$", "gpus = 8\ndevice_files = true", text, count=1, flags=re.MULTILINE)
    written = cluster.run(["tee", PROFILE], user="root", host="c1", input=text)
    assert written.returncode == 0, written.stderr
    with pretending(cluster, PROFILE, "c1"):
        yield


def uuids(printed: dict[str, Any]) -> set[str]:
    """The GPUs of a report."""
    return {one["uuid"] for one in printed["gpus"]}


@pytest.mark.usefixtures("by_device_files")
def test_a_job_is_charged_its_own_gpus_alone(cluster: Cluster) -> None:
    """Of two jobs on a node each report has that job's GPUs, all of them and no other's."""
    gate = new_path("/shared/alice")
    words = ("--ntasks-per-node", "2", "--time", "5", *on("c1"))
    first = submit(cluster, *words, "--gpus-per-node", "3", *gated(AT_GATE, gate))["job_id"]
    second = submit(cluster, *words, "--gpus-per-node", "2", *gated(AT_GATE, gate))["job_id"]
    for job in (first, second):
        assert reached(cluster, job, "RUNNING")
    cluster.check(["sleep", "6"])
    open_gate(cluster, gate)
    for job in (first, second):
        assert reached(cluster, job, "COMPLETED")
    one, other = report(cluster, first), report(cluster, second)
    assert (len(uuids(one)), len(uuids(other))) == (3, 2)
    assert not uuids(one) & uuids(other)
    for printed in (one, other):
        assert printed["energy"]["gpu"]["source"] == "counter"
        assert all(gpu["power_mean_w"] for gpu in printed["gpus"])
        assert all(node["cpu_s"] is not None for node in printed["nodes"])
