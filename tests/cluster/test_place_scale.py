"""Placement on thousands of nodes that a real slurmctld believes in, and on 64 that run ranks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from hpckit.core.hostlist import expand_hosts
from tests.cluster.cluster import Cluster, eventually
from tests.cluster.controller import AT_SITE, Controller, controller
from tests.cluster.hpckit_on import document, hpckit, reached, submit
from tests.cluster.landed import SAYS_BY_NODE, at, landed, verdicts
from tests.cluster.made_up_slurm import block_conf, tree_conf

TREE, BLOCK = "9984-tree", "4096-block"
JOB_NODES = 4096
GPUS = 8
MESH = "tensor=8,pipeline=16,data=256"
VOLUME = "tensor=2e9,pipeline=2e8,data=4e9"

LEAVES, EACH = 4, 16
REAL = [f"n{number:02d}" for number in range(1, LEAVES * EACH + 1)]
REAL_CONF = """\
ClusterName=real
SlurmctldHost=login
AuthType=auth/munge
CredType=cred/munge
SlurmUser=slurm
MailProg=/bin/true
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd-%n
SlurmctldPidFile=/run/slurm/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
ReturnToService=2
KillWait=5
SchedulerParameters=sched_interval=2,batch_sched_delay=0
TopologyPlugin=topology/tree
PartitionName=main Nodes=ALL Default=YES MaxTime=1-0 State=UP
"""
RING = (
    *("--set", "parallel.data=16", "--set", "parallel.pipeline=4"),
    *("--set", "place.volume.data=1e9"),
)
"""Each group of sixteen ranks in a row is to be on one leaf."""


def leaf(index: int) -> list[str]:
    """The nodes of a leaf: neighbours by name are on different ones."""
    return REAL[index::LEAVES]


def real_conf() -> dict[str, str]:
    """Nodes that all are the host of slurmctld, each with a port of its own."""
    nodes = [
        f"NodeName={name} NodeHostname=login NodeAddr=127.0.0.1 Port={17000 + at_} CPUs=4"
        for at_, name in enumerate(REAL)
    ]
    switches = [f"SwitchName=leaf{i} Nodes={','.join(leaf(i))}" for i in range(LEAVES)]
    switches.append(f"SwitchName=spine Switches=leaf[0-{LEAVES - 1}]")
    return {
        "slurm.conf": "\n".join([REAL_CONF, *nodes, ""]),
        "topology.conf": "\n".join([*switches, ""]),
        "cgroup.conf": "CgroupPlugin=disabled\n",
    }


@pytest.fixture(scope="module")
def made_up(cluster: Cluster) -> Iterator[dict[str, Controller]]:
    """A slurmctld with 9,984 nodes in a tree of three levels, and one with 4,096 in blocks."""
    confs = {TREE: tree_conf(9984), BLOCK: block_conf(4096)}
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                controller(conf, image=cluster.image, environ=cluster.environ)
            )
            for name, conf in confs.items()
        }


@pytest.fixture(scope="module")
def real(cluster: Cluster) -> Iterator[Controller]:
    """A slurmctld and 64 slurmd on one host."""
    own = controller(real_conf(), image=cluster.image, environ=cluster.environ)
    with own as up:
        up.start_slurmd(*REAL)
        yield up


def nodes_of_a_job(on: Controller) -> str:
    """The nodes that Slurm gives to a job of JOB_NODES, as it lists them."""
    words = ["sbatch", "--parsable", f"--nodes={JOB_NODES}", "--gpus-per-node=8", "--wrap=true"]
    job_id = on.check(words).strip()
    ask = ["squeue", "--noheader", "--format=%N", f"--jobs={job_id}"]
    listed = eventually(lambda: on.check(ask).strip())
    on.check(["scancel", job_id])
    return listed


@pytest.mark.parametrize("name", [TREE, BLOCK])
def test_thousands_of_nodes(made_up: dict[str, Controller], name: str) -> None:
    """The fabric is read from the live Slurm and a job of 4,096 nodes placed on what Slurm gave it
    (`make bench SUITE=place` says how fast); the order is those nodes, each once.
    """
    on = made_up[name]
    listed = nodes_of_a_job(on)
    words = ("--gpus-per-node", str(GPUS), "--mesh", MESH, "--volume", VOLUME, "--json")
    order = document(hpckit(on, "place", "--nodelist", listed, *words))["order"]
    assert len(order) == JOB_NODES
    assert sorted(order) == sorted(expand_hosts(listed))


def test_ranks_of_64_nodes(real: Controller) -> None:
    """64 ranks of a real submission are each on the node that `hpckit place` says, where names are
    interleaved over four leaves; sixteen in a row are on one.
    """
    listed = ",".join(REAL)
    mesh = ("--mesh", "data=16,pipeline=4", "--volume", "data=1e9")
    place = ("place", "--nodelist", listed, "--gpus-per-node", "1", *mesh, "--json")
    order = document(hpckit(real, *place))["order"]
    groups = [order[first : first + EACH] for first in range(0, len(REAL), EACH)]
    assert sorted(sorted(group) for group in groups) == [leaf(i) for i in range(LEAVES)]
    words = ("--nodes", str(len(REAL)), "--no-account", *RING)
    job = submit(real, *AT_SITE, *words, "--", "sh", "-c", SAYS_BY_NODE)
    reached(real, job["job_id"], "COMPLETED")
    assert landed(real, job) == at(order, 1)
    because = f"{len(REAL)} ranks on {len(REAL)} nodes, in the computed order"
    assert verdicts(real, job)["nodes"] == ("as planned", because)
