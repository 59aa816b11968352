"""A site file drafted from the cluster that answers, and what drifts from it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.hpckit_on import document, hpckit, new_path

DRAFTED = ("sites", "init", "north")
CHANGES = (
    (
        ("update", "PartitionName=debug", "MaxTime=10"),
        ("update", "PartitionName=debug", "MaxTime=30"),
        ("partitions.debug.time_limit", 'time_limit = "00:10:00"'),
    ),
    (
        ("create", "PartitionName=late", "Nodes=c1"),
        ("delete", "PartitionName=late"),
        ("partitions.late", "the site file lacks the cluster's partition late"),
    ),
    (
        ("update", "NodeName=c4", "AvailableFeatures=big", "ActiveFeatures=big"),
        ("update", "NodeName=c4", "AvailableFeatures=", "ActiveFeatures="),
        ("partitions.main", "differ from the site file"),
    ),
)


@pytest.fixture(scope="module")
def sites(cluster: Cluster) -> Iterator[str]:
    """A folder with the file that `sites init` wrote, its job folders on the shared file system."""
    folder = new_path()
    cluster.check(["mkdir", folder])
    text = hpckit(cluster, *DRAFTED).stdout
    lines = ['job_root = "/shared/$USER/drafted"' if line.startswith("job_root") else line
             for line in text.splitlines()]  # fmt: skip
    cluster.run(["tee", f"{folder}/north.toml"], input="\n".join(lines))
    yield folder


def test_a_job_runs_at_the_drafted_site(cluster: Cluster, sites: str) -> None:
    """The draft says what the cluster says, and a job runs there as it is."""
    at = ("--site-dir", sites)
    assert hpckit(cluster, "sites", "check", "north", *at).returncode == 0
    done = hpckit(cluster, "submit", "--json", "--wait", *at, "--site", "north", "--gpus-per-node",
                  "2", "--", "true")  # fmt: skip
    assert document(done)["state"] == "COMPLETED"


@pytest.mark.parametrize(("change", "back", "told"), CHANGES)
def test_what_drifted_is_named(
    cluster: Cluster,
    sites: str,
    change: tuple[str, ...],
    back: tuple[str, ...],
    told: tuple[str, str],
) -> None:
    """A limit that was lowered, a partition and a kind of nodes that came: each is named."""
    cluster.check(["scontrol", *change], user="root", host="ctl")
    try:
        done = hpckit(cluster, "sites", "check", "north", "--json", "--site-dir", sites)
    finally:
        cluster.check(["scontrol", *back], user="root", host="ctl")
    found = {one["subject"]: one["because"] + one["remedy"] for one in document(done)["findings"]}
    assert told[1] in found.get(told[0], ""), done


def test_a_partition_that_was_renamed(cluster: Cluster, sites: str) -> None:
    """A partition that is gone is an error, and the one that came is named beside it."""
    renamed = cluster.check(["sed", "s/partitions.debug/partitions.brief/", f"{sites}/north.toml"])
    folder = new_path()
    cluster.check(["mkdir", folder])
    cluster.run(["tee", f"{folder}/north.toml"], input=renamed)
    done = hpckit(cluster, "sites", "check", "north", "--site-dir", folder)
    assert done.returncode == 1
    assert "no partition brief" in done.stdout
    assert "partitions.debug" in done.stdout
