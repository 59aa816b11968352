"""Any node is shown as text and as a picture, and no name in it breaks either."""

from __future__ import annotations

from itertools import combinations
from xml.etree import ElementTree as ET

from defusedxml.ElementTree import fromstring
from hypothesis import given

from hpckit.core.findings import Finding
from hpckit.core.text import Line, columns
from hpckit.node.answers import differences, shape
from hpckit.node.picture.picture import node_svg
from hpckit.node.show import group_lines, node_lines
from hpckit.node.topology import NodeTopology
from tests.fakes.answers import grouped
from tests.property.node_values import findings, topologies
from tests.svg_boxes import boxes

SVG = "{http://www.w3.org/2000/svg}"
TAGS = ("svg", "style", "title", "desc", "g", "rect", "path", "text", "circle")
DRAWN = {f"{SVG}{tag}" for tag in TAGS}


def _moves_nothing(lines: list[Line], width: int) -> bool:
    """Whether each line fits; a command to copy is whole whatever its length."""
    return all(
        line.text.isprintable() and ("hpckit inspect" in line.text or columns(line.text) <= width)
        for line in lines
    )


@given(topologies, findings)
def test_text_of_any_node_stays_in_its_lines(
    topology: NodeTopology, found: tuple[Finding, ...]
) -> None:
    """No line is wider than asked for, and none holds what a terminal acts on."""
    assert _moves_nothing(node_lines(topology, found), 80)
    assert _moves_nothing(node_lines(topology, found, width=40), 40)


@given(topologies, findings)
def test_picture_of_any_node_is_plain_svg(
    topology: NodeTopology, found: tuple[Finding, ...]
) -> None:
    """It parses, holds no element that is not drawn here, and no attribute that acts."""
    root: ET.Element = fromstring(node_svg(topology, found))
    for element in root.iter():
        assert element.tag in DRAWN
        assert not [name for name in element.attrib if name.startswith("on") or "href" in name]
        assert "nan" not in "".join(element.attrib.values()).replace("nano", "")


@given(topologies)
def test_boxes_of_any_node_do_not_overlap(topology: NodeTopology) -> None:
    """However many devices hang wherever, no box lies over another."""
    found = boxes(fromstring(node_svg(topology)))
    assert [pair for pair in combinations(found, 2) if pair[0].overlaps(pair[1])] == []


@given(topologies, topologies)
def test_a_node_does_not_differ_from_itself(a: NodeTopology, b: NodeTopology) -> None:
    """Differences of a node to itself are none, and every host is in one group."""
    assert differences(a, a) == ()
    groups = grouped((("n1", a), ("n2", b), ("n3", a)))
    assert sorted(host for group in groups for host in group.nodes) == ["n1", "n2", "n3"]
    assert shape(a) != shape(b) or len(groups) == 1
    assert _moves_nothing(group_lines(groups), 80)
