"""What a job's script exports for communication: only what its partition's nodes have."""

from __future__ import annotations

import pytest

from hpckit.comm.communication import Communication, comm_choice, comm_question, communication
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.sites import load_site
from hpckit.spec.files import effective_job, option_layer
from hpckit.spec.job import JobSpec
from hpckit.spec.platform import NcclVersion, NetPlugin


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


@pytest.mark.parametrize(("value", "is_warned"), [("1", False), ("0", True)])
def test_nothing_speaks_against_a_job_s_own_value_that_hpckit_sets_too(
    value: str, *, is_warned: bool
) -> None:
    """What a site sets for its nodes is no fault in a job that says the same."""
    made = on("azure-ndv5", **{"tune.env": {"NCCL_IGNORE_CPU_AFFINITY": value}})
    (own,) = [one for one in made.env.settings if one.name == "NCCL_IGNORE_CPU_AFFINITY"]
    assert (own.warning is not None) == is_warned


def spec(**values: object) -> JobSpec:
    """A job with these keys."""
    given = {"name": "x", "command": ["x"], **values}
    return effective_job([option_layer({key: (value, "x") for key, value in given.items()})]).spec


def test_the_question_has_what_the_job_says() -> None:
    """Nodes, release, plugin and whether ranks are MPI's."""
    asked = comm_question(
        spec(**{
            "resources.nodes": 4, "tune.nccl": "2.27", "tune.plugin": "gib", "launch.kind": "mpi",
        })
    )  # fmt: skip
    assert (asked.nodes, asked.version, asked.plugin) == (4, NcclVersion(2, 27), NetPlugin.GIB)
    assert asked.is_mpi


def test_own_variables_know_where_they_stand() -> None:
    """Those of [tune] env are exported in the block, those of [environment] elsewhere."""
    choice = comm_choice(spec(**{"tune.env": {"NCCL_A": "1"}, "environment.set": {"NCCL_B": "2"}}))
    assert [(one.name, one.is_exported) for one in choice.own] == [
        ("NCCL_A", True),
        ("NCCL_B", False),
    ]


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
