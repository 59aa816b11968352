"""What a job says of its communication environment."""

from __future__ import annotations

import pytest

from hpckit.comm.communication import comm_choice, comm_question
from hpckit.spec.files import effective_job, option_layer
from hpckit.spec.job import JobSpec
from hpckit.spec.platform import NcclVersion, NetPlugin


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
