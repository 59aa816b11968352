"""The real NDR fabric of the corpus: its defects, counted a second time from the text itself."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from hpckit.core.findings import Finding
from hpckit.fabric.ibnetdiscover import parse_ibnetdiscover
from hpckit.fabric.rails import with_rails
from hpckit.fabric.rules import fabric_findings
from tests.corpus import corpus_file

CAPTURE = "ib-fabric/topograph-dgx-8racks-4rail-ndr.ibnetdiscover.out"
_LEAF = re.compile(r"IBLEAF-(\d\d)-(\d\d)")


@pytest.fixture
def text() -> str:
    """The capture."""
    return corpus_file(CAPTURE).read_text()


def findings(text: str) -> dict[str, Finding]:
    """The findings by rule, of which each is there once."""
    found = fabric_findings(parse_ibnetdiscover(text, CAPTURE))
    assert len({one.rule for one in found}) == len(found)
    return {one.rule: one for one in found}


def ends(text: str) -> list[tuple[str, str]]:
    """(switch, what hangs there) of each line of a switch, by regular expressions alone."""
    found = []
    for block in text.split("\n\n"):
        head = re.search(r'^Switch.*# "MF0;([^:]*):', block, re.MULTILINE)
        if head:
            lines = re.findall(r'^\[\d+\]\s+"[SH]-.*# "(.*)" lid', block, re.MULTILINE)
            found += [(head[1], words) for words in lines]
    return found


def test_its_findings_are_these_and_no_others(text: str) -> None:
    """One of each cause."""
    assert set(findings(text)) == {
        "leaf-absent",
        "cables-missing",
        "rails-swapped",
        "nics-anonymous",
        "name-says-nothing",
        "host-not-compute",
    }


def test_the_absent_leaf_is_the_one_its_names_lack(text: str) -> None:
    """Of the rails and racks in leaves' names one pair has no leaf."""
    places = {match.groups() for switch, _ in ends(text) if (match := _LEAF.search(switch))}
    rails, racks = {rail for rail, _ in places}, {rack for _, rack in places}
    (absent,) = {(rail, rack) for rail in rails for rack in racks} - places
    one = findings(text)["leaf-absent"]
    assert one.subject.endswith(f"-IBLEAF-{absent[0]}-{absent[1]}")
    beside = Counter(
        words.split()[0]
        for switch, words in ends(text)
        if switch.endswith(f"-{absent[1]}") and "-dgx-" in words and "IBLEAF" in switch
    )
    assert set(beside.values()) == {3}
    assert f"{len(beside)} named nodes therefore have 3 of 4 rails" in one.because
    assert len(beside) == 10
    assert "the same for localhost" in one.because


def test_the_missing_cables_are_those_that_no_pair_lists(text: str) -> None:
    """532 of 558 are up: 26 are missing over 16 pairs."""
    pairs = Counter(
        (switch, words.removeprefix("MF0;").partition(":")[0])
        for switch, words in ends(text)
        if "IBLEAF" in switch and "IBSPINE" in words
    )
    leaves, spines = {leaf for leaf, _ in pairs}, {spine for _, spine in pairs}
    missing = {
        f"{leaf}–{spine} {pairs[leaf, spine]} of 2"
        for leaf in leaves
        for spine in spines
        if pairs[leaf, spine] < 2
    }
    expected = 2 * len(leaves) * len(spines)
    assert (pairs.total(), expected, len(missing)) == (532, 558, 16)
    one = findings(text)["cables-missing"]
    assert f"{pairs.total()} of {expected} uplinks" in one.because
    assert (
        f"{expected - pairs.total()} cables are missing between {len(missing)} pairs" in one.because
    )
    assert all(pair in one.because for pair in missing)


def test_the_swapped_node_is_the_one_whose_nics_are_alone(text: str) -> None:
    """Each NIC's name is nearly always on the leaves of one rail."""
    rail_of = Counter(
        (words.split()[1], match[1])
        for switch, words in ends(text)
        if (match := _LEAF.search(switch)) and "-dgx-" in words
    )
    odd = {nic for nic, count in rail_of.items() if count == 1}
    (node,) = {
        words.split()[0]
        for switch, words in ends(text)
        if (match := _LEAF.search(switch))
        and "-dgx-" in words
        and (words.split()[1], match[1]) in odd
    }
    one = findings(text)["rails-swapped"]
    assert one.subject == node == "b08-p1-dgx-08-c01"
    assert all(nic in one.because for nic, _ in odd)


def test_anonymous_and_other_hosts_are_counted(text: str) -> None:
    """69 ports that say their model alone, of about 19 nodes, and two hosts that are no trays."""
    found = findings(text)
    anonymous = [switch for switch, words in ends(text) if words.startswith("MT4129")]
    by_rack: dict[str, Counter[str]] = {}
    for switch in anonymous:
        by_rack.setdefault(switch[-2:], Counter())[switch] += 1
    trays = sum(max(count.values()) for count in by_rack.values())
    assert (len(anonymous), trays) == (69, 19)
    assert found["nics-anonymous"].because.startswith(f"{len(anonymous)} HCA ports")
    assert f"about {trays} nodes" in found["nics-anonymous"].because
    assert found["name-says-nothing"].subject == "localhost"
    hosts = {
        words.split()[0]
        for switch, words in ends(text)
        if re.search(r" (?:mlx5_|HCA-)\d", words) and "-dgx-" not in words
    } - {"localhost"}
    assert set(found["host-not-compute"].subject.split(",")) == hosts
    assert f"{len(hosts)} hosts with 4 ports" in found["host-not-compute"].because


def test_its_rails_are_those_of_its_leaves_names(text: str) -> None:
    """Though half of the trays call their NICs otherwise."""
    fabric = with_rails(parse_ibnetdiscover(text, CAPTURE))
    assert len(fabric.rails) == 4
    for rail in fabric.rails:
        numbers = {match[1] for leaf in rail.switches if (match := _LEAF.search(leaf))}
        assert numbers == {f"0{rail.index + 1}"}
    assert sum(len(rail.switches) for rail in fabric.rails) == 31
    assert fabric.rails[2].nics == ("HCA-5", "mlx5_4")
