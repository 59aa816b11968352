"""Segments from the mesh: which groups stay in one block, and what is too large for one."""

from __future__ import annotations

import pytest

from hpckit.core.errors import PlanError
from tests.fakes.prepared import prepared

NVL72 = "gb200-nvl72"
"""A site of blocks, whose NVLink domain has 18 nodes of four GPUs."""


def segment(nodes: int, mesh: str, *, site: str | None = NVL72, more: str = "") -> str | None:
    """The value of --segment that a job of four ranks a node has, None without."""
    text = (
        f'name = "x"\ncommand = ["x"]\nlaunch.kind = "torchrun"\nparallel = {{ {mesh} }}\n{more}'
        f"resources = {{ nodes = {nodes}, gpus_per_node = 4 }}\n"
    )
    options = prepared(text, site=site).plan.directives
    return next((option.value for option in options if option.name == "segment"), None)


@pytest.mark.parametrize(
    ("nodes", "mesh", "value"),
    [
        (16, "tensor = 8, data = 8", "2"),
        (16, "tensor = 64", "16"),
        (16, "tensor = 4, data = 16", None),
        (16, "data = 64", None),
        (16, "tensor = 4, data = 16, expert = 4", "4"),
        (16, "tensor = 2, pipeline = 4, data = 8, expert = 4", "8"),
        (16, "pipeline = 4, tensor = 4, data = 4", "4"),
        (6, "tensor = 6, data = 4", "3"),
        (4, "data = 2, tensor = 8, expert = 2", "4"),
    ],
)
def test_the_segment_that_a_mesh_needs(nodes: int, mesh: str, value: str | None) -> None:
    """As many nodes as hold whole tensor and expert groups; none where a node does."""
    assert segment(nodes, mesh) == value


def test_where_there_are_no_blocks() -> None:
    """Slurm's other topologies ignore the option, and releases before 24.05 do not know it."""
    assert segment(2, "tensor = 8", site=None) is None
    assert segment(2, "tensor = 8", site="docker") is None


def test_what_the_job_says_stands() -> None:
    """Also the segment of one node, which is none."""
    assert segment(4, "tensor = 8, data = 2", more="slurm.segment = 4\n") == "4"
    assert segment(20, "tensor = 80", more="slurm.segment = 1\n") == "1"


def test_a_group_that_no_block_holds_is_refused() -> None:
    """With both numbers, and the way to let it cross."""
    with pytest.raises(PlanError) as raised:
        segment(20, "tensor = 80")
    said = str(raised.value)
    assert "blocks of 18 nodes" in said
    assert "20 nodes per group, with 4 ranks per node" in said
    assert "slurm.segment = 1" in said
