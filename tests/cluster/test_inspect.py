"""`hpckit inspect` of the nodes of a cluster, each of which stands in for a machine."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.cluster.cluster import Cluster, eventually
from tests.cluster.hpckit_on import (
    AT_GATE,
    document,
    gated,
    hpckit,
    new_path,
    open_gate,
    reached,
    submit,
)

ALL = "c[1-4]"
FINDINGS = {
    "c1": [],
    "c2": [("nvlink-fewer", "GPU5")],
    "c3": [("nic-down", "mlx5_5")],
    "c4": [],
}


def inspected(cluster: Cluster, *words: str) -> dict[str, Any]:
    """The document of `hpckit inspect --json WORDS`."""
    done = hpckit(cluster, "inspect", "--json", *words)
    assert done.returncode == 0, done.stderr
    printed = document(done)
    assert printed["schema"] == "hpckit.nodes/1"
    return printed


def findings(printed: dict[str, Any]) -> dict[str, list[tuple[str, str]]]:
    """Node → rule and subject of what was found there."""
    return {
        node: [(one["rule"], one["subject"]) for one in group["findings"]]
        for group in printed["groups"]
        for node in group["nodes"]
    }


@contextmanager
def deaf(cluster: Cluster, host: str) -> Iterator[None]:
    """The time in which the slurmd of a host hears nothing, before slurmctld has noticed."""
    cluster.check(["pkill", "--signal=STOP", "--exact", "slurmd"], user="root", host=host)
    try:
        yield
    finally:
        cluster.check(["pkill", "--signal=CONT", "--exact", "slurmd"], user="root", host=host)
        cluster.wait_idle()


def test_the_two_odd_nodes_are_found_and_nothing_else(cluster: Cluster) -> None:
    """c2's dead NVLink and c3's dead NIC are findings; c1 and c4 are alike and have none."""
    printed = inspected(cluster, "--nodes", ALL)
    assert findings(printed) == FINDINGS
    assert printed["groups"][0]["nodelist"] == "c[1,4]"
    assert printed["silent"] == []


def test_the_screen_names_the_odd_nodes(cluster: Cluster) -> None:
    """The largest group comes first; each odd node says what differs, and that all is made up."""
    done = hpckit(cluster, "inspect", "--nodes", ALL)
    first, *_ = done.stdout.splitlines()
    assert first.startswith("c[1,4] 2 identical nodes:")
    for words in (
        "synthetic",
        "c2 1 node differs",
        "GPU5 has 17 active NVLinks",
        "c3 1 node differs",
    ):
        assert words in done.stdout
    assert done.stdout.splitlines()[-1] == "next  srun -w c2 hpckit inspect"


def test_a_job_shows_its_own_nodes(cluster: Cluster) -> None:
    """--job asks the nodes that the job has, beside what runs there."""
    gate = new_path("/shared/alice")
    job = submit(cluster, "--site", "docker", "--nodes", "2", "--gpus-per-node", "8",
                 "--set", "slurm.nodelist=c[2-3]", *gated(AT_GATE, gate))["job_id"]  # fmt: skip
    try:
        assert reached(cluster, job, "RUNNING")
        assert findings(inspected(cluster, "--job", job)) == {
            node: FINDINGS[node] for node in ("c2", "c3")
        }
    finally:
        open_gate(cluster, gate)
        cluster.wait_idle()


def test_a_node_that_does_not_answer_is_a_finding(cluster: Cluster) -> None:
    """A node whose slurmd hangs costs the time limit, is named, and hides no other."""
    with deaf(cluster, "c4"):
        printed = inspected(cluster, "--nodes", ALL, "--timeout", "16")
    assert [one["subject"] for one in printed["silent"]] == ["c4"]
    assert findings(printed) == {node: FINDINGS[node] for node in ("c1", "c2", "c3")}


def test_a_busy_node_is_a_finding_and_hides_no_other(cluster: Cluster) -> None:
    """A node that another job has whole is named with Slurm's words; the others answer."""
    job = cluster.check(["sbatch", "--parsable", "--nodelist=c2", "--exclusive",
                         "--output=/dev/null", "--wrap=sleep 300"]).strip()  # fmt: skip
    try:
        running = ["squeue", "--noheader", "--states=R", f"--jobs={job}"]
        assert eventually(lambda: cluster.check(running))
        printed = inspected(cluster, "--nodes", ALL, "--timeout", "16")
        (silent,) = printed["silent"]
        assert silent["subject"] == "c2"
        assert "Requested nodes are busy" in silent["because"]
        assert findings(printed) == {node: FINDINGS[node] for node in ("c1", "c3", "c4")}
    finally:
        cluster.check(["scancel", job])
        cluster.wait_idle()


def test_who_gives_up_leaves_no_job(cluster: Cluster) -> None:
    """Ctrl-C while a node hangs, and kill -9 too, gives back what was asked for."""
    living = ["squeue", "--noheader", "--states=R,PD"]
    with deaf(cluster, "c4"):
        for number in (signal.SIGINT, signal.SIGKILL):
            words = ["hpckit", "inspect", "--nodes", ALL, "--shared-dir", "/shared/alice/probes"]
            asking = cluster.start(words)
            assert eventually(lambda: cluster.check(living))
            asking.send_signal(number)
            asking.communicate(timeout=60)
            assert eventually(lambda: not cluster.check(living))
            left = cluster.check(["ls", "-A", "/shared/alice/probes"])
            assert (left == "") is (number == signal.SIGINT)
        cluster.check(["rm", "-r", "/shared/alice/probes"])


def test_no_job_and_no_file_is_left(cluster: Cluster) -> None:
    """After the answers there is neither a job in the queue nor an archive in the shared folder."""
    inspected(cluster, "--nodes", ALL, "--shared-dir", "/shared/alice/probes")
    cluster.wait_idle()
    assert cluster.check(["squeue", "--noheader"]) == ""
    assert cluster.check(["ls", "-A", "/shared/alice/probes"]) == ""


def test_an_unknown_node_is_named(cluster: Cluster) -> None:
    """A name that Slurm does not know does not keep the others from being asked."""
    printed = inspected(cluster, "--nodes", "c1,nowhere")
    assert [one["because"] for one in printed["silent"]] == ["no such node in Slurm"]
    assert findings(printed) == {"c1": []}


@pytest.mark.parametrize("words", [("--fail-on", "warning"), ("--fail-on", "note")])
def test_a_prolog_can_tell_a_bad_node(cluster: Cluster, words: tuple[str, ...]) -> None:
    """On the node itself --fail-on exits 1 where something is odd and 0 where nothing is."""
    codes = {
        host: cluster.run(["hpckit", "inspect", *words], host=host).returncode
        for host in ("c1", "c2", "c3")
    }
    assert codes == {"c1": 0, "c2": 1, "c3": 1}


def test_inside_a_job_the_node_shows_that_machine(cluster: Cluster) -> None:
    """`hpckit inspect` in a job shows the eight GPUs and ten NICs of the machine stood in for."""
    done = cluster.check(["srun", "--nodelist=c1", "hpckit", "inspect", "--format", "matrix"])
    header = done.splitlines()[0].split()
    assert [word for word in header if word.startswith("GPU") and word[3:].isdigit()] == [
        f"GPU{index}" for index in range(8)
    ]
    assert sum(word.startswith("NIC") for word in header) == 10
