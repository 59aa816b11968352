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
    Speeds,
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
        speeds=Speeds(
            nic_bytes_per_s=draw(SPEEDS),
            nvlink_bytes_per_s=draw(SPEEDS),
            oversubscription=draw(st.floats(1, 100)),
        ),
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
        speeds=Speeds(nic_bytes_per_s=4e11, nvlink_bytes_per_s=3e12, oversubscription=2.0),
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
