"""The picture of a placement: each node is in it once in each order, split groups are counted."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, pairwise
from xml.etree.ElementTree import Element

import pytest
from defusedxml.ElementTree import fromstring

from hpckit.core.svg import PALETTE, group_colours, ink_on
from hpckit.fabric.locality import ROOT, Domain, Locality
from hpckit.placement.picture import placement_svg
from tests.fakes.fabrics import tree
from tests.svg_boxes import SVG, Box, boxes, extent

_RECT = re.compile(r"M([\d.]+) ([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+z")


def _rects(root: Element, *kinds: str) -> list[Box]:
    """The rectangles of the paths of these kinds."""
    found = []
    for group in root.iter(f"{SVG}g"):
        for shape in group.findall(f"{SVG}path") if group.get("class") in kinds else ():
            for one in _RECT.findall(shape.get("d", "")):
                x, y, w, h = map(float, one)
                texts = tuple(group.iter(f"{SVG}text"))
                found.append(Box(str(group.get("class")), x, y, x + w, y + h, texts))
    return found


def _titles(root: Element, kind: str) -> list[str]:
    groups = (group for group in root.iter(f"{SVG}g") if group.get("class") == kind)
    return [group.findtext(f"{SVG}title") or "" for group in groups]


def _renamed(locality: Locality, names: Sequence[str]) -> Locality:
    domains = zip(locality.domains, names, strict=True)
    return replace(locality, domains=tuple(replace(one, name=name) for one, name in domains))


def _text(root: Element) -> list[str]:
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def _picture(locality: Locality, group: int, per_node: int = 8) -> str:
    """Groups of so many positions that follow each other; placed leaf by leaf."""
    placed = sorted(locality.domain_of, key=lambda node: (locality.domain_of[node], node))
    groups = [tuple(range(at, at + group)) for at in range(0, len(placed), group)]
    return placement_svg(
        locality,
        (placed, sorted(placed)),
        groups,
        axis="data",
        ranks_per_node=per_node,
        title="made up",
    )


SHAPES = {
    "8": ([[4, 4]], 4),
    "64": ([[10, 10, 10, 10, 10, 10, 4]], 4),
    "pods": ([[8, 8], [8, 8], [16]], 8),
    "300": ([[30] * 5, [30] * 5], 10),
    "1024": ([[32] * 8] * 4, 16),
}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


@pytest.mark.parametrize(("leaves", "each", "group"), [(128, 32, 16), (512, 8, 8)])
def test_large_pictures_cover_each_node_in_few_bytes(leaves: int, each: int, group: int) -> None:
    """The runs cover the area of all nodes, none twice, whatever their number."""
    locality = tree([[each] * (leaves // 8)] * 8)
    text = _picture(locality, group)
    assert len(text) <= 2_000_000
    runs = _rects(fromstring(text), "run")
    side = min(run.bottom - run.y for run in runs)
    cells = [
        (run.x + i * side, run.y + j * side)
        for run in runs
        for i in range(round((run.right - run.x) / side))
        for j in range(round((run.bottom - run.y) / side))
    ]
    assert len(cells) == len(set(cells)) == 2 * each * leaves


@every_shape
def test_nodes_lie_in_a_leaf_and_leaves_beside_each_other(
    shape: tuple[list[list[int]], int],
) -> None:
    """Each cell is in one leaf, each leaf in one pod where there are pods, all on the page."""
    pods, group = shape
    root = fromstring(_picture(tree(pods), group))
    leaves, frames = boxes(root, "leaf"), boxes(root, "pod")
    assert len(leaves) == 2 * sum(map(len, pods))
    assert [pair for pair in combinations(leaves, 2) if pair[0].overlaps(pair[1])] == []
    for cell in _rects(root, "cell", "run"):
        assert sum(leaf.holds(cell) for leaf in leaves) == 1
    if frames:
        several = sum(len(pod) > 1 for pod in pods)
        assert len(frames) == 2 * several
        assert [pair for pair in combinations(frames, 2) if pair[0].overlaps(pair[1])] == []
    page = Box("page", 0, 0, float(root.get("width", "0")), float(root.get("height", "0")), ())
    assert all(page.holds(box) for box in (*leaves, *frames))


@every_shape
def test_text_fits_and_lies_over_no_other(shape: tuple[list[list[int]], int]) -> None:
    """Texts end within the page and their cells, and no two lie over each other."""
    pods, group = shape
    root = fromstring(_picture(tree(pods), group))
    for cell in _rects(root, "cell"):
        for text in cell.texts:
            start, end = extent(text)
            assert cell.x <= start <= end <= cell.right, text.text
            assert cell.y < float(text.get("y", "nan")) <= cell.bottom
    areas = []
    for label in root.iter(f"{SVG}text"):
        start, end = extent(label)
        y, size = float(label.get("y", "nan")), float(label.get("font-size", "0"))
        assert 0 <= start <= end <= float(root.get("width", "0")), label.text
        areas.append(Box(label.text or "", start, y - size * 0.7, end, y, ()))
    areas.sort(key=lambda area: (area.y, area.x))
    assert [pair for pair in pairwise(areas) if pair[0].overlaps(pair[1])] == []


def test_split_groups_are_counted_for_each_order() -> None:
    """Names that are dealt at random split groups that the placed order does not."""
    root = fromstring(_picture(tree([[8] * 4]), 4))
    words = _text(root)
    assert words.index("by host name") < words.index("hpckit's order")
    assert "8 of 8 data groups split · on up to 4 blocks" in words
    assert "0 of 8 data groups split" in words
    assert "colour and number: 8 data groups of 4 nodes" in " · ".join(words)
    # So it is told to who cannot see it.
    assert root.findtext(f"{SVG}title") == "made up"
    assert "by host name: 8 of 8 data groups split" in (root.findtext(f"{SVG}desc") or "")


def _outlined(root: Element) -> list[Box]:
    """What the lines around cells enclose, each in the ink of its cells."""
    found = []
    for line in root.iter(f"{SVG}path"):
        for shape in line.get("d", "").split("z") if line.get("class") == "kept" else ():
            at = [tuple(map(float, one)) for one in re.findall(r"([\d.]+) ([\d.]+)", shape)]
            if at:
                xs, ys = zip(*at, strict=True)
                found.append(Box("outline", min(xs), min(ys), max(xs), max(ys), ()))
    return found


@every_shape
def test_outlines_are_around_split_groups_alone(shape: tuple[list[list[int]], int]) -> None:
    """A line lies on a cell where, and only where, its group is on several leaves of its order."""
    pods, group = shape
    root = fromstring(_picture(tree(pods), group))
    half = float(root.get("width", "0")) / 2
    lines = _outlined(root)
    leaves = boxes(root, "leaf")
    where: dict[tuple[bool, str], set[int]] = {}
    cells = [cell for cell in _rects(root, "cell", "run") if cell.texts]
    for cell in cells:
        leaf = next(at for at, one in enumerate(leaves) if one.holds(cell))
        where.setdefault((cell.x > half, cell.texts[-1].text or ""), set()).add(leaf)
    for cell in cells:
        is_split = len(where[cell.x > half, cell.texts[-1].text or ""]) > 1
        assert any(one.overlaps(cell) for one in lines) == is_split


@pytest.mark.parametrize("group", [2, 4])
def test_no_text_is_small_on_a_slide(group: int) -> None:
    """At a width of 1280 each is 11 pixels high or more, whatever is drawn."""
    for pods, _ in SHAPES.values():
        root = fromstring(_picture(tree(pods), group))
        scale = 1280 / float(root.get("width", "nan"))
        assert scale >= 1
        assert min(float(text.get("font-size", "0")) for text in root.iter(f"{SVG}text")) >= 11


def test_a_group_has_one_colour_in_both_orders() -> None:
    """Few groups have a colour each, and their number beside it."""
    root = fromstring(_picture(tree([[4, 4]]), 2))
    found: dict[str, set[str]] = {}
    for group in root.iter(f"{SVG}g"):
        shape = group.find(f"{SVG}path")
        if group.get("class") == "cell" and shape is not None:
            number = (group.findtext(f"{SVG}title") or "").split(" · ")[2]
            found.setdefault(number, set()).add(shape.get("fill", ""))
    assert [len(colours) for colours in found.values()] == [1] * 4
    assert len(set.union(*found.values())) == 4


def test_many_groups_say_that_colours_repeat() -> None:
    """Sixteen groups have their numbers in the cells, and words that say so."""
    words = _text(fromstring(_picture(tree([[10] * 6 + [4]]), 4)))
    assert "16 groups share 12 colours" in " · ".join(words)
    assert "15" in words


def test_a_node_in_two_groups_has_both_colours() -> None:
    """Groups of six ranks on nodes of four share a node: its cell is divided and tells both."""
    order = ("a", "b", "c")
    locality = Locality(
        domains=(Domain(name="leaf", level=1, parent=ROOT),),
        domain_of=dict.fromkeys(order, 0),
        nic_bytes_per_s={},
    )
    text = placement_svg(
        locality, (order, order), [(0, 1), (1, 2)], axis="tensor", ranks_per_node=4, title="t"
    )
    root = fromstring(text)
    assert "b · leaf · group 0+1 · ranks 4-7" in _titles(root, "cell")
    assert len(_rects(root, "share")) == 2
    assert "0|1" in _text(root)


def test_nodes_that_nobody_knows_stand_alone() -> None:
    """They are in a box that says so, and split no group."""
    locality = tree([[2, 2]], seed=None)
    order = (*locality.domain_of, "x1", "x2")
    groups = [(0, 2), (3, 4), (4, 5)]
    text = placement_svg(locality, (order, order), groups, axis="data", ranks_per_node=1, title="t")
    root = fromstring(text)
    assert "not in the fabric" in _titles(root, "pod")
    assert "1 of 3 data groups split · on up to 2 blocks" in _text(root)
    assert len(_rects(root, "cell")) == 12


def test_leaves_of_long_names_lose_them_before_they_overlap() -> None:
    """A name that no box has room for is told on pointing alone."""
    shown = tree([[2] * 100])
    locality = _renamed(shown, ["x" * 60 + one.name for one in shown.domains])
    root = fromstring(_picture(locality, 2))
    assert not any("xxx" in text for text in _text(root))
    assert any("xxx" in title for title in _titles(root, "leaf"))


def test_groups_of_a_leaf_have_unlike_colours() -> None:
    """Also where there are more groups than colours."""
    leaves = [range(at, at + 72, 12) for at in range(0, 600)]
    colours = group_colours(672, leaves)
    assert all(len({colours[group] for group in leaf}) == 6 for leaf in leaves)


def _lightness(colour: str) -> float:
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    linear = (one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in parts)
    return sum(share * one for share, one in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


@pytest.mark.parametrize("colour", PALETTE)
def test_numbers_are_legible_on_every_colour(colour: str) -> None:
    """The contrast of text on its cell is that of WCAG for text of any size."""
    one, other = sorted((_lightness(colour), _lightness(ink_on(colour))))
    assert (other + 0.05) / (one + 0.05) >= 4.5
