"""Ranks land where `hpckit place` says, whatever starts them, or above an srun that refuses."""

from __future__ import annotations

import time

import pytest

from tests.cluster.cluster import FRAMEWORKS, Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import log_of, reached, submit
from tests.cluster.landed import (
    BY_PMI,
    BY_PMIX,
    BY_TORCHRUN,
    PLAIN,
    PROVEN,
    REAL_SRUN,
    TORCHRUN,
    Launch,
    at,
    landed,
    planned,
    program,
    sent,
    verdicts,
)
from tests.cluster.played import on
from tests.cluster.traps import alike

REAL_TORCHRUN = "bookworm"
"""Where torchrun is PyTorch's own; Debian's in the others is built without its libuv."""
PLACES = [
    *((suite, "tree") for suite in alike(REAL_TORCHRUN, "trixie")),
    *((suite, "block") for suite in alike("forky", "trixie")),
]
REFUSING = f"""\
#!/bin/bash
if [[ " $* " == *" --distribution=arbitrary "* ]]; then
  echo "srun: error: this site takes no order" >&2
  exit {{code}}
fi
exec {REAL_SRUN} "$@"
"""
"""As a site's wrapper may be: no Slurm here refuses an order at the step."""
TURNING = f"""\
#!/bin/bash
if [[ ${{SLURM_HOSTFILE:-}} ]]; then
  tac "$SLURM_HOSTFILE" >"$SLURM_HOSTFILE.turned"
  export SLURM_HOSTFILE=$SLURM_HOSTFILE.turned
fi
exec {REAL_SRUN} "$@"
"""
"""Ranks are then elsewhere than the plan has them."""
AS_PLANNED = ("as planned", "8 ranks on 4 nodes, in the computed order")
SOON_S = 200
"""Its ranks would sleep for longer."""


def up(cluster_of: ClusterOf, suite: str, topology: str) -> Cluster:
    """The cluster of a release, with PyTorch where that is what test_torchrun.py has."""
    if suite == REAL_TORCHRUN:
        return cluster_of(suite, target="torch", pip=FRAMEWORKS)
    return cluster_of(suite, topology=topology)


def launches(cluster: Cluster) -> list[tuple[Launch, list[str]]]:
    """Each kind of launch, MPI by PMIx where there is one, with the setup lines that it needs."""
    plugins = cluster.run(["srun", "--mpi=list"])
    has_pmix = "pmix" in plugins.stdout + plugins.stderr
    setup = []
    if cluster.run(["sh", "-c", "command -v torchrun"]).returncode != 0:
        setup = [program(cluster, "torchrun", TORCHRUN)]
    return [(PLAIN, []), (BY_PMIX if has_pmix else BY_PMI, []), (BY_TORCHRUN, setup)]


@pytest.fixture(params=PLACES, ids="-".join)
def cluster(cluster_of: ClusterOf, request: pytest.FixtureRequest) -> Cluster:
    """A cluster of each of PLACES."""
    return up(cluster_of, *request.param)


def test_ranks_land_where_planned(cluster: Cluster) -> None:
    """Under plain, mpi and torchrun each rank is on the node that `hpckit place` says, knows its
    number there, and meets the others at rank 0's node.
    """
    order = planned(cluster)
    assert order != sorted(order)
    jobs = [sent(cluster, launch.text(setup)) for launch, setup in launches(cluster)]
    for job in jobs:
        reached(cluster, job["job_id"], "COMPLETED")
        assert landed(cluster, job) == at(order)
        assert verdicts(cluster, job)["nodes"] == AS_PLANNED


@pytest.mark.parametrize("cluster", [(REAL_TORCHRUN, "tree")], indirect=True, ids="-".join)
def test_where_srun_takes_no_order(cluster: Cluster) -> None:
    """Plain ranks and torchrun's are numbered by hpckit's map then, and land where planned; MPI's
    are in Slurm's order, and the proof says that it is not enforceable here.
    """
    order = planned(cluster)
    jobs = [
        sent(cluster, launch.text([*setup, program(cluster, "srun", REFUSING.format(code=code))]))
        for code, (launch, setup) in zip((1, 1, 255), launches(cluster), strict=True)
    ]
    for job in jobs:
        reached(cluster, job["job_id"], "COMPLETED")
        assert "srun rejected the node order" in log_of(cluster, job["job_id"])
    plain, mpi, torchrun = jobs
    assert landed(cluster, plain) == landed(cluster, torchrun) == at(order)
    assert verdicts(cluster, plain)["nodes"] == verdicts(cluster, torchrun)["nodes"] == AS_PLANNED
    assert landed(cluster, mpi) == at(sorted(order))
    assert verdicts(cluster, mpi)["nodes"][0] == "not enforceable here"


@pytest.mark.parametrize("cluster", [("trixie", "tree")], indirect=True, ids="-".join)
@pytest.mark.parametrize("strict", [False, True])
def test_ranks_that_are_elsewhere(cluster: Cluster, strict: bool) -> None:
    """The proof names ranks that are not where they were planned, beside what cannot be enforced;
    --strict-placement ends their job within seconds, and its code is 1.
    """
    order = planned(cluster)
    sleeper = Launch(kind="plain", command=["sh", "-c", "exec sleep 300" if strict else PROVEN])
    words = ("--strict-placement",) if strict else ()
    begun_s = time.monotonic()
    job = sent(cluster, sleeper.text([program(cluster, "srun", TURNING)]), *words)
    seen = reached(cluster, job["job_id"], "FAILED" if strict else "COMPLETED")
    assert seen["exit_code"] == int(strict)
    assert time.monotonic() - begun_s < SOON_S
    first = f"rank 0 is on {order[-1]}, planned {order[0]}"
    found = verdicts(cluster, job)
    assert (found["nodes"][0], found["nodes"][1].startswith(first)) == ("differs", True), found
    assert found["nics"][0] == "not enforceable here"
    log = log_of(cluster, job["job_id"])
    assert f"placement  nodes  differs               {first}" in log
    assert ("--strict-placement ends the job: " in log) == strict


@pytest.mark.parametrize("cluster", [("trixie", "tree")], indirect=True, ids="-".join)
def test_nothing_is_bound_where_other_jobs_may_be(cluster: Cluster) -> None:
    """Two jobs of one CPU each on a node that holds neither to it are not bound to the same core:
    their ranks may use what the node has, and the proof says why.
    """
    words = ("--ntasks-per-node", "2", "--set", "slurm.extra.overcommit=true", *on("c1"))
    may = "grep Cpus_allowed_list /proc/self/status"
    free = cluster.check(["sh", "-c", may], host="c1").split()[-1]
    jobs = [submit(cluster, *words, "--", "sh", "-c", f"{may}; {PROVEN}") for _ in range(2)]
    for job in jobs:
        reached(cluster, job["job_id"], "COMPLETED")
        log = log_of(cluster, job["job_id"])
        assert log.count(f"Cpus_allowed_list:\t{free}\n") == 2, log
        verdict, because = verdicts(cluster, job)["cpus"]
        assert verdict == "not enforceable here"
        assert "CPUs, but Slurm allocated 1: other jobs may use the same CPUs" in because
