"""`hpckit place --format svg`: which axis has the colours, and the counts of the table."""

from __future__ import annotations

import click
import pytest

from hpckit.app.place import PlaceQuestion, place_on
from hpckit.cli.place_svg import svg
from hpckit.model.fabric import ClusterTopology
from hpckit.model.job import MeshAxis
from hpckit.model.placement import Placement
from hpckit.parse.topology_conf import parse_topology_conf

CONF = """\
SwitchName=a Nodes=n[1,3,5,7,9,11,13,15]
SwitchName=b Nodes=n[2,4,6,8,10,12,14,16]
SwitchName=top Switches=a,b
"""
SIZES = {MeshAxis.TENSOR: 8, MeshAxis.DATA: 4, MeshAxis.PIPELINE: 4}


def _placed(
    volumes: dict[MeshAxis, float],
) -> tuple[PlaceQuestion, ClusterTopology, Placement]:
    topology = parse_topology_conf(CONF, "made")
    question = PlaceQuestion(
        nodes=tuple(f"n{at}" for at in range(1, 17)),
        ranks_per_node=8,
        sizes=SIZES,
        volumes=volumes,
    )
    return question, topology, place_on(question, topology)


@pytest.mark.parametrize("axis", ["data", "pipeline"])
def test_the_axis_that_is_asked_for_has_the_colours(axis: str) -> None:
    """With the counts that the table shows for it."""
    question, topology, placement = _placed({MeshAxis.DATA: 4e9, MeshAxis.PIPELINE: 2e8})
    text = svg(question, topology, placement, axis)
    found = placement.groups[axis]
    assert f"colours: {axis}, {found.groups} groups of {found.nodes_per_group} nodes" in text
    for figure in (found.straddling.placed, found.straddling.hostname):
        assert f">{figure} of {found.groups} groups split</text>" in text


def test_the_axis_that_takes_longest_is_shown_unless_said() -> None:
    """Of those that cross nodes."""
    assert "colours: data" in svg(*_placed({MeshAxis.DATA: 4e9, MeshAxis.PIPELINE: 1.0}), None)
    assert "colours: pipeline" in svg(*_placed({MeshAxis.DATA: 1.0, MeshAxis.PIPELINE: 4e9}), None)


def test_an_axis_within_nodes_says_so() -> None:
    """No group of it crosses nodes."""
    assert "every group of tensor stays on its node" in svg(*_placed({}), "tensor")


def test_an_unknown_axis_names_the_others() -> None:
    """It is a mistake of the command line."""
    with pytest.raises(click.UsageError, match=r"no axis 'dta'.*tensor, data, pipeline"):
        svg(*_placed({}), "dta")
