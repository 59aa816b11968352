"""The picture of a network: every domain is told, alone or with those that are like it."""

from __future__ import annotations

import re
from itertools import combinations
from xml.etree.ElementTree import Element

import pytest
from defusedxml.ElementTree import fromstring

from hpckit.fabric.domains import locality_of
from hpckit.fabric.locality import Locality
from hpckit.fabric.picture import fabric_svg
from tests.fakes.fabrics import tree
from tests.ib_fabrics import three_tier, two_tier
from tests.svg_boxes import SVG, Box, boxes, extent

SHAPES = {
    "8": tree([[4, 4]]),
    "rails": locality_of(two_tier().topology()),
    "pods": locality_of(three_tier().topology()),
    "10240": tree([[32] * 32] * 10),
    "unlike": tree([[(7 * at) % 31 + 1 for at in range(40)] for _ in range(8)]),
}
every_shape = pytest.mark.parametrize("locality", SHAPES.values(), ids=SHAPES)


def _root(locality: Locality) -> Element:
    root: Element = fromstring(fabric_svg(locality, title="made up"))
    return root


def _words(locality: Locality) -> list[str]:
    return [box.words() for box in boxes(_root(locality), "domain")]


@every_shape
def test_boxes_lie_beside_each_other_on_a_bounded_page(locality: Locality) -> None:
    """However many nodes there are; and text fits its box."""
    root = _root(locality)
    found = boxes(root, "domain")
    assert [pair for pair in combinations(found, 2) if pair[0].overlaps(pair[1])] == []
    width, height = float(root.get("width", "0")), float(root.get("height", "0"))
    assert height < 3000
    page = Box("page", 0, 0, width, height, ())
    for box in found:
        assert page.holds(box)
        for text in box.texts:
            start, end = extent(text)
            assert box.x <= start <= end <= box.right, text.text


def test_few_leaves_have_a_box_each_with_their_nodes() -> None:
    """What leads out is told in Gb/s where cables tell it."""
    words = _words(SHAPES["rails"])
    assert len(words) == 5
    assert words[1].startswith("leaf-[01-04]-01 8 nodes · 12.8 Tb/s up n01-c[01-08]")


def test_many_leaves_that_are_alike_share_a_box() -> None:
    """Ten thousand nodes are three boxes; of unlike leaves the rest are counted."""
    words = _words(SHAPES["10240"])
    assert len(words) == 3
    assert words[2].startswith("320 blocks leaf[0-319] 32 below each, 32 nodes each")
    words = _words(SHAPES["unlike"])
    assert len(words) <= 61
    assert any(re.match(r"… and \d+ more blocks", text) for text in words)


def test_wires_tell_what_is_not_known() -> None:
    """A domain whose cables nobody tells hangs on a dashed wire."""
    wires = list(_root(SHAPES["8"]).iter(f"{SVG}path"))
    assert [wire.get("stroke-dasharray") for wire in wires] == ["3 3"] * 2
    assert not any(
        wire.get("stroke-dasharray") for wire in _root(SHAPES["rails"]).iter(f"{SVG}path")
    )
