"""`hpckit place --format svg`: which axis has the colours, and the counts of the table."""

from __future__ import annotations

import click
import pytest

from hpckit.cli.place import svg
from hpckit.core.units import short_time
from hpckit.fabric.slurm_files import parse_topology_conf
from hpckit.fabric.topology import ClusterTopology
from hpckit.placement.place import PlaceQuestion, place_on
from hpckit.placement.request import Placement
from hpckit.spec.job import MeshAxis

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


@pytest.mark.parametrize("volumes", [(4e9, 1.0), (1.0, 4e9)])
def test_the_axis_that_the_order_changes_most_is_shown_unless_said(
    volumes: tuple[float, float],
) -> None:
    """The one whose groups are split most unlike between the two orders."""
    placed = _placed(dict(zip((MeshAxis.DATA, MeshAxis.PIPELINE), volumes, strict=True)))
    changed = {
        name: abs(one.straddling.placed - one.straddling.hostname)
        for name, one in placed[2].groups.items()
    }
    most = max(changed, key=lambda name: changed[name])
    assert sorted(changed.values())[-1] > sorted(changed.values())[-2]
    assert f"colours: {most}" in svg(*placed, None)


def test_each_order_has_its_predicted_time() -> None:
    """The one that the table shows; the title is the name of the file."""
    placed = _placed({MeshAxis.DATA: 4e9, MeshAxis.PIPELINE: 2e8})
    time = placed[2].objectives["step_comm_time_s"]
    text = svg(*placed, None, file="/far/away/net.conf")
    for seconds in (time.placed, time.hostname):
        assert f">predicted {short_time(seconds)}</text>" in text
    assert "<title>net.conf</title>" in text


def test_an_axis_within_nodes_is_refused() -> None:
    """No group of it crosses nodes; the axes that do are named."""
    with pytest.raises(click.UsageError, match="stays on its node: --axis data or --axis pipeline"):
        svg(*_placed({}), "tensor")


def test_an_unknown_axis_names_the_others() -> None:
    """It is a mistake of the command line."""
    with pytest.raises(click.UsageError, match=r"no axis 'dta'.*tensor, data, pipeline"):
        svg(*_placed({}), "dta")
