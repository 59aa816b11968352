"""What holds of every picture and every tree of a network and of a placement on it."""

from __future__ import annotations

from collections import Counter
from xml.etree.ElementTree import Element

from defusedxml.ElementTree import fromstring
from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.hostlist import expand_hosts
from hpckit.core.text import columns
from hpckit.fabric.domain_names import Branch, branches, short_names
from hpckit.fabric.locality import ROOT, Domain, Locality
from hpckit.fabric.picture import fabric_svg
from hpckit.fabric.show import fabric_lines
from hpckit.fabric.topology import ClusterTopology, FabricSource
from hpckit.placement.instance import straddling
from hpckit.placement.order import instance_of
from hpckit.placement.order_plan import Pattern
from hpckit.placement.picture import placement_svg
from tests.fakes.fabrics import mesh, request
from tests.svg_boxes import SVG

_NAME = st.text(min_size=1, max_size=30)


@st.composite
def _forest(draw: st.DrawFn) -> Locality:
    """Any domains whose parents come before them, with any names."""
    domains: list[Domain] = []
    for at in range(draw(st.integers(0, 60))):
        domains.append(
            Domain(
                name=draw(_NAME),
                level=draw(st.integers(0, 4)),
                parent=draw(st.integers(ROOT, at - 1)),
                uplink_bytes_per_s=draw(st.none() | st.floats(0, 1e15)),
                is_nvlink=draw(st.booleans()),
            )
        )
    nodes = draw(st.sets(_NAME, max_size=20)) if domains else set()
    return Locality(
        domains=tuple(domains),
        domain_of={node: draw(st.integers(0, len(domains) - 1)) for node in sorted(nodes)},
        nic_bytes_per_s={},
    )


def _kinds(root: Element, kind: str) -> list[str]:
    groups = (group for group in root.iter(f"{SVG}g") if group.get("class") == kind)
    return [group.findtext(f"{SVG}title") or "" for group in groups]


@st.composite
def _levelled(draw: st.DrawFn) -> Locality:
    """A forest in which each domain is on a lower level than its parent, some levels left out."""
    levels = [draw(st.integers(3, 6))]
    parents = [ROOT]
    for at in range(1, draw(st.integers(1, 25))):
        parent = draw(st.sampled_from([ROOT, *(i for i in range(at) if levels[i])]))
        top = 6 if parent == ROOT else levels[parent] - 1
        parents.append(parent)
        levels.append(draw(st.integers(0, top)))
    domains = tuple(
        Domain(name=f"d{at}", level=levels[at], parent=parents[at]) for at in range(len(levels))
    )
    count = draw(st.integers(1, 40))
    return Locality(
        domains=domains,
        domain_of={f"n{at}": draw(st.integers(0, len(levels) - 1)) for at in range(count)},
        nic_bytes_per_s={},
    )


@given(_levelled(), st.integers(0, 3), st.sampled_from((1, 2, 3, 8)), st.data())
def test_split_counts_are_those_of_the_objective(
    locality: Locality, lost: int, per_node: int, data: st.DataObject
) -> None:
    """The picture counts what the search does, and draws every node once in each order."""
    names = [*locality.domain_of, *(f"x{at}" for at in range(lost))]
    ranks = len(names) * per_node
    size = data.draw(st.sampled_from([one for one in range(1, ranks + 1) if ranks % one == 0]))
    wanted = mesh(("data", size, Pattern.RING, 4e9), ("pipeline", ranks // size, Pattern.CHAIN, 1))
    instance = instance_of(request(locality, wanted, per_node=per_node, nodes=names))
    orders = [data.draw(st.permutations(range(len(names)))) for _ in range(2)]
    named = [tuple(instance.nodes[at] for at in order) for order in orders]
    for axis, traffic in enumerate(instance.traffic):
        text = placement_svg(
            locality,
            (named[0], named[1]),
            [group.nodes for group in traffic.groups],
            axis=traffic.axis.name,
            ranks_per_node=per_node,
            title="t",
        )
        root = fromstring(text)
        words = [one.text or "" for one in root.iter(f"{SVG}text")]
        shown = [
            one.partition(" group")[0]
            for one in words
            if "groups split" in one or "group split" in one
        ]
        count, name = len(traffic.groups), traffic.axis.name
        assert shown == [
            f"{straddling(instance, order, axis)} of {count} {name}" for order in orders[::-1]
        ] * bool(count)
        drawn = Counter(title.partition(" ")[0] for title in _kinds(root, "cell"))
        assert drawn == dict.fromkeys(names, 2)


@given(_forest(), st.integers(1, 4), st.lists(_NAME, max_size=5), st.data())
def test_any_names_and_any_domains_give_a_picture_of_the_placement(
    locality: Locality, per_node: int, lost: list[str], data: st.DataObject
) -> None:
    """Also of nodes that nobody knows; the same twice."""
    order = tuple(dict.fromkeys((*locality.domain_of, *lost)))
    places = st.lists(st.integers(0, max(0, len(order) - 1)), min_size=1, max_size=6)
    groups = data.draw(st.lists(places, max_size=40)) if order else []
    texts = {
        placement_svg(
            locality,
            (order, tuple(sorted(order))),
            groups,
            axis="<data>",
            ranks_per_node=per_node,
            title="\x00<&",
        )
        for _ in range(2)
    }
    assert len(texts) == 1
    assert len(_kinds(fromstring(texts.pop()), "cell")) == 2 * len(order)


@given(_forest(), st.integers(0, 60))
def test_branches_hold_every_domain_or_count_it(locality: Locality, most: int) -> None:
    """The nodes of the outermost branches are all nodes; each domain is told or in a rest."""
    found = branches(locality, most)
    nodes = [node for branch in found for node in branch.nodes]
    assert sorted(nodes) == sorted(locality.domain_of)
    told = [at for branch in found for at in _all(branch)]
    assert len(told) == len(set(told))
    if len(locality.domains) <= most and not any(map(_has_rest, found)):
        assert sorted(told) == list(range(len(locality.domains)))


def _all(branch: Branch) -> list[int]:
    return [*branch.domains, *(at for one in branch.children for at in _all(one))]


def _has_rest(branch: Branch) -> bool:
    return branch.is_rest or any(map(_has_rest, branch.children))


@given(_forest())
def test_any_names_and_any_domains_give_a_picture_and_a_text(locality: Locality) -> None:
    """The picture is XML; no line of the text is too wide or moves the cursor."""
    fromstring(fabric_svg(locality, title="\x1b]<"))
    topology = ClusterTopology(source=FabricSource.TOPOLOGY_CONF)
    for line in fabric_lines(topology, locality, width=60):
        assert line.text.isprintable()
        assert columns(line.text) <= 60 or "hpckit " in line.text


@given(st.sets(st.integers(0, 300), min_size=1, max_size=40), st.booleans())
def test_short_names_say_the_names_themselves(numbers: set[int], is_padded: bool) -> None:
    """A list that is whole names them and no others."""
    names = {f"leaf{number:03d}" if is_padded else f"leaf{number}" for number in numbers}
    shown = short_names(sorted(names), 4000)
    assert set(expand_hosts(shown)) == names
