"""Where nodes are, in the words that people read."""

from __future__ import annotations

import pytest

from hpckit.fabric.domain_names import leaf_of, place_kind, where_words
from hpckit.fabric.locality import ROOT, Domain, Locality

MIXED = Locality(
    domains=(
        Domain(name="cb1", level=0, parent=2, is_nvlink=True),
        Domain(name="cb2", level=0, parent=3, is_nvlink=True),
        Domain(name="l1", level=1, parent=4),
        Domain(name="l2", level=1, parent=4),
        Domain(name="s", level=2),
    ),
    domain_of={"a1": 0, "a2": 0, "b1": 1, "c1": 3, "c2": 3, "d1": 4},
    nic_bytes_per_s={},
)


@pytest.mark.parametrize(
    ("nodes", "words", "kind"),
    [
        (("c1", "c2"), "on one leaf", "leaves"),
        (("a1", "a2", "b1"), "in 2 NVLink domains on 2 leaves", "NVLink domains"),
        (("a1", "a2", "c1"), "on 2 leaves, 2 nodes in one NVLink domain", "domains"),
        (("c1", "d1"), "on one leaf and one top", "domains"),
        (("c1", "x1", "x2"), "on one leaf, 2 nodes unknown", "leaves"),
    ],
)
def test_nodes_are_where_their_lowest_domains_are(
    nodes: tuple[str, ...], words: str, kind: str
) -> None:
    """A leaf counts once, however many NVLink domains are on it; a node nobody knows has none."""
    assert where_words(MIXED, nodes) == words
    assert place_kind(MIXED, nodes) == kind


@pytest.mark.parametrize(("node", "leaf"), [("a1", 2), ("c1", 3), ("d1", ROOT), ("x", ROOT)])
def test_a_leaf_is_above_an_nvlink_domain(node: str, leaf: int) -> None:
    """A switch above leaves is none, and a node that nobody knows is on none."""
    assert leaf_of(MIXED, node) == leaf
