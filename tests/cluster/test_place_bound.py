"""Ranks bound to cores for real: one node with the CPUs that this machine has, and task/affinity.

slurmd needs SYS_NICE there, to set the affinity of another user's process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.cluster.cluster import FRAMEWORKS, Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.controller import AT_SITE, Controller, controller
from tests.cluster.hpckit_on import log_of, submit
from tests.cluster.landed import PROVEN, TORCHRUN, program, verdicts

CPUS = os.cpu_count() or 1
NODE = "login"
"""The node is the host that slurmctld runs on."""
CONF = f"""\
ClusterName=one
SlurmctldHost={NODE}
AuthType=auth/munge
CredType=cred/munge
SlurmUser=slurm
MailProg=/bin/true
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/affinity
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
KillWait=5
SchedulerParameters=sched_interval=2,batch_sched_delay=0
NodeName={NODE} CPUs={CPUS} SocketsPerBoard=1 CoresPerSocket={CPUS} ThreadsPerCore=1 RealMemory=1000
PartitionName=main Nodes=ALL Default=YES MaxTime=1-0 State=UP
"""
NO_CONTROL_GROUPS: Mapping[str, str] = {
    "bookworm": "CgroupAutomount=no\n",
    "trixie": "CgroupPlugin=disabled\n",
}
SAYS = 'echo "may $LOCAL_RANK $(grep Cpus_allowed_list /proc/self/status | cut -f 2)"; ' + PROVEN
EACH = ("--ntasks-per-node", "2", "--cpus-per-task", str(CPUS // 2))


@pytest.fixture(scope="module", params=NO_CONTROL_GROUPS)
def suite(request: pytest.FixtureRequest) -> str:
    """The release: with the one there is PyTorch's own torchrun."""
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def cluster(cluster_of: ClusterOf, suite: str) -> Cluster:
    """The cluster whose image the node has."""
    if suite == "bookworm":
        return cluster_of(suite, target="torch", pip=FRAMEWORKS)
    return cluster_of(suite)


@pytest.fixture(scope="module")
def node(cluster: Cluster, suite: str) -> Iterator[Controller]:
    """A slurmctld and the slurmd of its one node."""
    if CPUS < 2:
        pytest.skip("this machine has one CPU: no two ranks have two")
    conf = {"slurm.conf": CONF, "cgroup.conf": NO_CONTROL_GROUPS[suite]}
    own = controller(conf, "--cap-add=SYS_NICE", image=cluster.image, environ=cluster.environ)
    with own as up:
        up.start_slurmd(NODE)
        yield up


def bound(node: Controller, *words: str) -> tuple[dict[str, Any], list[set[int]]]:
    """A job of two ranks, and the CPUs that each may use as the kernel says."""
    job = submit(node, *AT_SITE, *EACH, *words, "--wait", "--", "bash", "-c", SAYS)
    assert (job["state"], job["exit_code"]) == ("COMPLETED", 0), job
    logs = [log_of(node, job["job_id"], rank) for rank in (0, 1)]
    lines = [line.split() for log in logs for line in log.splitlines() if line.startswith("may ")]
    assert [words[1:-1] for words in lines] == [["0"], ["1"]], logs
    return job, [cpus_of(words[-1]) for words in lines]


def cpus_of(listed: str) -> set[int]:
    """The CPUs of a list such as 0-3,8."""
    spans = (part.partition("-") for part in listed.split(","))
    return {cpu for first, _, last in spans for cpu in range(int(first), int(last or first) + 1)}


@pytest.mark.parametrize("kind", ["plain", "torchrun"])
def test_two_ranks_have_two_cores(node: Controller, kind: str) -> None:
    """The two ranks of a node share no core, under srun and under torchrun, and are where the plan
    has them.
    """
    path = []
    if kind == "torchrun" and node.run(["sh", "-c", "command -v torchrun"]).returncode != 0:
        path = ["--set", f"environment.setup=['{program(node, 'torchrun', TORCHRUN)}']"]
    job, (first, second) = bound(node, "--launch", kind, *path)
    assert first
    assert second
    assert not first & second
    assert verdicts(node, job)["cpus"] == (
        "as planned",
        "2 ranks on their planned CPUs",
    )
    if kind == "torchrun":
        _, unbound = bound(node, "--launch", kind, *path, "--no-bind")
        assert unbound == [set(range(CPUS))] * 2
