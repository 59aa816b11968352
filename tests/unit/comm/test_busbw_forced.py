"""Algorithms that variables turn off, and what is predicted then."""

from __future__ import annotations

import pytest

from hpckit.comm.bandwidth.predict import forced_off, predict
from hpckit.comm.bandwidth.values import Algorithm, Collective
from hpckit.spec.platform import NcclVersion
from tests.fakes.busbw_machines import switched

SWITCH = {Algorithm.NVLS, Algorithm.NVLS_TREE}


@pytest.mark.parametrize(
    ("name", "value", "off"),
    [
        ("NCCL_ALGO", "Ring", {Algorithm.TREE} | SWITCH),
        ("NCCL_ALGO", "ring, nvlstree", {Algorithm.TREE, Algorithm.NVLS}),
        ("NCCL_ALGO", "^Tree", {Algorithm.TREE}),
        ("NCCL_ALGO", "allreduce:tree", set()),
        ("NCCL_NVLS_ENABLE", "0", SWITCH),
        ("NCCL_NVLS_ENABLE", "1", set()),
        ("NCCL_PROTO", "Simple", set()),
    ],
)
def test_variables_turn_algorithms_off(name: str, value: str, off: set[Algorithm]) -> None:
    """A list leaves what it names, one behind ^ the others; lists by function are not read."""
    assert forced_off([(name, value)]) == off


def test_a_collective_without_an_algorithm_says_so() -> None:
    """Trees alone leave AllGather none."""
    found = predict(switched(), 1, off=forced_off([("NCCL_ALGO", "Tree")]))
    (one,) = (each for each in found if each.collective is Collective.ALL_GATHER)
    assert one.busbw_bytes_per_s is None
    assert "NCCL_ALGO leaves it no algorithm" in one.because


def test_rings_step_in_before_2_24() -> None:
    """Trees alone leave AllGather its rings there, and AllReduce its trees."""
    off = forced_off([("NCCL_ALGO", "Tree")])
    found = predict(switched(), 1, nccl=NcclVersion(2, 20, 5), off=off)
    by = {one.collective: (one.algorithm, one.busbw_bytes_per_s) for one in found if one.is_best}
    assert by[Collective.ALL_GATHER] == (Algorithm.RING, 360e9)
    assert by[Collective.ALL_REDUCE][0] is Algorithm.TREE
