"""Rings that links without a switch have room for."""

from __future__ import annotations

from itertools import combinations, pairwise

import pytest

from hpckit.comm.bandwidth.values import links_in_rings

CUBE_MESH = {
    (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2,
    (2, 6): 1, (3, 7): 1, (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
}  # fmt: skip


def every(count: int, links: int) -> dict[tuple[int, int], int]:
    """So many links between all pairs."""
    return dict.fromkeys(combinations(range(count), 2), links)


@pytest.mark.parametrize(
    ("gpus", "counts", "found"),
    [
        (2, {(0, 1): 4}, 4),
        (2, {}, None),
        (3, every(3, 2), 4),
        (4, every(4, 1), 2),
        (4, every(4, 2), 6),
        (4, every(4, 4), 12),
        (8, every(8, 1), 7),
        (8, CUBE_MESH, 6),
        (4, {(0, 1): 2, (2, 3): 2}, None),
        (4, {(0, 1): 3, (1, 2): 1, (2, 3): 3, (0, 3): 1}, 2),
    ],
    ids=["pair", "none", "three", "K4", "K4x2", "K4x4", "K8", "cube", "islands", "square"],
)
def test_links_in_rings(gpus: int, counts: dict[tuple[int, int], int], found: int | None) -> None:
    """Regular meshes are used whole; K4 of single links and a square with a weak side are not."""
    assert links_in_rings(range(gpus), counts) == found


def test_a_hopeless_mesh_ends_soon() -> None:
    """A path of 16 GPUs has no ring, and it is not looked for without end."""
    counts = dict.fromkeys(pairwise(range(16)), 4) | dict.fromkeys(combinations(range(9), 2), 1)
    assert links_in_rings(range(16), counts) is None
