"""What a job's script exports for communication: only what its partition's nodes have."""

from __future__ import annotations

import pytest

from hpckit.comm.communication import Communication, communication
from hpckit.core.files import FileResources, packaged_data
from hpckit.jobs.prepare import load_site
from hpckit.spec.files import effective_job, option_layer


def on(site: str, **values: object) -> Communication:
    """The communication of a job of two nodes with these keys."""
    given = {"name": "x", "command": ["x"], "resources.nodes": 2, **values}
    spec = effective_job([option_layer({key: (one, "x") for key, one in given.items()})]).spec
    return communication(spec, load_site(FileResources([packaged_data()]), site), None)


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
