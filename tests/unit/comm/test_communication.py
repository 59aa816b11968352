"""What a job's script exports for communication: only what its partition's nodes have."""

from __future__ import annotations

import pytest

from hpckit.comm.communication import Communication, comm_choice, communication
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.sites import load_site
from hpckit.spec.job import JobSpec
from hpckit.spec.merge import effective_job, option_layer


def on(site: str, **values: object) -> Communication:
    """The communication of a job of two nodes with these keys."""
    job = spec(**{"resources.nodes": 2, **values})
    return communication(job, load_site(FileResources([packaged_data()]), site), None)


@pytest.mark.parametrize(("site", "partition"), [("lumi", "standard"), ("alps", "xfer")])
def test_a_partition_without_gpus_needs_nothing_of_the_platform(site: str, partition: str) -> None:
    """[platform] tells of GPU nodes: a job on others is given nothing, and asked nothing."""
    made = on(site, **{"slurm.partition": partition})
    assert (made.env.settings, made.env.profile, made.env.notes) == ((), None, ())


@pytest.mark.parametrize("values", [{}, {"resources.gpus_per_node": 4}])
def test_a_job_on_gpu_nodes_needs_it_whatever_it_asks_for(values: dict[str, object]) -> None:
    """Where nodes are given whole, a job that asks for no GPU may have them all."""
    made = on("alps", **{"slurm.partition": "normal", **values})
    assert "NCCL_SOCKET_IFNAME" in {one.name for one in made.env.settings}


def test_the_job_s_own_word_and_overlay_count_on_any_partition() -> None:
    """What a job says itself is exported where nothing is derived."""
    made = on(
        "alps",
        **{
            "slurm.partition": "xfer",
            "tune.env": {"NCCL_DEBUG": "WARN"},
            "tune.overlays": ["cscs-uenv-2025-11"],
        },
    )
    assert {one.name for one in made.env.settings} == {"NCCL_DEBUG", "NCCL_CROSS_NIC"}


def spec(**values: object) -> JobSpec:
    """A job with these keys."""
    given = {"name": "x", "command": ["x"], **values}
    return effective_job([option_layer({key: (value, "x") for key, value in given.items()})]).spec


@pytest.mark.parametrize(
    ("values", "is_unread"),
    [
        ({}, False),
        ({"environment.modules": ["nccl"]}, True),
        ({"environment.setup": ["source my.sh"]}, True),
        ({"environment.setup": ["cd x && . ./env"]}, True),
        ({"environment.setup": ["module load x"]}, True),
        ({"environment.setup": ["export NCCL_A=1"]}, False),
        ({"environment.setup": ["echo resource a"]}, False),
    ],
)
def test_what_cannot_be_read_here_is_known(values: dict[str, object], is_unread: bool) -> None:
    """Modules and sourced files may set more than the job file shows."""
    assert comm_choice(spec(**values)).is_unread is is_unread
