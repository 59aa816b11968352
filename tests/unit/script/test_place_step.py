"""What a job does about places."""

from __future__ import annotations

import pytest

from hpckit.script.plan import PlacePlan
from tests.unit.script.test_launch import plan

FOUR = "[resources]\nnodes = 4\nntasks_per_node = 2\n"


def placed(text: str, site: str | None = None) -> PlacePlan:
    """The plan of a job that has one."""
    found = plan(text, site).place
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("text", "order", "bind"),
    [
        (FOUR, True, True),
        ("[resources]\nnodes = 4\n", True, False),
        ("[resources]\nntasks_per_node = 2\n", False, True),
        (f"{FOUR}[place]\norder = false\n", False, True),
        (f"{FOUR}[place]\nbind = false\n", True, False),
        (f"{FOUR}[slurm.srun_extra]\ncpu-bind = 'cores'\n", True, False),
        (f"{FOUR}[slurm.srun_extra]\ncpu-bind = 'none'\n", True, True),
        (f"{FOUR}[slurm.srun_extra]\nexclude = 'c1'\n", False, True),
        (f"{FOUR}[launch]\ndistribution = 'cyclic'\n", False, True),
        (f"{FOUR}[launch]\ndistribution = 'plane=2'\n", False, True),
        (f"{FOUR}[launch]\ndistribution = '*:cyclic'\n", True, True),
        (f"{FOUR}[launch]\ndistribution = 'block:cyclic,Pack'\n", True, True),
    ],
)
def test_what_is_done(text: str, order: bool, bind: bool) -> None:
    """Several nodes are ordered and several ranks of one bound, unless the job decides itself."""
    found = placed(text)
    assert (found.order, found.bind) == (order, bind)


@pytest.mark.parametrize(
    "text",
    ["", "[launch]\nkind = 'torchrun'\n", f"{FOUR}[place]\norder = false\nbind = false\n"],
)
def test_nothing_is_left_out_of_the_script(text: str) -> None:
    """One rank on one node has neither an order nor a share of cores."""
    assert plan(text).place is None


def test_a_job_of_this_machine_has_none() -> None:
    """Its ranks share a machine that other programs use too."""
    assert plan("[resources]\nntasks_per_node = 4\n", "local").place is None


def test_strict_is_the_jobs_word() -> None:
    """It is off unless said."""
    assert not placed(FOUR).strict
    assert placed(f"{FOUR}[place]\nstrict = true\n").strict
