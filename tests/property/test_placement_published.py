"""Groups of one axis on a real fabric, beside published figures for its orders.

The fabric is the NDR capture of 8 racks; each draw takes a random subset of its trays as free. The
figures are means of 300 draws of others: random, host names, packed.
"""

from __future__ import annotations

import random
import statistics
from functools import cache

import pytest

from hpckit.fabric.domains import locality_of
from hpckit.fabric.file import read_fabric
from hpckit.fabric.locality import Locality
from hpckit.placement.compare import place
from hpckit.placement.order_plan import Pattern
from hpckit.placement.request import Compared
from tests.corpus import corpus_file
from tests.fakes.fabrics import mesh, request
from tests.sizes import size, some

CAPTURE = "ib-fabric/topograph-dgx-8racks-4rail-ndr.ibnetdiscover.out"
TRAYS = 119
DRAWS = size(quick=40, whole=300)
ROWS = (
    *((64, 2, 3.49, 1.99), (64, 4, 5.32, 2.95), (64, 8, 5.99, 3.44)),
    *((32, 4, 4.95, 3.04), (96, 4, 5.12, 2.91), (96, 8, 5.94, 3.76)),
)
"""Nodes, nodes of a group, groups that straddle a rack by host names, and packed."""
SIGMAS = 3


@cache
def _racks() -> Locality:
    path = corpus_file(CAPTURE)
    (topology,) = read_fabric(path.read_bytes(), path.name)
    return locality_of(topology)


def _draws(nodes: int, group: int) -> list[Compared]:
    locality = _racks()
    trays = sorted(node for node in locality.domain_of if node != "localhost")
    assert len(trays) == TRAYS
    dice = random.Random(nodes * 100 + group)  # noqa: S311  draws that can be repeated
    wanted = mesh(
        ("data", group, Pattern.RING, 4e9), ("pipeline", nodes // group, Pattern.CHAIN, 0.0)
    )
    return [
        place(request(locality, wanted, nodes=dice.sample(trays, nodes))).groups["data"].straddling
        for _ in range(DRAWS)
    ]


@pytest.mark.parametrize(("nodes", "group", "hostname", "packed"), some(ROWS, 2))
def test_the_published_figures(nodes: int, group: int, hostname: float, packed: float) -> None:
    """Every draw attains the bound, and the means are those published within three errors."""
    draws = _draws(nodes, group)
    assert all(one.placed == one.lower_bound for one in draws)
    for published, seen in (
        (packed, [one.placed for one in draws]),
        (hostname, [one.hostname for one in draws]),
    ):
        error = statistics.stdev(seen) / len(seen) ** 0.5
        assert abs(statistics.mean(seen) - published) <= SIGMAS * error
        print(f"{statistics.mean(seen):.3f} ± {error:.3f}, published {published}")
