"""The communication environment of jobs on a real Slurm: what the ranks have of it."""

from __future__ import annotations

import re
import shlex

import pytest

from tests.cluster.cluster import CHECKOUT, Cluster
from tests.cluster.hpckit_on import SITE, document, hpckit, log_of, new_path

LISTED = "=" + ",".join(f"mlx5_{index}" for index in range(8))
"""The NICs for jobs of the made-up DGX H100, without its two for storage."""
SAY = ("--", "sh", "-c", 'echo "$SLURM_PROCID $NCCL_IB_HCA"')


@pytest.fixture
def node(cluster: Cluster) -> str:
    """What a node of the cluster looks like, as a file on the login host."""
    path = new_path("/tmp")
    cluster.copy_in(CHECKOUT / "examples" / "dgx-h100.json", path)
    return path


def said(cluster: Cluster, node: str, *words: str, env: dict[str, str] | None = None) -> set[str]:
    """What the two ranks of a job on such nodes say of NCCL_IB_HCA."""
    given = ["--wait", "--json", "--nodes", "2", "--topology", node, *words, *SAY]
    job = document(hpckit(cluster, "submit", *given, env=env))
    assert job["exit_code"] == 0, job
    return set(re.findall(r"^[01] .*$", log_of(cluster, job["job_id"]), re.MULTILINE))


def test_every_rank_has_what_the_nodes_need(cluster: Cluster, node: str) -> None:
    """The list of NICs reaches the ranks on both nodes, whatever the shell had."""
    env = {"NCCL_IB_HCA": "mlx5_bond_0"}
    assert said(cluster, node, env=env) == {f"0 {LISTED}", f"1 {LISTED}"}


def test_the_job_s_own_word_reaches_every_rank(cluster: Cluster, node: str) -> None:
    """A value under [tune] env is what the ranks have."""
    own = ("--set", 'tune.env={NCCL_IB_HCA="=mlx5_3"}')
    assert said(cluster, node, *own) == {"0 =mlx5_3", "1 =mlx5_3"}


def test_a_value_that_is_let_through_reaches_every_rank(cluster: Cluster, node: str) -> None:
    """With --pass the shell's value counts."""
    env = {"NCCL_IB_HCA": "=mlx5_5"}
    assert said(cluster, node, "--pass", "NCCL_IB_HCA", env=env) == {"0 =mlx5_5", "1 =mlx5_5"}


def test_without_tuning_nothing_is_set(cluster: Cluster, node: str) -> None:
    """--no-tune leaves the variable unset."""
    assert said(cluster, node, "--no-tune") == {"0 ", "1 "}


def test_the_folder_gives_the_script_again(cluster: Cluster, node: str) -> None:
    """The words at `reproduce:`, typed in the job folder, print what was submitted."""
    args = ["--wait", "--json", "--nodes", "2", "--topology", node, "--", "true"]
    folder = document(hpckit(cluster, "submit", *args))["folder"]
    script = cluster.read(f"{folder}/job.sbatch")
    words = re.search(r"^# reproduce: (.*)$", script, re.MULTILINE)
    assert words
    assert "--topology topology.json" in words[1]
    asked = f"cd {shlex.quote(folder)} && {words[1]}"
    assert cluster.run(["bash", "-c", asked], env=SITE).stdout == script
