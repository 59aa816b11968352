"""How long links are busy under an order, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.core.errors import PlanError
from hpckit.fabric.locality import Domain, Locality
from hpckit.placement.compare import place
from hpckit.placement.instance import NET_LATENCY_S, NVLINK_LATENCY_S, Loads
from hpckit.placement.order import PlacementRequest, instance_of
from hpckit.placement.order_plan import Pattern
from hpckit.placement.traffic import traffic_of
from tests.fakes.fabrics import NIC_BYTES_PER_S, SPEEDS, mesh, request

PAIRS = mesh(("data", 2, Pattern.RING, 1.0), ("pipeline", 2, Pattern.CHAIN, 0.0))


def loads(asked: PlacementRequest) -> Loads:
    """Those of the nodes in natural order."""
    return Loads(instance_of(asked), range(len(asked.nodes)))


def one_leaf(*blocks: tuple[bool, int]) -> Locality:
    """Blocks of so many nodes below one leaf, each an NVLink domain or not."""
    domains = [Domain(name="leaf", level=1)]
    domain_of: dict[str, int] = {}
    for is_nvlink, count in blocks:
        domains.append(Domain(name="b", level=0, parent=0, is_nvlink=is_nvlink))
        for _ in range(count):
            domain_of[f"n{len(domain_of) + 1}"] = len(domains) - 1
    return Locality(domains=tuple(domains), domain_of=domain_of, nic_bytes_per_s={})


@pytest.mark.parametrize(
    ("blocks", "latency_s"),
    [
        (((True, 2), (True, 2)), 2 * NVLINK_LATENCY_S),
        (((True, 2), (False, 2)), 2 * NET_LATENCY_S),
    ],
)
def test_the_latency_of_nvlink_is_of_its_own_nodes(
    blocks: tuple[tuple[bool, int], ...], latency_s: float
) -> None:
    """A pair of another block waits for the network, as its axis does then."""
    assert loads(request(one_leaf(*blocks), PAIRS)).latency_s(0) == pytest.approx(latency_s)


def test_cables_are_counted_where_a_tree_is_not_as_deep_everywhere() -> None:
    """A leaf right below the core is one cable from it, and one below a spine two."""
    locality = Locality(
        domains=(
            Domain(name="core", level=3),
            Domain(name="spine", level=2, parent=0),
            Domain(name="leaf1", level=1, parent=1),
            Domain(name="leaf2", level=1, parent=1),
            Domain(name="leaf3", level=1, parent=0),
        ),
        domain_of={"n1": 2, "n2": 3, "n3": 4},
        nic_bytes_per_s={},
    )
    ring = request(locality, mesh(("data", 3, Pattern.RING, 1.5)))
    assert loads(ring).hop_bytes() == pytest.approx(2.0 * (4 + 5 + 5))


def test_nics_and_nvlink_of_a_node_work_at_once() -> None:
    """An all-to-all over two NVLink domains is bound by what their nodes send to each other."""
    locality = one_leaf((True, 5), (True, 5))
    asked = request(locality, mesh(("expert", 10, Pattern.ALL_TO_ALL, 1e12)))
    asked = replace(asked, speeds=replace(SPEEDS, nvlink_bytes_per_s=NIC_BYTES_PER_S))
    time = place(asked).objectives["step_comm_time_s"]
    assert time.placed == pytest.approx(0.5 * 1e12 / NIC_BYTES_PER_S, rel=1e-3)
    assert time.lower_bound == pytest.approx(time.placed)


def test_an_all_to_all_of_too_many_pairs_is_refused() -> None:
    """Unless it sends nothing: then it has no edges."""
    with pytest.raises(PlanError, match="spans too many nodes: have 313040 pairs of nodes"):
        traffic_of(mesh(("expert", 560, Pattern.ALL_TO_ALL, 1e9)), 1)
    (traffic,) = traffic_of(mesh(("expert", 560, Pattern.ALL_TO_ALL, 0.0)), 1)
    assert traffic.lanes == ()
