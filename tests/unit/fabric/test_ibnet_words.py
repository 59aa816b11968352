"""Node descriptions and rates of InfiniBand."""

from __future__ import annotations

import pytest

from hpckit.fabric.ibnetdiscover import described, link_bytes_per_s
from hpckit.fabric.topology import EndKind


@pytest.mark.parametrize(
    ("speed", "gbit_per_s"),
    [
        ("4xSDR", 8),
        ("4xDDR", 16),
        ("4xQDR", 32),
        ("4xFDR10", 40),
        ("4xEDR", 100),
        ("2xHDR", 100),
        ("4xHDR", 200),
        ("4xNDR", 400),
        ("4xXDR", 800),
        ("1xNDR", 100),
        ("12xQDR", 96),
    ],
)
def test_a_rate_is_lanes_times_what_a_lane_carries(speed: str, gbit_per_s: float) -> None:
    """Its encoding is taken off."""
    assert link_bytes_per_s(speed) == gbit_per_s * 1e9 / 8


def test_fdr_is_what_64_of_66_bits_leave() -> None:
    """14.0625 GT/s a lane."""
    assert link_bytes_per_s("4xFDR") == pytest.approx(54.5454e9 / 8, rel=1e-4)


@pytest.mark.parametrize("speed", [None, "", "4x???", "??NDR", "4xZDR", "0xNDR", "NDR", "4xndr"])
def test_a_rate_of_unknown_words_is_not_guessed(speed: str | None) -> None:
    """None is not known."""
    assert link_bytes_per_s(speed) is None


@pytest.mark.parametrize(
    ("words", "kind", "node", "nic"),
    [
        ("n01 mlx5_0", EndKind.COMPUTE, "n01", "mlx5_0"),
        ("n01 HCA-1", EndKind.COMPUTE, "n01", "HCA-1"),
        ("n01.site.org hfi1_0", EndKind.COMPUTE, "n01.site.org", "hfi1_0"),
        ("localhost HCA-3", EndKind.COMPUTE, "localhost", "HCA-3"),
        ("n01", EndKind.COMPUTE, "n01", None),
        ("MT4129 ConnectX7   Mellanox Technologies", EndKind.ANONYMOUS, None, None),
        ("MT25408 ConnectX Mellanox Technologies", EndKind.ANONYMOUS, None, None),
        ("ConnectX-6 HCA", EndKind.ANONYMOUS, None, None),
        ("", EndKind.ANONYMOUS, None, None),
        ("Mellanox Technologies Aggregation Node", EndKind.AGGREGATION, None, None),
        ("the west wing's storage", EndKind.OTHER, None, None),
        ("MF0;gateway:MGA100/U1", EndKind.OTHER, None, None),
    ],
)
def test_whose_a_port_is(words: str, kind: EndKind, node: str | None, nic: str | None) -> None:
    """A description names a node, or is of the maker, or is something else."""
    assert described(words) == (kind, node, nic)
