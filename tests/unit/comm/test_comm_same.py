"""Whether two values of a communication variable say the same."""

from __future__ import annotations

import pytest

from hpckit.comm.facts import level_of, says_the_same


@pytest.mark.parametrize(
    ("name", "value", "derived"),
    [
        ("NCCL_CROSS_NIC", "01", "1"),
        ("NCCL_CROSS_NIC", " 1 ", "1"),
        ("NCCL_NET_GDR_LEVEL", "3", "PHB"),
        ("NCCL_NET", "aws libfabric", "AWS Libfabric"),
        ("NCCL_SOCKET_IFNAME", "hsn0,hsn1", "hsn"),
        ("NCCL_SOCKET_IFNAME", "=hsn0", "hsn"),
        ("NCCL_IB_HCA", "=mlx5_1,mlx5_0", "=mlx5_0,mlx5_1"),
    ],
)
def test_the_same_written_otherwise_is_the_same(name: str, value: str, derived: str) -> None:
    """Numbers, levels, names in any case and lists in any order are compared by what they mean."""
    assert says_the_same(name, value, derived)


@pytest.mark.parametrize(
    ("name", "value", "derived"),
    [
        ("NCCL_CROSS_NIC", "2", "1"),
        ("NCCL_NET_GDR_LEVEL", "4", "PHB"),
        ("NCCL_NET_GDR_LEVEL", "phb", "PHB"),
        ("NCCL_NET", "Socket", "AWS Libfabric"),
        ("NCCL_SOCKET_IFNAME", "hsn0,eth0", "hsn"),
        ("NCCL_SOCKET_IFNAME", "eth0", "^docker,lo,veth"),
        ("NCCL_SOCKET_IFNAME", "", "hsn"),
        ("NCCL_IB_HCA", "mlx5_0,mlx5_1", "=mlx5_0,mlx5_1"),
        ("NCCL_IB_HCA", "=mlx5_0", "=mlx5_0,mlx5_1"),
        ("NCCL_ALGO", "ring", "Ring"),
    ],
)
def test_what_means_another_thing_is_not_the_same(name: str, value: str, derived: str) -> None:
    """One more interface, a prefix for a device, another level: each is another value."""
    assert not says_the_same(name, value, derived)


@pytest.mark.parametrize(
    ("value", "level"), [("0", "LOC"), ("3", "PHB"), ("9", "SYS"), ("PHB", None)]
)
def test_old_levels_are_numbers(value: str, level: str | None) -> None:
    """0 to 4 are words in order, and more is SYS."""
    assert level_of(value) == level
