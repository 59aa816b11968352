"""Ranks in an image, by a real Apptainer: who they are, what reaches them, and how they end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.conftest import ClusterOf
from tests.cluster.hpckit_on import document, hpckit, log_of, nothing_lives
from tests.cluster.landed import verdicts

IMAGE = "/shared/images/base"
MAKE_IMAGE = f"""
set -e
mkdir -p /tmp/root /shared/images
tar -C / -cf - --exclude='usr/share/*' --exclude=usr/sbin --exclude='*LLVM*' --exclude='*mariadb*' \
    --exclude='usr/lib/gcc' --exclude='*.a' bin lib lib64 etc usr | tar -C /tmp/root -xf -
mkdir -p /tmp/root/tmp /tmp/root/proc /tmp/root/sys /tmp/root/dev /tmp/root/home
apptainer --silent build --sandbox {IMAGE} /tmp/root
rm -rf /tmp/root
echo 'export NCCL_DEBUG=TRACE GREETING=theirs' >>{IMAGE}/.singularity.d/env/90-environment.sh
chmod -R a+rX {IMAGE}
"""
"""From a node's own files, with variables of its own."""
FOUR = ("--nodes=2", "--ntasks-per-node=2", "--time=5", f"--set=container.image={IMAGE}")
SUM = """
import os, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
total = world.allreduce(world.rank + 1)
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "APPTAINER_NAME", "NCCL_DEBUG", "GREETING")
print(total, *(os.environ.get(name) for name in names), flush=True)
"""
DIES = 'if [ "$RANK" = 3 ]; then echo no more; exit 7; fi; exec sleep 300'


@pytest.fixture(scope="module")
def cluster(cluster_of: ClusterOf) -> Cluster:
    """A cluster whose nodes may make name spaces, with an image that all of them share."""
    if not Path("/sys/fs/cgroup/devices").is_dir():
        pytest.skip("no control groups of version 1 here, with which such nodes are started")
    cluster = cluster_of(confine="yes")
    if cluster.run(["apptainer", "--version"], host="c1").returncode != 0:
        pytest.skip("the cluster's image has no apptainer: Debian's unstable did not give it")
    if cluster.run(["test", "-d", IMAGE]).returncode != 0:
        made = cluster.run(["bash", "-c", MAKE_IMAGE], user="root", host="c1", timeout_s=300)
        assert made.returncode == 0, made.stderr
    return cluster


def test_ranks_meet_in_the_image(cluster: Cluster) -> None:
    """Four on two nodes sum by MPI; what the job sets wins over the image, and that is proved."""
    words = ("--launch=mpi", "--set=launch.mpi=pmix", "--set=tune.env.NCCL_DEBUG=WARN",
             "--env=GREETING=ours", "--wait")  # fmt: skip
    job = document(hpckit(cluster, "submit", "--json", *FOUR, *words, "--", "python3", "-c", SUM))
    logs = [log_of(cluster, job["job_id"], rank) for rank in range(4)]
    assert job["state"] == "COMPLETED", logs
    said = [log.splitlines()[-1] for log in logs]
    assert said == [f"10 {rank} {rank % 2} 4 base WARN ours" for rank in range(4)]
    told = verdicts(cluster, job)
    assert told["container"][0] == told["world"][0] == told["env"][0] == "as planned"


def test_a_rank_that_dies_in_the_image(cluster: Cluster) -> None:
    """The job ends with its code and its last line, and leaves no process; by the older name."""
    older = "--set=container.runtime=singularity"
    done = hpckit(cluster, "submit", *FOUR, older, "--wait", "--", "bash", "-c", DIES)
    assert done.returncode == 1
    assert "exit code 7" in done.stdout
    assert "no more" in done.stdout
    assert nothing_lives(cluster)
    for host in ("c1", "c2", "c3", "c4"):
        assert cluster.run(["pgrep", "-u", "alice", "sleep"], host=host).returncode == 1


def test_an_image_that_is_not_there(cluster: Cluster) -> None:
    """The cause and its code are the job's."""
    gone = "--set=container.image=/shared/images/gone"
    job = document(hpckit(cluster, "submit", "--json", *FOUR, gone, "--wait", "--", "true"))
    assert (job["state"], job["exit_code"]) == ("FAILED", 255)
    assert "could not open image" in log_of(cluster, job["job_id"])


def test_pyxis_where_srun_has_none_of_it(cluster: Cluster) -> None:
    """The job is refused before it waits."""
    done = hpckit(cluster, "submit", *FOUR, "--set=container.runtime=pyxis", "--", "true")
    assert (done.returncode, done.stdout) == (5, "")
    assert "the Pyxis plugin is not loaded" in done.stderr


def test_secrets_reach_the_ranks_inside(cluster: Cluster) -> None:
    """They alone have the value, in the image too; no file of the job has it after the end."""
    words = ("--secret=WORD", "--wait", "--", "sh", "-c", 'echo "$APPTAINER_NAME has $WORD"')
    env = {"WORD": "opensesame"}
    job = document(hpckit(cluster, "submit", "--json", *FOUR, *words, env=env))
    said = [log_of(cluster, job["job_id"], rank).splitlines()[-1] for rank in range(4)]
    assert said == ["base has opensesame"] * 4
    found = cluster.run(["grep", "-rl", "--exclude-dir=logs", "opensesame", job["folder"]])
    assert found.stdout == ""
