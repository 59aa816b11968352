"""Jobs that contradict themselves or their site."""

from __future__ import annotations

import pytest

from hpckit.core.errors import PlanError
from hpckit.script.checks import not_applied
from tests.fakes.prepared import prepared

BASE = 'name = "x"\ncommand = ["x"]\n'


@pytest.mark.parametrize(
    ("text", "site", "says"),
    [
        ("parallel.tensor = 3\nresources = { nodes = 2, ntasks_per_node = 3 }", "docker",
         ["parallel mesh: have 6 ranks (2 nodes × 3), need 3 ranks (tensor 3)", "--nodes 1"]),
        ("parallel = { tensor = 2, data = 2 }", "docker",
         ["have 1 rank (1 node × 1), need 4 ranks (tensor 2 × data 2)", "--nodes 4"]),
        ("parallel = { tensor = 3 }\nresources.ntasks_per_node = 2", "docker",
         ["have 2 ranks", "change the mesh so that its sizes multiply to 2"]),
        ("parallel.tensor = 8\nresources = { nodes = 2, gpus_per_node = 4 }", "docker",
         ["have 2 ranks", "--ntasks-per-node 4, or change the mesh"]),
        ("parallel = { tensor = 4 }", "local", ["need 4 ranks", "--ntasks-per-node 4"]),
        ("resources.nodes = 2", "local", ["this machine only: have 1 node, need 2 nodes"]),
        ("slurm.signal = 'USR2@60'\nlaunch.kind = 'torchrun'", "docker",
         ["slurm.signal kills torchrun", "need slurm.signal USR2@60"]),
        ("slurm.array = '0-3'", "local", ["no scheduler to run job arrays: have one job"]),
    ],
)  # fmt: skip
def test_a_contradiction(text: str, site: str, says: list[str]) -> None:
    """What there is, what is needed, and the option that would agree are named."""
    with pytest.raises(PlanError) as caught:
        prepared(BASE + text, site=site)
    for part in says:
        assert part in str(caught.value)
    assert caught.value.exit_code == 5


def test_a_mesh_that_fits() -> None:
    """A mesh of all ranks is taken; expert parallelism takes none of its own."""
    text = "resources = { nodes = 2, ntasks_per_node = 4 }\n"
    assert (
        prepared(BASE + text + "parallel = { tensor = 4, data = 2, expert = 2 }").plan.ntasks == 8
    )
    assert prepared(BASE + text + "parallel.expert = 3").plan.ntasks == 8


def test_what_a_site_without_a_scheduler_leaves_out() -> None:
    """What was said and needs a scheduler is named on a local site, and nowhere else."""
    text = BASE + "slurm.qos = 'high'\nresources = { mem = '1G', cpus_per_task = 2 }"
    local, slurm = prepared(text, site="local"), prepared(text, site="docker")
    assert set(not_applied(local.effective, local.site)) >= {"slurm.qos", "resources.mem"}
    assert "slurm.requeue" not in not_applied(local.effective, local.site)
    assert not_applied(slurm.effective, slurm.site) == ()
