"""Fabrics of any shape: any text is read or refused, and one defect is one finding."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from hpckit.core.errors import ParseError
from hpckit.fabric.ibnetdiscover import parse_ibnetdiscover
from hpckit.fabric.rails import with_rails
from hpckit.fabric.rules import fabric_findings
from tests.fakes.slurm_records import record_text
from tests.ib_fabrics import MadeFabric, leaf, two_tier

RECORD = record_text("ibnetdiscover-rdma-core-50", "synthetic-two-rails")
LINES = RECORD.splitlines()

sizes = st.builds(
    two_tier,
    st.integers(2, 5),
    st.integers(3, 6),
    st.integers(3, 6),
    st.integers(2, 5),
    st.integers(1, 3),
)


@given(
    st.one_of(
        st.text(),
        st.text(alphabet='SHR[]()"-#0123456789abcdefx \t\nlid').map(lambda tail: RECORD + tail),
        st.lists(st.sampled_from(LINES), max_size=40).map("\n".join),
        st.tuples(st.integers(0, len(RECORD)), st.integers(0, 40), st.text(max_size=9)).map(
            lambda cut: RECORD[: cut[0]] + cut[2] + RECORD[cut[0] + cut[1] :]
        ),
    )
)
def test_any_text_is_a_fabric_or_a_parse_error(text: str) -> None:
    """And a fabric of any text has rails and findings, or none."""
    try:
        fabric = parse_ibnetdiscover(text, "any")
    except ParseError:
        return
    fabric_findings(with_rails(fabric), ["n1", "N2"])


@given(sizes, st.randoms(use_true_random=False))
def test_order_of_nodes_and_cables_changes_no_finding(
    made: MadeFabric, chance: random.Random
) -> None:
    """A clean fabric has none in any order, and its rails are complete."""
    for many in (made.hcas, made.wires, made.switches):
        chance.shuffle(many)
    fabric = with_rails(made.topology())
    assert fabric_findings(fabric) == ()
    leaves = {name for name in made.switches if name.startswith("leaf")}
    assert {name for rail in fabric.rails for name in rail.switches} == leaves


@given(sizes, st.integers(0, 6), st.randoms(use_true_random=False))
def test_one_defect_is_one_finding(made: MadeFabric, kind: int, chance: random.Random) -> None:
    """Whichever node, leaf or cable it is."""
    hca = chance.choice(made.hcas)
    rack, rail = int(hca.node[1:3]) - 1, int(hca.nic[5:])
    other = made.hang(hca.node, f"mlx5_{(rail + 1) % (1 + max(int(o.nic[5:]) for o in made.hcas))}")
    rule, subject = "", hca.node
    if kind == 0:
        made.exchange(hca, other)
        rule = "rails-swapped"
    elif kind == 1:
        made.hcas.remove(hca)
        rule = "rails-fewer"
    elif kind == 2:
        wire = chance.choice(made.wires)
        made.wires.remove(wire)
        rule, subject = "cables-missing", f"{wire.lower}–{wire.upper}"
    elif kind == 3:
        made.without_switch(leaf(rail, rack))
        rule, subject = "leaf-absent", leaf(rail, rack)
    elif kind == 4:
        made.change(lambda one: one == hca, speed="4xEDR")
        rule, subject = "link-slow", f"{hca.node} {hca.nic}"
    elif kind == 5:
        made.change(lambda one: one.node == hca.node, node="localhost")
        rule, subject = "name-says-nothing", "localhost"
    else:
        made.wires = [one for one in made.wires if one.lower != hca.switch]
        rule, subject = "switch-isolated", hca.switch
    found = [(one.rule, one.subject) for one in fabric_findings(made.topology())]
    assert found == [(rule, subject)]
