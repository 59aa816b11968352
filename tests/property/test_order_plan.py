"""The plan of an order as a document, and back."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpckit.fabric.locality import Domain, Locality
from hpckit.placement.order_plan import (
    ORDER_SCHEMA,
    Mesh,
    MeshAxis,
    OrderPlan,
    Pattern,
    order_of_tree,
    order_tree,
)

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,6}[0-9]{0,4}", fullmatch=True)
SPEEDS = st.floats(min_value=1.0, max_value=1e15)
AXES = st.builds(
    MeshAxis,
    name=st.sampled_from(["tensor", "data", "pipeline"]),
    size=st.integers(1, 1 << 20),
    pattern=st.sampled_from(list(Pattern)),
    bytes_per_rank=st.floats(min_value=0, max_value=1e18),
    splits=st.none(),
)


@st.composite
def plans(draw: st.DrawFn) -> OrderPlan:
    """Any plan: each domain's parent is one before it, and above it."""
    count = draw(st.integers(1, 6))
    domains = tuple(
        Domain(
            name=draw(st.text(max_size=8)),
            level=9 - at,
            parent=draw(st.integers(-1, at - 1)),
            uplink_bytes_per_s=draw(st.none() | SPEEDS),
            is_nvlink=draw(st.booleans()),
        )
        for at in range(count)
    )
    nodes = draw(st.lists(NAMES, unique=True, max_size=20))
    return OrderPlan(
        mesh=Mesh(axes=tuple(draw(st.lists(AXES, min_size=1, max_size=3, unique_by=_name)))),
        ranks_per_node=draw(st.integers(1, 64)),
        locality=Locality(
            domains=domains,
            domain_of={node: draw(st.integers(0, count - 1)) for node in nodes},
            nic_bytes_per_s={node: draw(SPEEDS) for node in nodes[::2]},
        ),
        nic_bytes_per_s=draw(SPEEDS),
        nvlink_bytes_per_s=draw(SPEEDS),
        oversubscription=draw(st.floats(1, 100)),
        source=draw(st.text(max_size=20)),
    )


def _name(axis: MeshAxis) -> str:
    return axis.name


@given(plan=plans())
def test_a_plan_comes_back_from_its_document(plan: OrderPlan) -> None:
    """As JSON, with every node in its domain and every figure exact."""
    assert order_of_tree(json.loads(json.dumps(order_tree(plan)))) == plan


def test_ten_thousand_nodes_are_lists_of_hosts() -> None:
    """A document for a job folder: a line a leaf, and no line a node."""
    nodes = {f"n{i:05d}": i // 64 for i in range(9984)}
    plan = OrderPlan(
        mesh=Mesh(axes=()),
        ranks_per_node=8,
        locality=Locality(
            domains=tuple(Domain(name=f"leaf{i}", level=0) for i in range(156)),
            domain_of=nodes,
            nic_bytes_per_s=dict.fromkeys(nodes, 4e11),
        ),
        nic_bytes_per_s=4e11,
        nvlink_bytes_per_s=3e12,
        oversubscription=2.0,
        source="topology.conf",
    )
    text = json.dumps(order_tree(plan))
    assert len(text) < 30_000
    assert order_of_tree(json.loads(text)) == plan


@pytest.mark.parametrize(
    "tree", [{}, {"schema": "hpckit.order/2"}, {"schema": ORDER_SCHEMA}, {"schema": None}]
)
def test_another_document_is_no_plan(tree: dict[str, object]) -> None:
    """Whatever is missing or of another format is one of three errors."""
    with pytest.raises((ValueError, KeyError, TypeError)):
        order_of_tree(tree)


PLAN = order_tree(
    OrderPlan(
        mesh=Mesh(
            axes=(
                MeshAxis(name="data", size=4, pattern=Pattern.RING, bytes_per_rank=1e9),
                MeshAxis(
                    name="expert",
                    size=2,
                    pattern=Pattern.ALL_TO_ALL,
                    bytes_per_rank=1e9,
                    splits="data",
                ),
            )
        ),
        ranks_per_node=1,
        locality=Locality(
            domains=(Domain(name="spine", level=1), Domain(name="leaf", level=0, parent=0)),
            domain_of={"n1": 1, "n2": 1, "n3": 0},
            nic_bytes_per_s={"n1": 5e10},
        ),
        nic_bytes_per_s=4e11,
        nvlink_bytes_per_s=3e12,
        oversubscription=2.0,
        source="topology.conf",
    )
)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"nic_bytes_per_s": float("nan")}, "expected a number"),
        ({"nic_bytes_per_s": -1}, "expected a number"),
        ({"nvlink_bytes_per_s": 0}, "expected more"),
        ({"oversubscription": float("inf")}, "expected a number"),
        ({"ranks_per_node": -2}, "expected a whole number"),
        ({"nodes": [[0, "n[1-2]"], [1, "n2"]]}, "n2 is there twice"),
        ({"nodes": [[2, "n1"]]}, "in a domain that is not there"),
        ({"nics": [[-1.0, "n1"]]}, "expected a number"),
        ({"mesh": PLAN["mesh"][:1] * 2}, "an axis is there twice"),
        ({"mesh": PLAN["mesh"][1:]}, "splits one that is not there"),
        ({"mesh": [{**PLAN["mesh"][0], "bytes_per_rank": -1}]}, "expected a number"),
        ({"mesh": [{**PLAN["mesh"][0], "size": 0}]}, "expected a whole number"),
        ({"domains": [{"name": "a", "level": 10**18}] * 2}, "expected 0 to 99"),
        ({"domains": [{"name": "a", "level": -1}] * 2}, "expected 0 to 99"),
        ({"domains": [{"name": "a", "level": 0, "parent": 5}] * 2}, "not there"),
        ({"domains": [{"name": "a", "level": 0, "parent": 1}] * 2}, "not below"),
        ({"domains": [{"name": "a", "level": 0, "uplink_bytes_per_s": -1}] * 2}, "a number"),
    ],
)
def test_a_plan_without_sense_is_refused(change: dict[str, object], said: str) -> None:
    """Numbers that no network has would order the nodes worse, and nobody would see it."""
    assert order_of_tree(PLAN).locality.domain_of == {"n1": 1, "n2": 1, "n3": 0}
    with pytest.raises(ValueError, match=said):
        order_of_tree({**PLAN, **change})


@given(
    key=st.sampled_from(["mesh", "ranks_per_node", "domains", "nodes", "nics", "oversubscription"]),
    value=st.none() | st.text(max_size=3) | st.integers() | st.lists(st.integers(), max_size=2),
)
def test_a_damaged_document_gives_a_plan_or_such_an_error(key: str, value: object) -> None:
    """Nothing else leaves it."""
    tree = {
        **order_tree(
            OrderPlan(
                mesh=Mesh(axes=()),
                ranks_per_node=1,
                locality=Locality(domains=(), domain_of={}, nic_bytes_per_s={}),
                nic_bytes_per_s=1.0,
                nvlink_bytes_per_s=1.0,
                oversubscription=1.0,
                source="x",
            )
        ),
        key: value,
    }
    try:
        order_of_tree(tree)
    except (ValueError, KeyError, TypeError):
        return
