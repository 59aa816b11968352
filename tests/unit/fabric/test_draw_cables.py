"""The grid of cables: its cells are the cables of the fabric, its headline is what is down."""

from __future__ import annotations

from collections import Counter
from xml.etree.ElementTree import Element

import pytest
from defusedxml.ElementTree import fromstring

from hpckit.core.svg import DARK
from hpckit.fabric.cables import CableGrid, State, cable_grid
from hpckit.fabric.file import read_fabric
from hpckit.fabric.picture import picture_of
from hpckit.fabric.topology import ClusterTopology
from tests.corpus import corpus_file
from tests.ib_fabrics import MadeFabric, leaf, three_tier, two_tier
from tests.svg_boxes import SVG

NDR = "ib-fabric/topograph-dgx-8racks-4rail-ndr.ibnetdiscover.out"
KINDS = {
    "rails": two_tier,
    "pods": three_tier,
    "1024 leaves": lambda: two_tier(8, 128, 2, spines=32, cables=1),
}


def _ndr() -> ClusterTopology:
    (topology,) = read_fabric(corpus_file(NDR).read_bytes(), NDR)
    return topology


def _grid(topology: ClusterTopology) -> CableGrid:
    grid = cable_grid(topology)
    assert grid is not None
    return grid


def _headline(made: MadeFabric) -> str:
    return _grid(made.topology()).headline


def _without(made: MadeFabric, lower: str, upper: str, cables: int) -> MadeFabric:
    """Take so many cables between two switches away."""
    for wire in [one for one in made.wires if (one.lower, one.upper) == (lower, upper)][:cables]:
        made.wires.remove(wire)
    return made


def _texts(root: Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def _cells(root: Element, *kinds: str) -> list[tuple[str, str]]:
    """The class and the number of each cell; samples of the legend have none."""
    return [
        (group.get("class", ""), text)
        for group in root.iter(f"{SVG}g")
        if group.get("class") in kinds and (text := group.findtext(f"{SVG}text"))
    ]


def test_a_capture_has_each_of_its_cables_in_a_cell() -> None:
    """The racks, rails and the leaf that is not there are told by names and by nodes."""
    topology = _ndr()
    grid = _grid(topology)
    assert grid.headline == "26 of 558 leaf–spine cables are down; leaf 03-01 is absent"
    up = {(link.lower, link.upper): len(link.cables or ()) for link in topology.links}
    (section,) = grid.sections
    for row in section.rows:
        for upper, cell in zip(section.uppers, row.cells, strict=False):
            assert cell is not None
            assert cell.cables == up.get((row.switch, upper), 0)
    assert Counter((row.rack, row.rail) for row in grid.rows) == {
        (f"{rack:02d}", rail): 1 for rack in range(1, 9) for rail in range(4)
    }


def test_its_picture_shows_what_is_down_beside_what_is_up() -> None:
    """Fewer cables and none are of another class each, and an absent leaf has a row."""
    root = fromstring(picture_of(_ndr()))
    assert root.findtext(f"{SVG}title") == (
        "26 of 558 leaf–spine cables are down; leaf 03-01 is absent"
    )
    expected = Counter({("up", "2"): 263, ("fewer", "1"): 6, ("none", "0"): 10})
    assert Counter(_cells(root, *State)) == expected
    assert _cells(root, "note") == [("note", "absent")]
    assert {"rack", "rail", "leaf", "ports", "spine"} <= set(_texts(root))
    assert Counter(_texts(root))["rail"] == 1


def test_the_headline_says_what_is_wrong() -> None:
    """One cable, a leaf that nothing leads from, a spine that all miss, or nothing."""
    assert _headline(two_tier()) == "All 128 leaf–spine cables are up"
    assert _headline(_without(two_tier(), leaf(0, 1), "spine-02", 1)) == (
        "1 of 128 leaf–spine cables is down"
    )
    alone = two_tier()
    for top in range(4):
        _without(alone, leaf(1, 2), f"spine-{top + 1:02d}", 2)
    assert _headline(alone) == (
        "Leaf 02-03 has no uplink; all 120 leaf–spine cables of the others are up"
    )
    assert _headline(three_tier()).startswith("All 72 cables between switches")


def test_a_spine_that_all_leaves_miss_a_cable_to_is_named() -> None:
    """Each pair is marked, though no leaf has fewer cables than another."""
    made = two_tier()
    for name in list(made.switches):
        _without(made, name, "spine-03", 1)
    grid = _grid(made.topology())
    assert "03 has 16 cables from below, the others 32" in grid.headline
    assert {row.cells[2].state for row in grid.rows if row.cells[2]} == {State.FEWER}


def test_of_many_leaves_those_that_lack_nothing_share_a_row() -> None:
    """The rows that remain are those with something down, and what is absent."""
    made = two_tier(8, 32, 4, spines=8, cables=1)
    _without(made, leaf(2, 6), "spine-05", 1)
    made.without_switch(leaf(4, 4))
    root = fromstring(picture_of(made.topology()))
    texts = _texts(root)
    assert "254 others" in texts
    assert {"03-07", "05-05"} <= set(texts)
    assert Counter(_cells(root, *State)) == {("up", "1"): 15, ("none", "0"): 1}


@pytest.mark.parametrize("made", KINDS.values(), ids=KINDS)
def test_no_text_is_small_on_a_slide(made: object) -> None:
    """At a width of 1280 each is 11 pixels high or more."""
    assert callable(made)
    root = fromstring(picture_of(made().topology()))
    assert float(root.get("width", "nan")) <= 1280
    assert min(float(text.get("font-size", "0")) for text in root.iter(f"{SVG}text")) >= 11


def _light(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return sum(share * one for share, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _contrast(one: str, other: str) -> float:
    low, high = sorted((_light(one), _light(other)))
    return (high + 0.05) / (low + 0.05)


def test_numbers_are_legible_on_light_and_on_dark() -> None:
    """The contrast of each cell's number is that of WCAG for text of any size."""
    made = _without(_without(two_tier(), leaf(0, 1), "spine-02", 1), leaf(2, 0), "spine-01", 2)
    made.without_switch(leaf(1, 1))
    root = fromstring(picture_of(made.topology()))
    light = {
        (group.get("class", ""), shape.get("fill", ""), text.get("fill", ""))
        for group in root.iter(f"{SVG}g")
        for shape, text in zip([*group][1:2], group.iter(f"{SVG}text"), strict=False)
    }
    assert {kind for kind, _, _ in light} == {"up", "fewer", "none", "note"}
    for _, fill, ink in light:
        assert _contrast(fill, ink) >= 4.5
        assert _contrast(DARK[fill], DARK[ink]) >= 4.5
