"""Ways through symbolic links."""

from __future__ import annotations

import time

from hpckit.core.file_tree import MOST_HOPS, MOST_NAMES, LinkedPaths
from tests.pace import slowness


def test_links_are_followed_as_if_the_root_were_slash() -> None:
    """A target is taken from the link's folder, or from the root; `..` stays below it."""
    links = {"class/eth0": "../dev/pci/eth0", "abs": "/dev", "up": "../../dev/pci/..", "in": "abs"}
    ways = LinkedPaths(links.get)
    assert ways.real("class/eth0/speed") == "dev/pci/eth0/speed"
    assert (
        ways.real("abs/pci") == ways.real("in/pci") == ways.real("./class/../in//pci") == "dev/pci"
    )
    assert ways.real("up") == "dev"
    assert ways.real("../..") == ""


def test_as_many_links_as_linux_follows() -> None:
    """40 on one way, also where the rest of the way was found before."""
    chain = {f"hop{at}": f"hop{at + 1}/." for at in range(MOST_HOPS + 1)} | {"deep": "hop1/x"}
    for asked_before in ([], ["hop20", "hop40"], ["hop1", "hop1/x"]):
        ways = LinkedPaths(chain.get)
        for path in asked_before:
            ways.real(path)
        assert ways.real("hop1/x") == f"hop{MOST_HOPS + 1}/x"
        assert (ways.real("hop0/x"), ways.real("deep/y")) == (None, None)


def test_a_circle_has_no_end() -> None:
    """Neither has a link to itself."""
    ways = LinkedPaths({"a": "b/c", "b/c": "../a", "self": "self"}.get)
    assert (ways.real("a"), ways.real("b/c/x"), ways.real("self/x")) == (None, None, None)
    assert ways.real("b") == "b"


def test_what_is_made_up_to_be_long_costs_little() -> None:
    """A way of too many names has no end, and thousands of long ones take no time to speak of."""
    assert LinkedPaths(dict[str, str]().get).real("a/" * MOST_NAMES + "a") is None
    links = {f"l{at}": "x/" * 120 + f"../l{at + 1}" for at in range(20_000)}
    ways = LinkedPaths(links.get)
    begun_s = time.process_time()
    for at in range(0, 20_000, 3):
        ways.real(f"l{at}")
    assert time.process_time() - begun_s < 5 * slowness()
