"""Rails and planes of a fabric."""

from __future__ import annotations

import dataclasses

from hpckit.fabric.rails import with_rails
from tests.ib_fabrics import MadeFabric, leaf, two_tier


def rails(made: MadeFabric) -> list[tuple[str, ...]]:
    """The leaves of each rail."""
    return [rail.switches for rail in with_rails(made.topology()).rails]


def regular(rails_count: int = 4, racks: int = 4) -> list[tuple[str, ...]]:
    """The leaves of a regular fabric."""
    return [tuple(leaf(rail, rack) for rack in range(racks)) for rail in range(rails_count)]


def test_a_rail_is_the_leaves_to_which_nics_of_one_name_lead() -> None:
    """In the order of the NICs."""
    found = with_rails(two_tier().topology())
    assert [rail.switches for rail in found.rails] == regular()
    assert [rail.nics for rail in found.rails] == [(f"mlx5_{at}",) for at in range(4)]
    assert found.planes == ()


def test_a_swapped_cable_and_a_missing_nic_change_no_rail() -> None:
    """What most nodes do counts."""
    made = two_tier()
    made.exchange(made.hang("n01-c02", "mlx5_0"), made.hang("n01-c02", "mlx5_3"))
    made.hcas.remove(made.hang("n02-c01", "mlx5_1"))
    assert rails(made) == regular()


def test_nics_called_otherwise_are_matched_by_the_steps_of_their_numbers() -> None:
    """HCA-1, HCA-2, HCA-6 are mlx5_0, mlx5_1, mlx5_5, where HCA-5 is not seen anywhere."""
    made = two_tier()
    steps = {"mlx5_0": 0, "mlx5_1": 1, "mlx5_2": 4, "mlx5_3": 5}
    made.hcas = [
        dataclasses.replace(
            one,
            nic=f"HCA-{steps[one.nic] + 1}" if one.node < "n02" else f"mlx5_{steps[one.nic]}",
        )
        for one in made.hcas
    ]
    made.without_switch(leaf(2, 0))
    assert rails(made)[3] == regular()[3]


def test_two_nics_of_a_node_on_one_leaf_are_one_rail() -> None:
    """Eight NICs on four leaves are four rails of two NICs."""
    made = two_tier(8)
    made.hcas = [
        dataclasses.replace(one, switch=leaf(int(one.nic[5:]) // 2, int(one.node[1:3]) - 1))
        for one in made.hcas
    ]
    made.hcas = [dataclasses.replace(one, port=at + 20) for at, one in enumerate(made.hcas)]
    assert [rail.nics for rail in with_rails(made.topology()).rails] == [
        (f"mlx5_{2 * at}", f"mlx5_{2 * at + 1}") for at in range(4)
    ]


def test_nodes_with_all_nics_on_one_leaf_have_no_rails() -> None:
    """Nor have nodes with one NIC."""
    made = two_tier()
    made.hcas = [
        dataclasses.replace(one, switch=leaf(0, int(one.node[1:3]) - 1), port=at + 20)
        for at, one in enumerate(made.hcas)
    ]
    assert rails(made) == []
    assert rails(two_tier(1)) == []


def test_switches_that_no_cable_joins_are_planes() -> None:
    """Each rail with spines of its own is a plane."""
    made = two_tier(2, 2, 4, 2)
    made.wires = [
        one
        for one in made.wires
        if one.lower.startswith(f"leaf-{one.upper.removeprefix('spine-')}")
    ]
    planes = with_rails(made.topology()).planes
    assert [{name[:7] for name in plane} for plane in planes] == [
        {"leaf-01", "spine-0"},
        {"leaf-02", "spine-0"},
    ]
