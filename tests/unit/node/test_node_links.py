"""What links make of GPUs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hpckit.node.links import gpu_reach, link_islands
from hpckit.node.path import LINK_BYTES_PER_S
from hpckit.node.topology import GpuLink, LinkKind
from tests.fakes.machine_parts import with_dead_link
from tests.fakes.machines import dgx_1v, dgx_h100


def _pair(a: int, b: int, count: int | None) -> GpuLink:
    return GpuLink(a=a, b=b, kind=LinkKind.NVLINK, count=count)


def test_all_pairs_of_equal_links_are_a_full_island() -> None:
    """Each GPU has its own count, also the one with a dead link."""
    (island,) = link_islands(with_dead_link(dgx_h100(), 5))
    assert island.counts == (18, 18, 18, 18, 18, 17, 18, 18)
    assert island.is_switched is True


def test_cube_mesh_is_not_full() -> None:
    """GPUs that do not all reach each other have no count of their own."""
    (island,) = link_islands(dgx_1v())
    assert island.counts is None


def test_unequal_pairs_are_not_full() -> None:
    """Three GPUs with one, one and two links are a mesh; so are pairs of which one is unknown."""
    links = (_pair(0, 1, 1), _pair(0, 2, 1), _pair(1, 2, 2))
    (island,) = link_islands(replace(dgx_1v(), gpu_links=links))
    assert island.counts == (1, 2, 2)
    mesh = (_pair(0, 1, 1), _pair(0, 2, 2), _pair(1, 2, 2), _pair(0, 3, 2), _pair(1, 3, 1))
    (island,) = link_islands(replace(dgx_1v(), gpu_links=(*mesh, _pair(2, 3, 1))))
    assert island.counts is None
    (island,) = link_islands(replace(dgx_1v(), gpu_links=(*links[:2], _pair(1, 2, None))))
    assert island.counts is None


def test_reach_groups_peers_by_their_links() -> None:
    """Most links first; all others are named as such."""
    reach = gpu_reach(dgx_1v())[0]
    assert [(one.count, one.gpus, one.is_all) for one in reach] == [
        (2, (3, 4), False),
        (1, (1, 2), False),
    ]
    assert [one.is_all for one in gpu_reach(dgx_h100())[0]] == [True]


def test_links_of_several_hops_are_no_links_of_a_pair() -> None:
    """By weight or hops, where no count says otherwise; two GPUs that only those join are apart."""
    xgmi = GpuLink(a=0, b=1, kind=LinkKind.XGMI, weight=15, hops=1)
    far = (replace(xgmi, b=2, weight=30, hops=None), replace(xgmi, a=1, b=2, weight=None, hops=2))
    node = replace(dgx_1v(), gpu_links=(xgmi, *far))
    assert [island.gpus for island in link_islands(node)] == [(0, 1)]
    assert [(one.gpus, one.is_direct) for one in gpu_reach(node)[1]] == [
        ((0,), True),
        ((2,), False),
    ]
    counted = replace(far[0], count=1)
    assert [island.gpus for island in link_islands(replace(node, gpu_links=(counted,)))] == [(0, 2)]


@pytest.mark.parametrize(
    ("architecture", "links", "gb_per_s"),
    [
        ("sm_60", 4, 80),
        ("sm_70", 6, 150),
        ("sm_75", 2, 50),
        ("sm_80", 12, 300),
        ("sm_86", 4, 56.25),
        ("sm_90", 18, 450),
        ("sm_100", 18, 900),
    ],
)
def test_the_links_of_a_gpu_carry_what_its_data_sheet_says(
    architecture: str, links: int, gb_per_s: float
) -> None:
    """Half of the total that NVIDIA prints, which adds both directions."""
    assert links * LINK_BYTES_PER_S[architecture] == gb_per_s * 1e9
